"""The rows of each version of a table, by a few lines that share no code with what they judge but for deletion vectors.

Follows a log as it grows. What it has once read of a data file it keeps, so VACUUM takes nothing from it.
"""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow.parquet as pq

from anabranch.storage.local.local_store import LocalStore
from transactions.log_linter import hidden_rows

Values = tuple[tuple[str, int | None], ...]
"""A row: its columns and their values, by name."""
OF_CHANGES = {"update_preimage": -1, "delete": -1, "update_postimage": 1, "insert": 1}


def row_of(row: Any) -> Values:
    return tuple(sorted(row.items()))


@dataclasses.dataclass
class Version:
    """What one commit made of the table."""

    version: int
    info: dict[str, Any]
    metadata: dict[str, Any]
    protocol: dict[str, Any]
    clustered_by: list[list[str]] | None
    columns: tuple[str, ...]
    physical_names: dict[str, str]
    """By the names that users see."""
    rows: Counter[Values]
    changes: Counter[Values] | None
    """What the commit's change files add and take; None where it has none."""
    bytes_of_files: int

    @property
    def statement(self) -> str | None:
        statement = self.info.get("userMetadata")
        assert statement is None or isinstance(statement, str)
        return statement

    @property
    def configuration(self) -> dict[str, str]:
        configuration: dict[str, str] = self.metadata["configuration"]
        return configuration


class Versions:
    """The log of one table."""

    def __init__(self, path: Path) -> None:
        self.path, self.store = path, LocalStore(str(path))
        self.next = 0
        self.live: dict[str, dict[str, Any]] = {}
        self.metadata: dict[str, Any] = {}
        self.protocol: dict[str, Any] = {}
        self.clustered_by: list[list[str]] | None = None
        self.kept: dict[str, list[dict[str, Any]]] = {}
        self.shown: dict[str, frozenset[int]] = {}

    def new(self) -> Version | None:
        """The next version, if it is there."""
        commit = self.path / "_delta_log" / f"{self.next:020d}.json"
        if not commit.exists():
            return None
        actions = [json.loads(line) for line in commit.read_text().splitlines()]
        self.next += 1
        info, changes = {}, []
        for action in actions:
            info = action.get("commitInfo", info)
            self.metadata = action.get("metaData", self.metadata)
            self.protocol = action.get("protocol", self.protocol)
            if action.get("domainMetadata", {}).get("domain") == "delta.clustering":
                domain = action["domainMetadata"]
                columns = None if domain["removed"] else json.loads(domain["configuration"])["clusteringColumns"]
                self.clustered_by = columns
            if "cdc" in action:
                changes.append(action["cdc"])
        # A commit that gives a file another vector removes and adds one path.
        for action in actions:
            if "remove" in action:
                self.live.pop(action["remove"]["path"], None)
        for action in actions:
            if "add" in action:
                self._add(action["add"])
        return self._version(info, changes)

    def _add(self, file: dict[str, Any]) -> None:
        self.live[file["path"]] = file
        self._rows_in(file["path"])
        self.shown[file["path"]] = hidden_rows(self.store, file) or frozenset()

    def _rows_in(self, path: str) -> list[dict[str, Any]]:
        """The rows by the names in the file."""
        if path not in self.kept:
            self.kept[path] = pq.ParquetFile(self.path / unquote(path)).read().to_pylist()
        return self.kept[path]

    def _version(self, info: dict[str, Any], changes: list[dict[str, Any]]) -> Version:
        fields = json.loads(self.metadata["schemaString"])["fields"]
        mapped = self.metadata["configuration"].get("delta.columnMapping.mode", "none") != "none"
        names = {
            field["name"]: field["metadata"]["delta.columnMapping.physicalName"] if mapped else field["name"]
            for field in fields
        }
        rows: Counter[Values] = Counter()
        for path, file in self.live.items():
            hidden = self.shown[path]
            for position, row in enumerate(self.kept[path]):
                if position not in hidden:
                    rows[self._seen(row, file, names)] += 1
        return Version(
            version=self.next - 1,
            info=info,
            metadata=self.metadata,
            protocol=self.protocol,
            clustered_by=self.clustered_by,
            columns=tuple(names),
            physical_names=names,
            rows=rows,
            changes=self._changes(changes, names) if changes else None,
            bytes_of_files=sum(file["size"] for file in self.live.values()),
        )

    def _seen(self, row: dict[str, Any], file: dict[str, Any], names: dict[str, str]) -> Values:
        seen: dict[str, int | None] = {}
        for name, physical in names.items():
            if physical in file["partitionValues"]:
                value = file["partitionValues"][physical]
                seen[name] = None if value in {None, ""} else int(value)
            else:
                seen[name] = row.get(physical)
        return row_of(seen)

    def _changes(self, files: list[dict[str, Any]], names: dict[str, str]) -> Counter[Values]:
        changes: Counter[Values] = Counter()
        for file in files:
            for row in self._rows_in(file["path"]):
                changes[self._seen(row, file, names)] += OF_CHANGES[row["_change_type"]]
        return changes
