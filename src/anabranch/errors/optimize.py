"""Errors about OPTIMIZE and REORG."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from anabranch.errors.base import DeltaAnalysisError, DeltaError


@dataclasses.dataclass(eq=False, kw_only=True)
class RowOrderError(DeltaError):
    """Rows that were to be written in a known order came in another, or not all of them came. Nothing was committed."""

    condition: ClassVar[str] = "DELTA_ROW_ORDER_UNKNOWN"
    sqlstate: ClassVar[str] = "XXKDS"
    table: str
    problem: str
    file: str = ""

    def explain(self) -> str:
        where = f" (number {self.file} of the files rewritten)" if self.file else ""
        return (
            f"Files of {self.table} were to be rewritten, and {self.problem}{where}. Either the row counts in the log "
            "are wrong, or this Spark reads files in another way than the supported releases do. Nothing was changed. "
            "Setting spark.anabranch.engine to portable reads them without Spark's reader."
        )


@dataclasses.dataclass(eq=False, kw_only=True)
class NonPartitionColumnError(DeltaAnalysisError, ValueError):
    """A condition that chooses partitions names a column by which the table is not partitioned."""

    condition: ClassVar[str] = "DELTA_NON_PARTITION_COLUMN_REFERENCE"
    sqlstate: ClassVar[str] = "42P10"
    table: str
    column: str
    partition_columns: tuple[str, ...]

    def explain(self) -> str:
        known = ", ".join(self.partition_columns) or "none"
        return (
            f"The condition names {self.column}, by which {self.table} is not partitioned (it is by: {known}). "
            "Whole files are rewritten, so only partition columns may be named: leave the rest of the condition out."
        )


@dataclasses.dataclass(eq=False, kw_only=True)
class PartitionConditionError(DeltaAnalysisError, ValueError):
    """A condition that chooses partitions cannot be decided by partition values alone."""

    condition: ClassVar[str] = "DELTA_UNSUPPORTED_PARTITION_PREDICATE"
    sqlstate: ClassVar[str] = "0A000"
    table: str
    predicate: str
    problem: str

    def explain(self) -> str:
        return f"Partitions of {self.table} cannot be chosen by {self.predicate!r}: {self.problem}."


@dataclasses.dataclass(eq=False, kw_only=True)
class ZOrderColumnMissingError(DeltaAnalysisError, ValueError):
    """ZORDER BY names a column that the table does not have."""

    condition: ClassVar[str] = "DELTA_ZORDERING_COLUMN_DOES_NOT_EXIST"
    sqlstate: ClassVar[str] = "42703"
    table: str
    column: str
    known: tuple[str, ...]

    def explain(self) -> str:
        return f"{self.table} has no column {self.column} to order rows by. It has: {', '.join(self.known)}."


@dataclasses.dataclass(eq=False, kw_only=True)
class ZOrderPartitionColumnError(DeltaAnalysisError, ValueError):
    """ZORDER BY names a partition column, which has one value in each file anyway."""

    condition: ClassVar[str] = "DELTA_ZORDERING_ON_PARTITION_COLUMN"
    sqlstate: ClassVar[str] = "42P10"
    table: str
    column: str

    def explain(self) -> str:
        return (
            f"{self.table} is partitioned by {self.column}, so every file has one value of it, in whatever order its "
            "rows are. Name other columns."
        )


@dataclasses.dataclass(eq=False, kw_only=True)
class ZOrderWithoutStatisticsError(DeltaAnalysisError, ValueError):
    """ZORDER BY names columns that get no statistics, so that no reader could skip files by them."""

    condition: ClassVar[str] = "DELTA_ZORDERING_ON_COLUMN_WITHOUT_STATS"
    sqlstate: ClassVar[str] = "KD00D"
    table: str
    columns: tuple[str, ...]
    setting: str

    def explain(self) -> str:
        return (
            f"No statistics are collected for {', '.join(self.columns)} of {self.table}, so rows in their order "
            "would let nobody skip files. Name other columns, or let statistics be collected "
            f"(delta.dataSkippingStatsColumns, delta.dataSkippingNumIndexedCols), or set {self.setting} to false."
        )


@dataclasses.dataclass(eq=False, kw_only=True)
class ZOrderTypeError(DeltaAnalysisError, ValueError):
    """ZORDER BY names a column whose values have no order."""

    condition: ClassVar[str] = "DELTA_OPERATION_NOT_SUPPORTED_FOR_DATATYPES"
    sqlstate: ClassVar[str] = "0A000"
    table: str
    column: str
    data_type: str

    def explain(self) -> str:
        return (
            f"Rows of {self.table} cannot be ordered by {self.column}: values of type {self.data_type} have no order."
        )


@dataclasses.dataclass(eq=False, kw_only=True)
class ClusteredTableError(DeltaAnalysisError, ValueError):
    """A clustered table decides by its clustering columns how its rows are ordered."""

    condition: ClassVar[str] = "DELTA_CLUSTERING_WITH_PARTITION_PREDICATE"
    sqlstate: ClassVar[str] = "0A000"
    table: str
    clause: str
    given: str

    def explain(self) -> str:
        return f"{self.table} is clustered, and OPTIMIZE takes no {self.clause} there; leave {self.given} out."


@dataclasses.dataclass(eq=False, kw_only=True)
class ClusteredTableZOrderError(ClusteredTableError):
    """ZORDER BY on a table whose rows are ordered by its clustering columns."""

    condition: ClassVar[str] = "DELTA_CLUSTERING_WITH_ZORDER_BY"
    sqlstate: ClassVar[str] = "42613"
    clause: str = "ZORDER BY"


@dataclasses.dataclass(eq=False, kw_only=True)
class FullNeedsClusteringError(DeltaAnalysisError, ValueError):
    """OPTIMIZE FULL clusters all files anew, and the table has no clustering columns."""

    condition: ClassVar[str] = "DELTA_OPTIMIZE_FULL_NOT_SUPPORTED"
    sqlstate: ClassVar[str] = "42601"
    table: str

    def explain(self) -> str:
        return (
            f"{self.table} has no clustering columns, so there is nothing for OPTIMIZE FULL to cluster anew. Leave "
            "FULL out, or name columns by ALTER TABLE … CLUSTER BY."
        )


@dataclasses.dataclass(eq=False, kw_only=True)
class RowTrackingColumnsError(DeltaError):
    """The rows of a table keep their ids, and its metadata does not say in which columns of the files."""

    condition: ClassVar[str] = "DELTA_MATERIALIZED_ROW_TRACKING_COLUMN_NAME_MISSING"
    sqlstate: ClassVar[str] = "22000"
    table: str

    def explain(self) -> str:
        return (
            f"{self.table} has delta.enableRowTracking, and lacks delta.rowTracking.materializedRowIdColumnName or "
            "delta.rowTracking.materializedRowCommitVersionColumnName, so that its rows cannot be written to other "
            "files. Whoever enabled row tracking has to set both."
        )
