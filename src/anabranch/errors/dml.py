"""Errors about MERGE, REPLACE ON, and the change data feed."""

from __future__ import annotations

from typing import ClassVar

from anabranch.errors.base import DeltaAnalysisError, DeltaError, DeltaUnsupportedOperationError, delta_error
from anabranch.errors.schema import ColumnNotFoundError

# Errors about MERGE. Nothing was committed.


@delta_error("DELTA_MERGE_MISSING_WHEN", "42601")
class MergeWithoutClauseError(DeltaAnalysisError, ValueError):
    """A MERGE has no WHEN clause."""

    template = "The MERGE into {table} has no WHEN clause, so there is nothing to do. Add at least one."
    table: str


@delta_error("DELTA_ANALYSIS_ERROR")
class UnreachableMergeClauseError(DeltaAnalysisError, ValueError):
    """A MERGE clause without a condition comes before others of its kind. See the subclasses."""

    kind: ClassVar[str]
    table: str

    def explain(self) -> str:
        return (
            f"A {self.kind} clause of the MERGE into {self.table} has no condition and is not the last of its kind, so "
            "the clauses after it can never apply. Give it a condition, or put it last."
        )


@delta_error("DELTA_NON_LAST_MATCHED_CLAUSE_OMIT_CONDITION", "42601")
class UnreachableMatchedClauseError(UnreachableMergeClauseError):
    """A WHEN MATCHED clause without a condition is not the last one."""

    kind = "WHEN MATCHED"


@delta_error("DELTA_NON_LAST_NOT_MATCHED_CLAUSE_OMIT_CONDITION", "42601")
class UnreachableNotMatchedClauseError(UnreachableMergeClauseError):
    """A WHEN NOT MATCHED clause without a condition is not the last one."""

    kind = "WHEN NOT MATCHED"


@delta_error("DELTA_NON_LAST_NOT_MATCHED_BY_SOURCE_CLAUSE_OMIT_CONDITION", "42601")
class UnreachableNotMatchedBySourceClauseError(UnreachableMergeClauseError):
    """A WHEN NOT MATCHED BY SOURCE clause without a condition is not the last one."""

    kind = "WHEN NOT MATCHED BY SOURCE"


@delta_error("DELTA_MULTIPLE_SOURCE_ROW_MATCHING_TARGET_ROW_IN_MERGE", "21506")
class AmbiguousMergeError(DeltaUnsupportedOperationError):
    """Several source rows of a MERGE change the same row of the table."""

    template = (
        "Several rows of the source match one row of {table} and would change it: {row}. Which of them should win is "
        "not defined. Nothing was changed. Keep one source row for each key, or choose one by the conditions of the "
        "clauses."
    )
    table: str
    row: str
    """One such row of the table."""


@delta_error("DELTA_MERGE_RESOLVED_ATTRIBUTE_MISSING_FROM_INPUT", "42601")
class MergeOfOtherColumnsError(DeltaAnalysisError):
    """A condition or value of a MERGE uses columns of another DataFrame."""

    template = (
        "The MERGE into {table} uses columns of neither the table nor the source: {columns}. Take them from these two "
        'DataFrames, or write them as text or col("alias.name").'
    )
    table: str
    columns: str


@delta_error("DELTA_MERGE_UNRESOLVED_EXPRESSION", "42601")
class MergeColumnNotFoundError(DeltaAnalysisError, ValueError):
    """`UPDATE SET *` or `INSERT *` needs a column that the source lacks."""

    template = (
        "The {clause} clause of the MERGE into {table} takes every column from the source, which has no {column} (it "
        "has: {available}). Name the columns to set, add {column} to the source, or allow schema evolution, which "
        "leaves out columns that the source lacks."
    )
    table: str
    column: str
    clause: str
    available: tuple[str, ...]


@delta_error("DELTA_NON_DETERMINISTIC_FUNCTION_NOT_SUPPORTED", "0AKDC")
class NonDeterministicConditionError(DeltaAnalysisError, ValueError):
    """A condition of a MERGE is not deterministic."""

    template = (
        "The {clause} condition of the MERGE into {table} is not deterministic: {expression}. Compute the value as a "
        "column of the source first."
    )
    table: str
    clause: str
    expression: str


@delta_error("DELTA_UNSUPPORTED_SUBQUERY", "0AKDC")
class SubqueryInConditionError(DeltaAnalysisError, ValueError):
    """A condition of a MERGE has a subquery."""

    template = (
        "The {clause} condition of the MERGE into {table} has a subquery: {expression}. Join the rows of the subquery "
        "to the source first."
    )
    table: str
    clause: str
    expression: str


