"""The engine for every session, Spark Connect included: the public API of PySpark and nothing else.

Slower than the native engine, with the same answers. Python workers need anabranch and pyarrow for writing.
"""

from __future__ import annotations

from collections.abc import Sequence

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
from anabranch.spark.portable.file_groups import FileLayouts
from anabranch.spark.portable.portable_rewrite import rewrite_file
from anabranch.spark.portable.portable_scan import PortableScan, versions_read
from anabranch.spark.portable.portable_write import write_files


class PortableEngine:
    """Implements `Engine` for one session. Any thread may use it.

    `scan` never calls `prune`: no predicate reaches it. A caller that knows one hands over the files that pass it.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._layouts = FileLayouts()

    def scan(self, request: ScanRequest) -> DataFrame:
        return PortableScan(self._spark, request, self._layouts).frame()

    def versions_read(self, frame: DataFrame, table_root: str) -> frozenset[int]:
        return versions_read(frame, table_root)

    def own_reads(self, frame: DataFrame, table_root: str, _: StructType) -> Sequence[OwnRead] | None:
        # No public API tells how a query filters what it reads.
        return None if self.versions_read(frame, table_root) else ()

    def write(self, request: WriteRequest) -> WrittenFiles:
        return write_files(self._spark, request)

    def rewrite(self, request: RewriteRequest) -> RewrittenFile:
        return rewrite_file(self._spark, request)

    def keep(self, frame: DataFrame) -> KeptRows:
        rows = frame.persist()
        return KeptRows(frame=rows, let_go=rows.unpersist)
