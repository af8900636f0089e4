"""Tables whose rows have ids, and what their files say of these, by pyarrow alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from anabranch.commands.table_access import TableRef
from anabranch.deletion_vectors.vector_reading import load_vector
from anabranch.schema.column_mapping import physical_name
from anabranch.tables import DeltaTable
from session_kinds import table_ref

TRACKED = {"delta.enableRowTracking": "true", "delta.enableDeletionVectors": "true"}
Ids: TypeAlias = dict[int, tuple[int, int]]


def append(delta: SparkSession, path: str, start: int, end: int, **options: str) -> None:
    frame = delta.range(start, end, 1, 1).selectExpr("id", "id % 5 AS k", "concat('n', id % 3) AS name")
    frame.write.format("delta").mode("append").options(**options).save(path)


def delete(delta: SparkSession, path: str, *gone: int) -> None:
    DeltaTable.forPath(delta, path).delete(f"id IN ({', '.join(map(str, gone))})")


def table(delta: SparkSession, path: str) -> TableRef:
    return table_ref(delta, path)


def stored(table: TableRef, file: str) -> pa.Table:
    return pq.read_table(Path(table.path) / file)


def tracked(table: TableRef) -> Ids:
    """The stable row id and commit version of each row, by its value `id`: as the protocol says, by pyarrow alone."""
    snapshot = table.latest()
    key = physical_name(snapshot.schema["id"], snapshot.column_mapping_mode)
    names = (
        snapshot.properties.materialized_row_id_column,
        snapshot.properties.materialized_row_commit_version_column,
    )
    ids: Ids = {}
    for add in snapshot.files.to_actions():
        rows = stored(table, add.path)
        hidden = load_vector(table.delta_log.store, add.deletion_vector) if add.deletion_vector else ()
        kept = [rows[name].to_pylist() if name in rows.column_names else [None] * len(rows) for name in names]
        assert add.base_row_id is not None
        assert add.default_row_commit_version is not None
        for position, value in enumerate(rows[key].to_pylist()):
            if position not in hidden:
                row_id, version = (column[position] for column in kept)
                ids[value] = (
                    add.base_row_id + position if row_id is None else row_id,
                    add.default_row_commit_version if version is None else version,
                )
    return ids


def last_commit(table: TableRef) -> dict[str, list[dict[str, Any]]]:
    actions: dict[str, list[dict[str, Any]]] = {}
    log = Path(table.path) / "_delta_log" / f"{table.latest().version:020}.json"
    for line in log.read_text().splitlines():
        for kind, fields in json.loads(line).items():
            actions.setdefault(kind, []).append(fields)
    return actions