@delta_error("SCALAR_SUBQUERY_TOO_MANY_ROWS", "21000")
class SubqueryRowsError(DeltaError):
    """A scalar subquery returned several rows. The condition is Spark's."""

    subquery: str
    """The line of the statement where the subquery begins; empty where Spark does not know it."""

    def explain(self) -> str:
        where = f": {self.subquery}" if self.subquery else ""
        return (
            f"A scalar subquery returned more than one row{where}. Nothing was written. Let it return one row, by an "
            "aggregate such as max or by LIMIT 1, or use IN or EXISTS."
        )


# Errors about the write options replaceOn and replaceUsing.


@delta_error("DELTA_INCOMPATIBLE_DATAFRAME_OPTIONS", "42613")
class IncompatibleOptionsError(DeltaAnalysisError, ValueError):
    """Two options of a write contradict each other."""

    template = "{option} cannot be used with {other}: {problem}. Leave one of them out."
    option: str
    other: str
    """An option, or the call that writes."""
    problem: str = "both say what is overwritten"


@delta_error("DELTA_OVERWRITE_BY_FILTER_INCOMPATIBLE_REPLACE_ON_OR_USING")
class FilterOverwriteError(IncompatibleOptionsError):
    """A write has replaceOn or replaceUsing and another condition on the rows to be overwritten."""


@delta_error("DELTA_DYNAMIC_PARTITION_OVERWRITE_INCOMPATIBLE_REPLACE_ON_OR_USING")
class PartitionOverwriteError(IncompatibleOptionsError):
    """A write has replaceOn or replaceUsing and overwrites partitions."""


@delta_error("DELTA_DFV2_CREATE_REPLACE_INCOMPATIBLE_REPLACE_ON_OR_USING", "42000")
class TableReplacementError(IncompatibleOptionsError):
    """A call that creates or replaces a table has replaceOn or replaceUsing."""

    problem: str = "a new table has no rows to replace"


@delta_error("DELTA_INSERT_REPLACE_ON_AMBIGUOUS_COLUMNS_IN_CONDITION", "42702")
class AmbiguousReplaceOnError(DeltaAnalysisError, ValueError):
    """The condition of replaceOn names a column that both the table and the written rows have."""

    template = (
        "replaceOn = {predicate!r} on {table} does not say whose columns it means: {reason} Name the table by the "
        "option targetAlias and the rows by DataFrame.alias, and put these names before the columns."
    )
    table: str
    predicate: str
    reason: str


@delta_error("DELTA_INSERT_REPLACE_ON_UNRESOLVED_COLUMNS_IN_CONDITION", "42703")
class UnresolvedReplaceOnError(DeltaAnalysisError, ValueError):
    """The condition of replaceOn names a column that neither the table nor the written rows have."""

    template = (
        "replaceOn = {predicate!r} on {table} names columns that do not exist: {reason} The table has the name of the "
        "option targetAlias, and the rows have the name of DataFrame.alias."
    )
    table: str
    predicate: str
    reason: str


@delta_error("UNRESOLVED_INSERT_REPLACE_USING_COLUMN", "42703")
class UnknownReplaceUsingColumnError(ColumnNotFoundError):
    """replaceUsing names a column that the table or the written rows lack."""


@delta_error("INSERT_REPLACE_USING_DISALLOW_MISALIGNED_COLUMNS", "42802")
class MisalignedReplaceUsingError(DeltaAnalysisError, ValueError):
    """A write by position has replaceUsing columns at other positions than the table."""

    template = (
        "insertInto writes the first column into the first column of {table}, and so on; {columns} of replaceUsing "
        "would go into another column. Select the columns in the order of the table."
    )
    table: str
    columns: tuple[str, ...]


# Errors about reading and writing a table's change data feed.


@delta_error("DELTA_NO_START_FOR_CDC_READ", "42601")
class ChangesStartMissingError(DeltaAnalysisError, ValueError):
    """A read of the change data feed does not say where it starts."""

    template = (
        "The read of the changes of {table} has no start. Set startingVersion or startingTimestamp; that version is "
        "the first whose changes are read."
    )
    table: str


