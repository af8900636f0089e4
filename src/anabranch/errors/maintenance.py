"""Errors about OPTIMIZE, REORG and VACUUM."""

from __future__ import annotations

from anabranch.errors.base import DeltaAnalysisError, DeltaError, DeltaUnsupportedOperationError, delta_error
from anabranch.errors.schema import InvalidPartitioningError

# Errors about OPTIMIZE and REORG.


@delta_error("DELTA_ROW_ORDER_UNKNOWN", "XXKDS")
class RowOrderError(DeltaError):
    """Rows that were to be written in a known order came in another, or not all of them came. Nothing was committed."""

    table: str
    problem: str
    file: str = ""

    def explain(self) -> str:
        where = f" (number {self.file} of the files rewritten)" if self.file else ""
        return (
            f"Files of {self.table} were to be rewritten, and {self.problem}{where}. Either the row counts in the log "
            "are wrong, or this Spark reads files in another way than the supported releases do. Nothing was changed."
        )


@delta_error("DELTA_NON_PARTITION_COLUMN_REFERENCE", "42P10")
class NonPartitionColumnError(DeltaAnalysisError, ValueError):
    """A condition that chooses partitions names a column by which the table is not partitioned."""

    table: str
    column: str
    partition_columns: tuple[str, ...]

    def explain(self) -> str:
        known = ", ".join(self.partition_columns) or "none"
        return (
            f"The condition names {self.column}, by which {self.table} is not partitioned (it is by: {known}). "
            "Whole files are rewritten, so only partition columns may be named: leave the rest of the condition out."
        )


@delta_error("DELTA_SHOW_PARTITION_IN_NON_PARTITIONED_COLUMN", "42P10")
class ShowPartitionsColumnError(InvalidPartitioningError):
    """SHOW PARTITIONS names a column that is no partition column."""

    template = "{columns} is no partition column of {table}: {reason}."


@delta_error("DELTA_UNSUPPORTED_PARTITION_PREDICATE", "0A000")
class PartitionConditionError(DeltaAnalysisError, ValueError):
    """A condition that chooses partitions cannot be decided by partition values alone."""

    template = "Partitions of {table} cannot be chosen by {predicate!r}: {problem}."
    table: str
    predicate: str
    problem: str


@delta_error("DELTA_ZORDERING_COLUMN_DOES_NOT_EXIST", "42703")
class ZOrderColumnMissingError(DeltaAnalysisError, ValueError):
    """ZORDER BY names a column that the table does not have."""

    template = "{table} has no column {column} to order rows by. It has: {known}."
    table: str
    column: str
    known: tuple[str, ...]


@delta_error("DELTA_ZORDERING_ON_PARTITION_COLUMN", "42P10")
class ZOrderPartitionColumnError(DeltaAnalysisError, ValueError):
    """ZORDER BY names a partition column, which has one value in each file anyway."""

    template = (
        "{table} is partitioned by {column}, so every file has one value of it, in whatever order its rows are. Name "
        "other columns."
    )
    table: str
    column: str


@delta_error("DELTA_ZORDERING_ON_COLUMN_WITHOUT_STATS", "KD00D")
class ZOrderWithoutStatisticsError(DeltaAnalysisError, ValueError):
    """ZORDER BY names columns that get no statistics, so that no reader could skip files by them."""

    template = (
        "No statistics are collected for {columns} of {table}, so rows in their order would let nobody skip files. "
        "Name other columns, or let statistics be collected (delta.dataSkippingStatsColumns, "
        "delta.dataSkippingNumIndexedCols), or set {setting} to false."
    )
    table: str
    columns: tuple[str, ...]
    setting: str


@delta_error("DELTA_OPERATION_NOT_SUPPORTED_FOR_DATATYPES", "0AKDC")
class ZOrderTypeError(DeltaAnalysisError, ValueError):
    """ZORDER BY names a column whose values have no order."""

    template = "Rows of {table} cannot be ordered by {column}: values of type {data_type} have no order."
    table: str
    column: str
    data_type: str


@delta_error("DELTA_CLUSTERING_WITH_PARTITION_PREDICATE", "0A000")
class ClusteredTableError(DeltaAnalysisError, ValueError):
    """A clustered table decides by its clustering columns how its rows are ordered."""

    template = "{table} is clustered, and OPTIMIZE takes no {clause} there; leave {given} out."
    table: str
    clause: str
    given: str


@delta_error("DELTA_CLUSTERING_WITH_ZORDER_BY", "42613")
class ClusteredTableZOrderError(ClusteredTableError):
    """ZORDER BY on a table whose rows are ordered by its clustering columns."""

    clause: str = "ZORDER BY"


