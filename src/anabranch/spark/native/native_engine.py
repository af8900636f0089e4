"""Spark's own reader and writer of Parquet files, through classes that ship in Spark.

Modules that only writers need are imported at the first write.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame, SparkSession

from anabranch.spark.engine import (
    RewriteRequest,
    RewrittenFile,
    ScanRequest,
    WriteRequest,
    WrittenFiles,
)
from anabranch.spark.extension.compiled import load_extension
from anabranch.spark.gateway.callback_server import start_callback_server
from anabranch.spark.gateway.jvm_classes import JvmValues
from anabranch.spark.native.native_scan import NativeScan

if TYPE_CHECKING:
    from anabranch.spark.native.native_write import NativeRewrite, NativeWrite


class NativeEngine:
    """Scans and writes data files of tables in one session. Any thread may use it."""

    def __init__(self, spark: SparkSession) -> None:
        values = JvmValues(spark)
        # Spark's planner calls this process while it plans a scan.
        start_callback_server(values.gateway)
        load_extension(values.gateway)
        self._values = values
        self._scan = NativeScan(spark, values)
        self.scan: Callable[[ScanRequest], DataFrame] = self._scan.frame
        """The rows of the files without hidden ones. Files are opened when the frame runs."""

    @functools.cached_property
    def _write(self) -> NativeWrite:
        from anabranch.spark.native.native_write import NativeWrite  # noqa: PLC0415

        return NativeWrite(self._values)

    @functools.cached_property
    def _rewrite(self) -> NativeRewrite:
        from anabranch.spark.native.native_write import NativeRewrite  # noqa: PLC0415

        return NativeRewrite(self._values, self._scan, self._write)

    @functools.cached_property
    def write(self) -> Callable[[WriteRequest], WrittenFiles]:
        """Runs the frame and writes its rows. Files without rows are never returned."""
        return self._write.files

    def rewrite(self, request: RewriteRequest) -> RewrittenFile:
        """Reads files and writes their rows to one. Raises `RowOrderError` if row counts are wrong."""
        return self._rewrite.file(request)

    def tasks_of_one_file(self, request: RewriteRequest) -> int:
        """How many tasks may write the rows of the request to one file, by `WriteRequest.one_file`."""
        return self._rewrite.tasks_of_one_file(request)
