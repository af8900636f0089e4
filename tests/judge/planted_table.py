"""A table whose log a test writes by itself, so that it may hold lies, and the history that goes with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from anabranch_judge.judgement import Judgement, judge
from anabranch_judge.recorded_history import read_history
from anabranch_judge.table_log import TableLog

SCHEMA = {
    "type": "struct",
    "fields": [{"name": name, "type": "long", "nullable": True, "metadata": {}} for name in ("k", "v")],
}
Cells = dict[int, int]
"""The value of each key."""


class PlantedTable:
    def __init__(self, path: Path, rows: Cells, *, configuration: dict[str, str] | None = None) -> None:
        self.path, self.next, self.files = path, 0, list[str]()
        self.events: list[dict[str, Any]] = []
        (path / "_delta_log").mkdir(parents=True)
        metadata = {
            "id": "t",
            "format": {"provider": "parquet", "options": {}},
            "schemaString": json.dumps(SCHEMA),
            "partitionColumns": [],
            "configuration": configuration or {},
        }
        first: list[dict[str, Any]] = [
            {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
            {"metaData": metadata},
        ]
        self.commit([*first, self.add(rows)])

    def add(self, rows: Cells, **fields: Any) -> dict[str, Any]:
        name = f"{self.next}-{len(self.files)}.parquet"
        pq.write_table(pa.table({"k": list(rows), "v": list(rows.values())}), self.path / name)
        self.files.append(name)
        action = {
            "path": name,
            "partitionValues": {},
            "size": (self.path / name).stat().st_size,
            "modificationTime": 0,
            "dataChange": True,
        }
        return {"add": action | fields}

    def feed_file(self, changes: list[tuple[str, int, int]]) -> dict[str, Any]:
        name = f"feed-{self.next}.parquet"
        kinds, keys, values = ([change[index] for change in changes] for index in range(3))
        pq.write_table(pa.table({"k": keys, "v": values, "_change_type": kinds}), self.path / name)
        return {"cdc": {"path": name, "partitionValues": {}, "size": 1, "dataChange": False}}

    def commit(self, actions: list[dict[str, Any]], **info: Any) -> int:
        lines = [{"commitInfo": {"operation": "WRITE", **info}}, *actions]
        path = self.path / "_delta_log" / f"{self.next:020d}.json"
        path.write_text("\n".join(map(json.dumps, lines)))
        self.next += 1
        return self.next - 1

    def rewrite(self, rows: Cells, *more: dict[str, Any], data_change: bool = True, **info: Any) -> int:
        """A version with these rows in one new file."""
        removed = [{"remove": {"path": name, "dataChange": data_change, "deletionTimestamp": 0}} for name in self.files]
        self.files.clear()
        return self.commit([*removed, self.add(rows, dataChange=data_change), *more], **info)

    def record(
        self,
        name: str,
        *changes: dict[str, Any],
        version: int | None = None,
        reads: list[dict[str, Any]] | None = None,
        outcome: str | None = "committed",
    ) -> None:
        """What the writer of a statement recorded; without an outcome it was killed."""
        self.events.append({"event": "begin", "statement": name, "engine": "liar 1.0", "operation": "UPDATE"})
        self.events += [{"event": "read", "statement": name, **read} for read in reads or []]
        self.events.append({"event": "change", "statement": name, "changes": list(changes)})
        if outcome is not None:
            self.events.append({"event": "end", "statement": name, "outcome": outcome, "version": version})

    def write_history(self) -> Path:
        path = self.path.parent / "history.jsonl"
        path.write_text("".join(f"{json.dumps(event)}\n" for event in self.events))
        return path

    def judgement(self) -> Judgement:
        return judge(TableLog(str(self.path)), read_history([self.write_history()]), key=["k"])


def put(key: int, value: int) -> dict[str, Any]:
    return {"do": "update", "where": {"k": key}, "set": {"v": value}}


def increase(key: int, by: int) -> dict[str, Any]:
    return {"do": "update", "where": {"k": key}, "add": {"v": by}}


def delete(key: int) -> dict[str, Any]:
    return {"do": "delete", "where": {"k": key}}


def insert(key: int, value: int) -> dict[str, Any]:
    return {"do": "insert", "row": {"k": key, "v": value}}