@delta_error("DELTA_OPTIMIZE_FULL_NOT_SUPPORTED", "42601")
class FullNeedsClusteringError(DeltaAnalysisError, DeltaUnsupportedOperationError, ValueError):
    """OPTIMIZE FULL clusters all files anew, and the table has no clustering columns."""

    template = (
        "{table} has no clustering columns, so there is nothing for OPTIMIZE FULL to cluster anew. Leave FULL out, or "
        "name columns by ALTER TABLE … CLUSTER BY."
    )
    table: str


@delta_error("DELTA_MATERIALIZED_ROW_TRACKING_COLUMN_NAME_MISSING", "22000")
class RowTrackingColumnsError(DeltaError):
    """The rows of a table keep their ids, and its metadata does not say in which columns of the files."""

    template = (
        "{table} has delta.enableRowTracking, and lacks delta.rowTracking.materializedRowIdColumnName or "
        "delta.rowTracking.materializedRowCommitVersionColumnName, so that its rows cannot be written to other files. "
        "Whoever enabled row tracking has to set both."
    )
    table: str


# Errors about VACUUM.


HOUR_MS = 60 * 60 * 1000


@delta_error("DELTA_VACUUM_RETENTION_PERIOD_TOO_SHORT", "22003")
class RetentionTooShortError(DeltaError, ValueError):
    """VACUUM was to delete files younger than the table's retention, which may still be in use."""

    table: str
    given_ms: int
    least_ms: int
    """The table's `delta.deletedFileRetentionDuration`."""
    setting: str
    """What switches the check off."""

    def explain(self) -> str:
        return (
            f"VACUUM of {self.table} was to keep files for {hours(self.given_ms)}, and the table keeps them for "
            f"{hours(self.least_ms)} (delta.deletedFileRetentionDuration). Readers of older versions and writers that "
            f"have not committed would lose their files. Use a retention of at least {hours(self.least_ms)}, or lower "
            f"the table's property. If you are sure that nobody reads or writes the table now, set {self.setting} to "
            "false for this session."
        )


@delta_error("DELTA_VACUUM_RETENTION_PERIOD_NEGATIVE", "22003")
class NegativeRetentionError(DeltaError, ValueError):
    """A retention that lies in the future, or is no number."""

    template = "VACUUM of {table} cannot keep files for {given} hours. Give a number of hours, 0 or more."
    table: str
    given: str


@delta_error("DELTA_CANNOT_VACUUM_LITE", "55000")
class VacuumLiteError(DeltaError):
    """The log does not tell any more what VACUUM LITE would have to delete."""

    table: str
    earliest_version: int
    """The oldest commit that is left."""
    vacuumed_upto: int | None
    """The last version that an earlier VACUUM has looked at; None where none is on record."""

    def explain(self) -> str:
        known = "none is on record" if self.vacuumed_upto is None else f"the last one reached {self.vacuumed_upto}"
        return (
            f"VACUUM LITE of {self.table} reads from the log which files to delete. The log begins with version "
            f"{self.earliest_version}, and what happened before has not been vacuumed yet ({known}). Run VACUUM "
            f"{self.table} FULL once, which lists the files of the table."
        )


@delta_error("DELTA_VACUUM_CLAUSES_CONFLICT", "42601")
class VacuumModeError(DeltaError, ValueError):
    """Clauses of VACUUM that contradict each other."""

    template = "VACUUM of {table} was given {clauses}. Leave one of them out."
    table: str
    clauses: str


@delta_error("DELTA_INVALID_INVENTORY_SCHEMA", "42000")
class InventorySchemaError(DeltaAnalysisError, ValueError):
    """An inventory lacks columns that VACUUM needs, or has them with other types."""

    template = (
        "VACUUM of {table} was given an inventory of ({found}). It needs the columns ({expected}): the complete path, "
        "the size in bytes, whether it is a directory, and milliseconds since 1970."
    )
    table: str
    found: str
    expected: str


@delta_error("DELTA_VACUUM_INCOMPLETE", "58030")
class VacuumIncompleteError(DeltaError):
    """Some files could not be deleted. All that are needed are there, and VACUUM can be run again."""

    table: str
    deleted: int
    planned: int
    path: str
    """The first that could not be deleted."""
    cause: str

    def explain(self) -> str:
        return (
            f"VACUUM of {self.table} deleted {self.deleted} of {self.planned} files and then failed, first at "
            f"{self.path}: {self.cause.rstrip('.')}. The table is whole: nothing that it needs was touched. Allow "
            "files to be deleted, then run VACUUM again; it goes on where it stopped."
        )


def hours(duration_ms: int) -> str:
    """A duration as users of VACUUM give it."""
    return f"{duration_ms / HOUR_MS:g} hours"
