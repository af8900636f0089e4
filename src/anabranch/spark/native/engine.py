"""The engine for classic sessions: Spark's own reader and writer, through classes that ship in Spark."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import DataFrame, SparkSession

from anabranch.predicates.expressions import Predicate
from anabranch.spark.engine import RewriteRequest, RewrittenFile, ScanRequest, WriteRequest, WrittenFiles
from anabranch.spark.native.driver_classes import driver_classes
from anabranch.spark.native.jvm_values import JvmValues
from anabranch.spark.native.plan_reading import predicates_read, versions_read
from anabranch.spark.native.rewrite import NativeRewrite
from anabranch.spark.native.scan import NativeScan
from anabranch.spark.native.write import NativeWrite


class NativeEngine:
    """Implements `Engine` for one classic session. Any thread may use it."""

    def __init__(self, spark: SparkSession, *, compiles: bool = True) -> None:
        """`compiles=False` does without the Java compiler, as where Spark's distribution has none."""
        values = JvmValues(spark)
        # Spark's planner calls back into this process.
        ensure_callback_server_started(values.gateway)  # type: ignore[no-untyped-call]
        driver = driver_classes(values.gateway, values.classes) if compiles else None
        self._speaks_logical_names = driver is not None
        self._scan = NativeScan(spark, values, driver)
        self._write = NativeWrite(values, driver)
        self._rewrite = NativeRewrite(values, self._scan, self._write)

    def scan(self, request: ScanRequest) -> DataFrame:
        return self._scan.frame(request)

    def versions_read(self, frame: DataFrame, table_root: str) -> frozenset[int]:
        return versions_read(frame, table_root)

    def predicates_read(self, frame: DataFrame, table_root: str) -> Sequence[Predicate] | None:
        # Without the compiler the plan has the names of files.
        return predicates_read(frame, table_root) if self._speaks_logical_names else None

    def write(self, request: WriteRequest) -> WrittenFiles:
        return self._write.files(request)

    def rewrite(self, request: RewriteRequest) -> RewrittenFile:
        return self._rewrite.file(request)
