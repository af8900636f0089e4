"""Errors about OPTIMIZE, REORG and VACUUM."""

from __future__ import annotations

from anabranch.errors.base import DeltaAnalysisError, DeltaError, DeltaUnsupportedOperationError, delta_error
from anabranch.errors.schema import InvalidPartitioningError

# Errors about OPTIMIZE and REORG.


@delta_error("DELTA_ROW_ORDER_UNKNOWN", "XXKDS")
class RowOrderError(DeltaError):
    """Rows to be rewritten came in an unexpected order, or some are missing. Nothing was committed."""

    table: str
    problem: str
    file: str = ""

    def explain(self) -> str:
        where = f" (number {self.file} of the rewritten files)" if self.file else ""
        return (
            f"Files of {self.table} cannot be rewritten: {self.problem}{where}. Either the row counts in the log are "
            "wrong, or this Spark reads files differently from the supported releases. Nothing was changed."
        )


@delta_error("DELTA_NON_PARTITION_COLUMN_REFERENCE", "42P10")
class NonPartitionColumnError(DeltaAnalysisError, ValueError):
    """A condition that selects partitions names a column by which the table is not partitioned."""

    table: str
    column: str
    partition_columns: tuple[str, ...]

    def explain(self) -> str:
        columns = ", ".join(self.partition_columns) or "none"
        return (
            f"The condition names {self.column}, by which {self.table} is not partitioned (its partition columns: "
            f"{columns}). Whole files are rewritten, so only partition columns can be used: leave the rest of the "
            "condition out."
        )


@delta_error("DELTA_SHOW_PARTITION_IN_NON_PARTITIONED_COLUMN", "42P10")
class ShowPartitionsColumnError(InvalidPartitioningError):
    """SHOW PARTITIONS names a column that is not a partition column."""

    template = "{columns} is not a partition column of {table}: {reason}."


@delta_error("DELTA_UNSUPPORTED_PARTITION_PREDICATE", "0A000")
class PartitionConditionError(DeltaAnalysisError, ValueError):
    """A condition that selects partitions cannot be evaluated from partition values alone."""

    template = "Partitions of {table} cannot be selected by {predicate!r}: {problem}."
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
    """ZORDER BY names a partition column, which has a single value in each file."""

    template = (
        "{table} is partitioned by {column}, so each file has a single value of it and ordering rows by it changes "
        "nothing. Name other columns."
    )
    table: str
    column: str


