"""Tables of several files, and their rows rewritten to one."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.types import LongType, StringType, StructType

from anabranch.deletion_vectors.vector_reading import load_vectors
from anabranch.log.file_columns import table_of_adds
from anabranch.protocol.data_paths import decode_path
from anabranch.protocol.properties import TableProperties
from anabranch.spark.engine import RewriteRequest, RewrittenFile, ScanRequest
from anabranch.storage.local.local_store import LocalStore
from spark.engines import EngineTable, struct

MakeTable = Callable[..., EngineTable]
HIDDEN = {1: [0, 3, 4], 3: [7], 4: list(range(0, 9000, 3))}
"""By number of the file, of those that `several_files` makes."""
COUNTS = [10, 5, 2000, 8, 9000, 1, 10]
TASKS_MAX = 1


def ids_and_texts() -> StructType:
    return struct(("id", LongType()), ("text", StringType()))


def several_files(table: EngineTable, *, extra: str = "") -> None:
    """Files of different sizes, some equal, some with hidden rows, as in a table with many writers."""
    start = 0
    for count in COUNTS:
        frame = table.spark.range(start, start + count, 1, 1).selectExpr("id", "concat('name ', id) AS text")
        table.write(frame.selectExpr("*", extra) if extra else frame)
        start += count
    for file, rows in HIDDEN.items():
        table.hide(file, rows)


def rewrite(table: EngineTable, *, row_counts: Sequence[int] | None, **facts: Any) -> RewrittenFile:
    store = LocalStore(table.root)
    scan = ScanRequest(
        table_root=table.root,
        version=table.version,
        schema=table.schema,
        partition_columns=table.partition_columns,
        column_mapping=table.mode,
        files=table_of_adds(table.adds),
        load_vectors=functools.partial(load_vectors, store),
    )
    mapping = {"delta.columnMapping.mode": table.mode.value} if table.mode.maps else {}
    properties = TableProperties({**mapping, **table.configuration})
    facts = {"tasks_max": TASKS_MAX, **facts}
    return table.engine.rewrite(RewriteRequest(scan=scan, row_counts=row_counts, properties=properties, **facts))


def parquet_file(table: EngineTable, result: RewrittenFile) -> pq.ParquetFile:
    (add,) = result.written.adds
    return pq.ParquetFile(f"{table.root}/{decode_path(add.path, table_root=table.root)}")


def expected_ids(result: RewrittenFile) -> list[int]:
    starts = np.cumsum([0, *COUNTS])
    return [
        int(starts[file]) + row
        for file in result.order
        for row in range(COUNTS[file])
        if row not in HIDDEN.get(file, ())
    ]


def stored(table: EngineTable, result: RewrittenFile) -> pa.Table:
    (add,) = result.written.adds
    return pq.read_table(f"{table.root}/{decode_path(add.path, table_root=table.root)}", partitioning=None)
