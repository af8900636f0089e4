"""The engine for classic sessions: Spark's own reader and writer, through classes that ship in Spark.

What only writers need is imported by these.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from anabranch.spark.engine import (
    KeptRows,
    OwnRead,
    RewriteRequest,
    RewrittenFile,
    ScanRequest,
    WriteRequest,
    WrittenFiles,
)
from anabranch.spark.extension.compiled import load_extension
from anabranch.spark.native.jvm_classes import JvmValues
from anabranch.spark.native.native_scan import NativeScan
from anabranch.spark.native.plan_reading import own_reads, versions_read

if TYPE_CHECKING:
    from anabranch.spark.native.native_write import NativeRewrite, NativeWrite


class NativeEngine:
    """Implements `Engine` for one classic session. Any thread may use it."""

    def __init__(self, spark: SparkSession) -> None:
        values = JvmValues(spark)
        # Spark's planner calls back into this process.
        ensure_callback_server_started(values.gateway)  # type: ignore[no-untyped-call]
        load_extension(values.gateway)
        self._values = values
        self._scan = NativeScan(spark, values)

    @functools.cached_property
    def _write(self) -> NativeWrite:
        from anabranch.spark.native.native_write import NativeWrite  # noqa: PLC0415

        return NativeWrite(self._values)

    @functools.cached_property
    def _rewrite(self) -> NativeRewrite:
        from anabranch.spark.native.native_write import NativeRewrite  # noqa: PLC0415

        return NativeRewrite(self._values, self._scan, self._write)

    def scan(self, request: ScanRequest) -> DataFrame:
        return self._scan.frame(request)

    def versions_read(self, frame: DataFrame, table_root: str) -> frozenset[int]:
        return versions_read(frame, table_root)

    def own_reads(self, frame: DataFrame, table_root: str, schema: StructType) -> Sequence[OwnRead] | None:
        return own_reads(frame, table_root, schema)

    def write(self, request: WriteRequest) -> WrittenFiles:
        return self._write.files(request)

    def rewrite(self, request: RewriteRequest) -> RewrittenFile:
        return self._rewrite.file(request)

    def keep(self, frame: DataFrame) -> KeptRows:
        rows = self._values.delta.KeptRows.of(frame._jdf)
        return KeptRows(
            frame=DataFrame(rows, frame.sparkSession), let_go=lambda: self._values.delta.KeptRows.letGo(rows)
        )
