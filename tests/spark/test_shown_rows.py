"""Scans whose vectors name the rows to read, of files that are in the list several times."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import msgspec
import pyarrow as pa
import pytest
from pyroaring import BitMap64
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import LongType, StringType

from anabranch.deletion_vectors.vector_descriptors import inline_descriptor
from anabranch.deletion_vectors.vector_reading import load_vectors
from anabranch.log.file_columns import table_of_adds
from anabranch.protocol.actions import AddFile
from anabranch.spark.engine import ScanRequest
from anabranch.storage.local.local_store import LocalStore
from spark.engines import EngineTable, struct

pytestmark = pytest.mark.spark

ROWS = 9_000
SHOWN = {"first": {0, 63, 4_096, ROWS - 1}, "second": {63, 64}, "third": set[int]()}


def shown_rows(table: EngineTable, add: AddFile) -> DataFrame:
    """The file, once for each way to look at it."""
    files = table_of_adds(
        [
            msgspec.structs.replace(
                add, partition_values={"look": name}, deletion_vector=inline_descriptor(BitMap64(sorted(rows)))
            )
            for name, rows in SHOWN.items()
        ]
    )
    store = LocalStore(table.root)
    return table.engine.scan(
        ScanRequest(
            table_root=table.root,
            version=None,
            schema=table.schema,
            partition_columns=("look",),
            column_mapping=table.mode,
            files=files,
            load_vectors=functools.partial(load_vectors, store),
            vectors_show=True,
        )
    )


@contextmanager
def compiling(spark: SparkSession, wanted: bool) -> Iterator[None]:
    """Spark passes rows one by one without it, and constants of files are small."""
    spark.conf.set("spark.sql.codegen.wholeStage", str(wanted).lower())
    try:
        yield
    finally:
        spark.conf.unset("spark.sql.codegen.wholeStage")


@pytest.mark.parametrize("path", ["f.parquet", "_hidden.parquet"], ids=["a plain file", "a file hidden from Spark"])
@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "interpreted"])
def test_only_these_rows_are_read(
    table_of: Callable[..., EngineTable], spark: SparkSession, path: str, compiled: bool
) -> None:
    table = table_of(struct(("id", LongType()), ("look", StringType())))
    table.write_file(path, pa.table({"id": range(ROWS)}), {"look": "any"})
    expected = sorted((row, name) for name, rows in SHOWN.items() for row in rows)
    with compiling(spark, compiled):
        frame = shown_rows(table, table.adds[0])
        assert sorted(tuple(row) for row in frame.collect()) == expected
        assert frame.where("id > 63 AND look = 'first'").orderBy("id").select("id").collect() == [(4_096,), (8_999,)]