@delta_error("DELTA_MULTIPLE_CDC_BOUNDARY", "42614")
class ChangesBoundTwiceError(DeltaAnalysisError, ValueError):
    """One end of the range is both a version and a time."""

    template = "The read of changes has both {bound}Version and {bound}Timestamp. Leave one of them out."
    bound: str
    """`starting` or `ending`."""


@delta_error("DELTA_CDC_READ_NULL_RANGE_BOUNDARY", "22004")
class ChangesBoundNullError(DeltaAnalysisError, ValueError):
    """One end of the range is NULL."""

    template = (
        "A version or timestamp in the arguments of {function} is NULL. Use a version, a timestamp, or a string with a "
        "timestamp."
    )
    function: str


@delta_error("DELTA_INVALID_CDC_RANGE", "22003")
class ChangesRangeError(DeltaAnalysisError, ValueError):
    """The range ends before it starts."""

    template = (
        "The changes of {table} cannot be read from version {start} to version {end}: the end is before the start."
    )
    table: str
    start: int
    end: int


@delta_error("DELTA_CDC_START_VERSION_AFTER_LATEST", "22003")
class ChangesStartAfterLatestError(DeltaAnalysisError, ValueError):
    """The range starts with a version that does not exist yet."""

    template = (
        "The changes of {table} cannot be read from version {start} on: its newest version is {latest}. Set "
        "spark.databricks.delta.changeDataFeed.timestampOutOfRange.enabled to true to get no rows instead of this "
        "error."
    )
    table: str
    start: int
    latest: int


@delta_error("DELTA_MISSING_CHANGE_DATA", "KD002")
class ChangesNotRecordedError(DeltaAnalysisError):
    """A version of the range was written while the change data feed was off."""

    template = (
        "Changes of {table} from version {start} to {end} cannot be read: its change data feed was off in version "
        "{version}. DESCRIBE HISTORY shows when 'delta.enableChangeDataFeed' was set; changes are recorded from that "
        "version on."
    )
    table: str
    version: int
    start: int
    end: int


@delta_error("DELTA_CHANGE_DATA_FEED_INCOMPATIBLE_SCHEMA_CHANGE", "0AKDC")
class ChangesSchemaError(DeltaAnalysisError, DeltaUnsupportedOperationError):
    """Rows of the range were written with columns that cannot be read as those of the result."""

    table: str
    start: int
    end: int
    read_version: int
    """The version whose columns the result has."""
    version: int
    """The version whose columns do not fit."""
    difference: str

    def explain(self) -> str:
        way_out = (
            f"Read the changes up to version {self.version - 1} and those from version {self.version} on separately."
            if self.start < self.version
            else f"Changes that end before the columns changed can be read: set an end before version {self.end}."
        )
        return (
            f"Changes of {self.table} from version {self.start} to {self.end} cannot be read as one table: their "
            f"columns are those of version {self.read_version}, and in version {self.version} {self.difference}. "
            f"{way_out}"
        )


@delta_error("DELTA_CHANGE_DATA_FEED_INCOMPATIBLE_DATA_SCHEMA")
class ChangesDataSchemaError(ChangesSchemaError):
    """The first commit of the range changed the columns and removed rows that cannot be read with the new ones."""

    def explain(self) -> str:
        return (
            f"The rows that version {self.version} of {self.table} removed cannot be read with the columns of version "
            f"{self.read_version}: before, {self.difference}. Read the changes from version {self.version + 1} on."
        )


@delta_error("DELTA_REMOVE_FILE_CDC_MISSING_EXTENDED_METADATA", "XXKDS")
class ChangesIncompleteError(DeltaError):
    """A commit does not record enough about a removed file to read the rows that it deleted."""

    template = (
        "Version {version} of {table} removed {path} without recording its size and partition, so the rows that it "
        "deleted cannot be read. Start with a later version."
    )
    table: str
    version: int
    path: str


@delta_error("INCORRECT_NUMBER_OF_ARGUMENTS", "42605")
class TableFunctionArgumentsError(DeltaAnalysisError, ValueError):
    """`table_changes` or `table_changes_by_path` has a wrong number of arguments."""

    function: str
    problem: str

    def explain(self) -> str:
        what = "'/path/of/table'" if self.function.endswith("by_path") else "'table'"
        return f"{self.function}({what}, start[, end]): {self.problem}."


@delta_error("DELTA_UNSUPPORTED_EXPRESSION", "0A000")
class TableFunctionArgumentTypeError(TableFunctionArgumentsError):
    """An argument of `table_changes` or `table_changes_by_path` is no table, version or time."""