@delta_error("DELTA_ZORDERING_ON_COLUMN_WITHOUT_STATS", "KD00D")
class ZOrderWithoutStatisticsError(DeltaAnalysisError, ValueError):
    """ZORDER BY names columns without statistics, so ordering rows by them does not let readers skip files."""

    template = (
        "{table} has no statistics of {columns}, so ordering rows by them does not let readers skip files. Name other "
        "columns, have statistics collected (delta.dataSkippingStatsColumns, delta.dataSkippingNumIndexedCols), or set "
        "{setting} to false."
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
    """A clause of OPTIMIZE does not apply to a clustered table, whose clustering columns say how rows are ordered."""

    template = "{table} is clustered, so OPTIMIZE does not accept {clause}. Leave {given} out."
    table: str
    clause: str
    given: str


@delta_error("DELTA_CLUSTERING_WITH_ZORDER_BY", "42613")
class ClusteredTableZOrderError(ClusteredTableError):
    """ZORDER BY does not apply to a clustered table, whose rows are ordered by its clustering columns."""

    clause: str = "ZORDER BY"


@delta_error("DELTA_OPTIMIZE_FULL_NOT_SUPPORTED", "42601")
class FullNeedsClusteringError(DeltaAnalysisError, DeltaUnsupportedOperationError, ValueError):
    """OPTIMIZE FULL reclusters all files, and the table has no clustering columns."""

    template = (
        "{table} has no clustering columns, so OPTIMIZE FULL has nothing to recluster. Leave FULL out, or name columns "
        "by ALTER TABLE … CLUSTER BY."
    )
    table: str


@delta_error("DELTA_MATERIALIZED_ROW_TRACKING_COLUMN_NAME_MISSING", "22000")
class RowTrackingColumnsError(DeltaError):
    """Row tracking is enabled, and the table's metadata does not name the columns for row ids and commit versions."""

    template = (
        "{table} has delta.enableRowTracking and lacks delta.rowTracking.materializedRowIdColumnName or "
        "delta.rowTracking.materializedRowCommitVersionColumnName, so its rows cannot be moved to other files. The "
        "program that enabled row tracking must set both properties."
    )
    table: str


# Errors about VACUUM.


HOUR_MS = 60 * 60 * 1000


@delta_error("DELTA_VACUUM_RETENTION_PERIOD_TOO_SHORT", "22003")
class RetentionTooShortError(DeltaError, ValueError):
    """The retention of a VACUUM is shorter than the table's, so files may still be in use."""

    table: str
    given_ms: int
    least_ms: int
    """The table's `delta.deletedFileRetentionDuration`."""
    setting: str
    """The setting that turns the check off."""

    def explain(self) -> str:
        return (
            f"VACUUM of {self.table} would keep files for {hours(self.given_ms)}, and the table keeps them for "
            f"{hours(self.least_ms)} (delta.deletedFileRetentionDuration). Readers of older versions and writers that "
            f"have not committed would lose their files. Use a retention of at least {hours(self.least_ms)}, or lower "
            "the table's property. If you are sure that no program reads or writes the table now, set "
            f"{self.setting} to false for this session."
        )


@delta_error("DELTA_VACUUM_RETENTION_PERIOD_NEGATIVE", "22003")
class NegativeRetentionError(DeltaError, ValueError):
    """The retention of a VACUUM is negative or not a number."""

    template = "VACUUM of {table} cannot keep files for {given} hours. Use a number of hours that is 0 or more."
    table: str
    given: str


@delta_error("DELTA_CANNOT_VACUUM_LITE", "55000")
class VacuumLiteError(DeltaError):
    """The log no longer shows all files that VACUUM LITE would have to delete."""

    table: str
    earliest_version: int
    """The oldest commit in the log."""
    vacuumed_upto: int | None
    """The last version that an earlier VACUUM covered; None where none is recorded."""

    def explain(self) -> str:
        vacuumed = "none is recorded" if self.vacuumed_upto is None else f"the last one reached {self.vacuumed_upto}"
        return (
            f"VACUUM LITE of {self.table} reads from the log which files to delete. The log starts with version "
            f"{self.earliest_version}, and no VACUUM has covered all versions before it ({vacuumed}). Run VACUUM "
            f"{self.table} FULL once, which lists the files of the table."
        )


@delta_error("DELTA_VACUUM_CLAUSES_CONFLICT", "42601")
class VacuumModeError(DeltaError, ValueError):
    """Clauses of a VACUUM contradict each other."""

    template = "VACUUM of {table} has {clauses}, which exclude each other. Leave one of them out."
    table: str
    clauses: str


@delta_error("DELTA_INVALID_INVENTORY_SCHEMA", "42000")
class InventorySchemaError(DeltaAnalysisError, ValueError):
    """The inventory of a VACUUM lacks columns, or has columns of other types."""

    template = (
        "VACUUM of {table} got an inventory with the columns ({found}). It needs ({expected}): the complete path, the "
        "size in bytes, whether it is a directory, and the modification time in milliseconds since 1970."
    )
    table: str
    found: str
    expected: str


@delta_error("DELTA_VACUUM_INCOMPLETE", "58030")
class VacuumIncompleteError(DeltaError):
    """VACUUM could not delete some files. The table is intact, and VACUUM can be run again."""

    table: str
    deleted: int
    planned: int
    path: str
    """The first file that could not be deleted."""
    cause: str

    def explain(self) -> str:
        return (
            f"VACUUM of {self.table} deleted {self.deleted} of {self.planned} files and then failed, first at "
            f"{self.path}: {self.cause.rstrip('.')}. The table is intact: no file that it needs was deleted. Allow "
            "files to be deleted, then run VACUUM again; it continues where it stopped."
        )


def hours(duration_ms: int) -> str:
    """The duration in hours, the unit of VACUUM's RETAIN clause."""
    return f"{duration_ms / HOUR_MS:g} hours"
