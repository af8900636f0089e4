"""The engine for classic sessions: Spark's own reader and writer, through classes that ship in Spark."""

from __future__ import annotations

from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import DataFrame, SparkSession

from anabranch.spark.engine import ScanRequest, WriteRequest, WrittenFiles
from anabranch.spark.native.driver_classes import driver_classes
from anabranch.spark.native.jvm_values import JvmValues
from anabranch.spark.native.plan_reading import versions_read
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
        self._scan = NativeScan(spark, values, driver)
        self._write = NativeWrite(values, driver)

    def scan(self, request: ScanRequest) -> DataFrame:
        return self._scan.frame(request)

    def versions_read(self, frame: DataFrame, table_root: str) -> frozenset[int]:
        return versions_read(frame, table_root)

    def write(self, request: WriteRequest) -> WrittenFiles:
        return self._write.files(request)
