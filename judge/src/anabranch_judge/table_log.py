"""The versions of a table, replayed from its log: the rows of each, and what its change feed says."""

from __future__ import annotations

import dataclasses
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from anabranch_judge.effects import Difference
from anabranch_judge.errors import JudgeError
from anabranch_judge.hidden_rows import hidden_positions
from anabranch_judge.rows import Row, Rows, row_of

COMMIT = re.compile(r"(\d{20})\.json")
SIGNS = {"update_preimage": -1, "delete": -1, "update_postimage": 1, "insert": 1}
"""What each kind of change in a feed does to the number of its row."""
INTEGERS = {"byte", "short", "integer", "long"}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Version:
    """One version of the table."""

    number: int
    info: Mapping[str, Any]
    rows: Rows
    difference: Difference
    """The difference from the version before."""
    feed: Rows | None
    """The rows of the commit's change files with their numbers, negative where they are removed. None without files."""
    wrong_files: Sequence[str]
    """What is wrong with descriptions of data files."""
    changes_data: bool
    """Whether an action says that it changes data."""

    def says(self, name: str) -> bool:
        """Whether commitInfo has this text as a value: engines store a writer's metadata under different names."""
        return any(
            value == name or (isinstance(value, Mapping) and name in value.values()) for value in self.info.values()
        )


@dataclasses.dataclass
class _State:
    files: dict[str, tuple[dict[str, Any], Rows]] = dataclasses.field(default_factory=dict)
    metadata: dict[str, Any] | None = None

    @property
    def rows(self) -> Rows:
        total: Rows = Counter()
        for _, rows in self.files.values():
            total.update(rows)
        return total


class TableLog:
    """A table's versions, from 0 to the newest. Raises `JudgeError` where the log or a data file cannot be read."""

    def __init__(self, table: str) -> None:
        self.table = table
        self._files, self._root = _file_system(table)
        self._tables: dict[str, list[dict[str, Any]]] = {}
        self.versions = self._replayed()

    def _replayed(self) -> list[Version]:
        state, versions = _State(), list[Version]()
        for number in self._commit_numbers():
            actions = [json.loads(line) for line in self._bytes(f"_delta_log/{number:020d}.json").splitlines() if line]
            before = versions[-1].rows if versions else Counter[Row]()
            versions.append(self._version(number, actions, state, before))
        return versions

    def _commit_numbers(self) -> list[int]:
        listed = self._files.get_file_info(pafs.FileSelector(f"{self._root}/_delta_log", allow_not_found=True))
        numbers = sorted(int(match[1]) for file in listed if (match := COMMIT.fullmatch(file.base_name)))
        if not numbers:
            raise JudgeError(f"{self.table} has no log")
        if numbers != list(range(len(numbers))):
            raise JudgeError(f"commits are missing in the log of {self.table}: it has {numbers[0]} to {numbers[-1]}")
        return numbers

    def _version(self, number: int, actions: list[dict[str, Any]], state: _State, before: Rows) -> Version:
        by_kind: dict[str, list[dict[str, Any]]] = {}
        for action in actions:
            for kind, fields in action.items():
                by_kind.setdefault(kind, []).append(fields)
        state.metadata = by_kind.get("metaData", [state.metadata])[-1]
        if state.metadata is None:
            raise JudgeError(f"version {number} of {self.table} has no metadata")
        names = _physical_names(state.metadata)
        # A commit that gives a file another vector removes and adds one path.
        for file in by_kind.get("remove", []):
            if file["path"] not in state.files:
                raise JudgeError(f"version {number} removes {file['path']}, which version {number - 1} does not have")
            del state.files[file["path"]]
        wrong_files = [text for file in by_kind.get("add", []) if (text := self._wrong_file(file)) is not None]
        for file in by_kind.get("add", []):
            state.files[file["path"]] = file, self._rows(file, names)
        rows = state.rows
        changes = [file for kind in ("add", "remove") for file in by_kind.get(kind, [])]
        return Version(
            number=number,
            info=by_kind.get("commitInfo", [{}])[0],
            rows=rows,
            difference=Difference.between(before, rows),
            feed=self._feed(by_kind["cdc"], names) if "cdc" in by_kind else None,
            wrong_files=wrong_files,
            changes_data=any(file["dataChange"] for file in changes),
        )

    def _wrong_file(self, file: dict[str, Any]) -> str | None:
        """What is wrong with the description of a data file, by which other readers may fail to read it."""
        size = len(self._bytes(unquote(file["path"])))
        if file["size"] != size:
            return f"the log says that {file['path']} has {file['size']} bytes, and it has {size}"
        if file["path"].startswith("/"):
            return f"the path {file['path']} is neither relative to the table nor a URI"
        return None

    def _feed(self, files: list[dict[str, Any]], names: Mapping[str, Any]) -> Rows:
        feed: Rows = Counter()
        for file in files:
            for values in self._values(file["path"]):
                feed[_row(values, file, names)] += SIGNS[values["_change_type"]]
        return Counter({row: count for row, count in feed.items() if count})

    def _rows(self, file: dict[str, Any], names: Mapping[str, Any]) -> Rows:
        vector = file.get("deletionVector")
        hidden = hidden_positions(vector, self._bytes) if vector else frozenset()
        rows = enumerate(self._values(file["path"]))
        return Counter(_row(values, file, names) for position, values in rows if position not in hidden)

    def _values(self, path: str) -> list[dict[str, Any]]:
        """The rows of a data file by the names in it. Files are immutable, so each is read once."""
        if path not in self._tables:
            self._tables[path] = pq.ParquetFile(pa.BufferReader(self._bytes(unquote(path)))).read().to_pylist()
        return self._tables[path]

    def _bytes(self, path: str) -> bytes:
        """The bytes of a file, by its path in the table or its URL."""
        try:
            files, full_path = _file_system(path) if "://" in path else (self._files, f"{self._root}/{path}")
            with files.open_input_stream(full_path) as stream:
                content: bytes = stream.read()
        except OSError as error:
            raise JudgeError(f"{path} of {self.table} cannot be read: {error}") from None
        return content


def _file_system(path: str) -> tuple[pafs.FileSystem, str]:
    if "://" not in path:
        return pafs.LocalFileSystem(), path.rstrip("/")
    files, root = pafs.FileSystem.from_uri(path)
    return files, root.rstrip("/")


def _physical_names(metadata: dict[str, Any]) -> dict[str, tuple[str, Any]]:
    """For each column its name in data files and its type."""
    mapped = metadata.get("configuration", {}).get("delta.columnMapping.mode", "none") != "none"
    return {
        field["name"]: (
            field["metadata"]["delta.columnMapping.physicalName"] if mapped else field["name"],
            field["type"],
        )
        for field in json.loads(metadata["schemaString"])["fields"]
    }


def _row(values: dict[str, Any], file: dict[str, Any], names: Mapping[str, tuple[str, Any]]) -> Row:
    partition = file["partitionValues"]
    return row_of(
        {
            name: _partition_value(partition[physical], kind) if physical in partition else values.get(physical)
            for name, (physical, kind) in names.items()
        }
    )


def _partition_value(text: str | None, kind: Any) -> Any:
    if text in {None, ""}:
        return None
    assert text is not None
    if kind in INTEGERS:
        return int(text)
    if kind in {"float", "double"}:
        return float(text)
    return text == "true" if kind == "boolean" else text
