"""Errors about MERGE, REPLACE ON, and the change data feed."""

from __future__ import annotations

from typing import ClassVar

from anabranch.errors.base import DeltaAnalysisError, DeltaError, DeltaUnsupportedOperationError, delta_error
from anabranch.errors.schema import ColumnNotFoundError

# Errors about MERGE. Nothing was committed.


@delta_error("DELTA_MERGE_MISSING_WHEN", "42601")
class MergeWithoutClauseError(DeltaAnalysisError, ValueError):
    """A MERGE says nothing of what to do."""

    template = "The MERGE into {table} has no WHEN clause, so there is nothing to do. Add at least one."
    table: str


@delta_error("DELTA_ANALYSIS_ERROR")
class UnreachableMergeClauseError(DeltaAnalysisError, ValueError):
    """A clause without a condition is before others of its kind, which no row can reach. See the subclasses."""

    kind: ClassVar[str]
    table: str

    def explain(self) -> str:
        return (
            f"A {self.kind} clause of the MERGE into {self.table} has no condition and is not the last of its kind, so "
            "those behind it can never apply. Give it a condition, or put it last."
        )


@delta_error("DELTA_NON_LAST_MATCHED_CLAUSE_OMIT_CONDITION", "42601")
class UnreachableMatchedClauseError(UnreachableMergeClauseError):
    """Of WHEN MATCHED clauses."""

    kind = "WHEN MATCHED"


@delta_error("DELTA_NON_LAST_NOT_MATCHED_CLAUSE_OMIT_CONDITION", "42601")
class UnreachableNotMatchedClauseError(UnreachableMergeClauseError):
    """Of WHEN NOT MATCHED clauses."""

    kind = "WHEN NOT MATCHED"


@delta_error("DELTA_NON_LAST_NOT_MATCHED_BY_SOURCE_CLAUSE_OMIT_CONDITION", "42601")
class UnreachableNotMatchedBySourceClauseError(UnreachableMergeClauseError):
    """Of WHEN NOT MATCHED BY SOURCE clauses."""

    kind = "WHEN NOT MATCHED BY SOURCE"


@delta_error("DELTA_MULTIPLE_SOURCE_ROW_MATCHING_TARGET_ROW_IN_MERGE", "21506")
class AmbiguousMergeError(DeltaUnsupportedOperationError):
    """Several rows of the source would change one row of the table."""

    template = (
        "Several rows of the source match one row of {table} and would change it: {row}. Which of them should win is "
        "not defined. Nothing was changed. Leave one source row for each key, or let the conditions of the clauses "
        "choose one."
    )
    table: str
    row: str
    """One such row of the table."""


@delta_error("DELTA_MERGE_RESOLVED_ATTRIBUTE_MISSING_FROM_INPUT", "42601")
class MergeOfOtherColumnsError(DeltaAnalysisError):
    """A condition or value of a MERGE is made of columns of another DataFrame."""

    template = (
        "The MERGE into {table} names columns of neither the table nor the source: {columns}. Take them from these two "
        'DataFrames, or write them as text or col("alias.name").'
    )
    table: str
    columns: str


@delta_error("DELTA_MERGE_UNRESOLVED_EXPRESSION", "42601")
class MergeColumnNotFoundError(DeltaAnalysisError, ValueError):
    """`UPDATE SET *` or `INSERT *` needs a column that the source lacks."""

    template = (
        "The {clause} clause of the MERGE into {table} takes every column from the source, which has no {column} (it "
        "has: {available}). Name the columns to set, add {column} to the source, or allow the schema to evolve, so "
        "that columns the source lacks are left out."
    )
    table: str
    column: str
    clause: str
    available: tuple[str, ...]


@delta_error("DELTA_NON_DETERMINISTIC_FUNCTION_NOT_SUPPORTED", "0AKDC")
class NonDeterministicConditionError(DeltaAnalysisError, ValueError):
    """A condition of a MERGE may answer otherwise when it is asked again."""

    template = (
        "The {clause} condition of the MERGE into {table} is not deterministic: {expression}. Compute such a value as "
        "a column of the source first."
    )
    table: str
    clause: str
    expression: str


@delta_error("DELTA_UNSUPPORTED_SUBQUERY", "0AKDC")
class SubqueryInConditionError(DeltaAnalysisError, ValueError):
    """A condition of a MERGE holds a subquery."""

    template = (
        "The {clause} condition of the MERGE into {table} holds a subquery: {expression}. Join what it asks for to the "
        "source first."
    )
    table: str
    clause: str
    expression: str


@delta_error("SCALAR_SUBQUERY_TOO_MANY_ROWS", "21000")
class SubqueryRowsError(DeltaError):
    """A subquery that stands for one value gave several rows. Spark's own condition."""

    subquery: str
    """The line of the statement where it begins; empty where Spark does not know."""

    def explain(self) -> str:
        where = f": {self.subquery}" if self.subquery else ""
        return (
            f"A subquery that stands for one value gave more than one row{where}. Nothing was written. Let it give "
            "one, by an aggregate such as max or by LIMIT 1, or ask with IN or EXISTS."
        )


# Errors about the write options replaceOn and replaceUsing.


@delta_error("DELTA_INCOMPATIBLE_DATAFRAME_OPTIONS", "42613")
class IncompatibleOptionsError(DeltaAnalysisError, ValueError):
    """Two options of a write contradict each other."""

    template = "{option} does not go with {other}: {problem}. Leave one of them out."
    option: str
    other: str
    """An option, or the call that acts."""
    problem: str = "both say what is overwritten"


@delta_error("DELTA_OVERWRITE_BY_FILTER_INCOMPATIBLE_REPLACE_ON_OR_USING")
class FilterOverwriteError(IncompatibleOptionsError):
    """replaceOn or replaceUsing, and a condition on rows that are overwritten."""


@delta_error("DELTA_DYNAMIC_PARTITION_OVERWRITE_INCOMPATIBLE_REPLACE_ON_OR_USING")
class PartitionOverwriteError(IncompatibleOptionsError):
    """replaceOn or replaceUsing, and partitions that are overwritten."""


@delta_error("DELTA_DFV2_CREATE_REPLACE_INCOMPATIBLE_REPLACE_ON_OR_USING", "42000")
class TableReplacementError(IncompatibleOptionsError):
    """replaceOn or replaceUsing, and a call that makes a table anew."""

    problem: str = "a table that is made anew has no rows to choose from"


@delta_error("DELTA_INSERT_REPLACE_ON_AMBIGUOUS_COLUMNS_IN_CONDITION", "42702")
class AmbiguousReplaceOnError(DeltaAnalysisError, ValueError):
    """The condition of replaceOn names a column that the table and the rows written both have."""

    template = (
        "replaceOn = {predicate!r} on {table} does not say whose columns it means: {reason} Give the table a name by "
        "the option targetAlias and the rows another one by DataFrame.alias, and put these before the columns."
    )
    table: str
    predicate: str
    reason: str


@delta_error("DELTA_INSERT_REPLACE_ON_UNRESOLVED_COLUMNS_IN_CONDITION", "42703")
class UnresolvedReplaceOnError(DeltaAnalysisError, ValueError):
    """The condition of replaceOn names a column that neither the table nor the rows written have."""

    template = (
        "replaceOn = {predicate!r} on {table} names what is not there: {reason} The table is called what the option "
        "targetAlias says, and the rows what DataFrame.alias says."
    )
    table: str
    predicate: str
    reason: str


@delta_error("UNRESOLVED_INSERT_REPLACE_USING_COLUMN", "42703")
class UnknownReplaceUsingColumnError(ColumnNotFoundError):
    """replaceUsing names a column that the table or the rows written lack."""


@delta_error("INSERT_REPLACE_USING_DISALLOW_MISALIGNED_COLUMNS", "42802")
class MisalignedReplaceUsingError(DeltaAnalysisError, ValueError):
    """Columns of replaceUsing have another position in the rows than in the table, where positions decide."""

    template = (
        "insertInto puts the first column into the first one of {table}, and so on; {columns} of replaceUsing would "
        "become another column. Select the columns in the order of the table."
    )
    table: str
    columns: tuple[str, ...]


# Errors about reading and writing a table's change data feed.


@delta_error("DELTA_NO_START_FOR_CDC_READ", "42601")
class ChangesStartMissingError(DeltaAnalysisError, ValueError):
    """Changes were asked for without a word of where they begin."""

    template = (
        "Changes of {table} were asked for, and not since when. Give startingVersion or startingTimestamp; that "
        "version is the first whose changes are read."
    )
    table: str


@delta_error("DELTA_MULTIPLE_CDC_BOUNDARY", "42614")
class ChangesBoundTwiceError(DeltaAnalysisError, ValueError):
    """One end of the range is given both as a version and as a time."""

    template = "Both {bound}Version and {bound}Timestamp are given. Leave one of them out."
    bound: str
    """`starting` or `ending`."""


@delta_error("DELTA_CDC_READ_NULL_RANGE_BOUNDARY", "22004")
class ChangesBoundNullError(DeltaAnalysisError, ValueError):
    """One end of the range is NULL."""

    template = "A version or time given to {function} is NULL. Give a version, a timestamp or the text of one."
    function: str


@delta_error("DELTA_INVALID_CDC_RANGE", "22003")
class ChangesRangeError(DeltaAnalysisError, ValueError):
    """The range ends before it begins."""

    template = "Changes of {table} were asked for from version {start} to {end}, which lies before it."
    table: str
    start: int
    end: int


@delta_error("DELTA_CDC_START_VERSION_AFTER_LATEST", "22003")
class ChangesStartAfterLatestError(DeltaAnalysisError, ValueError):
    """The range begins with a version that is not there yet."""

    template = (
        "Changes of {table} were asked for from version {start}, and its newest version is {latest}. Set "
        "spark.databricks.delta.changeDataFeed.timestampOutOfRange.enabled to true to get no rows instead of this "
        "error."
    )
    table: str
    start: int
    latest: int


@delta_error("DELTA_MISSING_CHANGE_DATA", "KD002")
class ChangesNotRecordedError(DeltaAnalysisError):
    """A version of the range was written while the feed was off."""

    template = (
        "Changes of {table} from version {start} to {end} cannot be read: its change data feed was off in version "
        "{version}. DESCRIBE HISTORY shows when 'delta.enableChangeDataFeed' was set; changes are recorded from there "
        "on."
    )
    table: str
    version: int
    start: int
    end: int


@delta_error("DELTA_CHANGE_DATA_FEED_INCOMPATIBLE_SCHEMA_CHANGE", "0AKDC")
class ChangesSchemaError(DeltaAnalysisError, DeltaUnsupportedOperationError):
    """Rows of the range were written under columns that cannot be read as those of the result."""

    table: str
    start: int
    end: int
    read_version: int
    """Whose columns the result would have."""
    version: int
    """Whose columns do not fit."""
    difference: str

    def explain(self) -> str:
        apart = (
            f"Read the changes up to version {self.version - 1} and those from version {self.version} on apart."
            if self.start < self.version
            else f"Changes that end before the columns changed can be read: give an end before version {self.end}."
        )
        return (
            f"Changes of {self.table} from version {self.start} to {self.end} cannot be read as one table: their "
            f"columns are those of version {self.read_version}, and in version {self.version} {self.difference}. "
            f"{apart}"
        )


@delta_error("DELTA_CHANGE_DATA_FEED_INCOMPATIBLE_DATA_SCHEMA")
class ChangesDataSchemaError(ChangesSchemaError):
    """The first commit read described the table anew, and removed rows that cannot be read under the columns since."""

    def explain(self) -> str:
        return (
            f"The rows that version {self.version} of {self.table} removed cannot be read with the columns of version "
            f"{self.read_version}: before, {self.difference}. Read the changes from version {self.version + 1} on."
        )


@delta_error("DELTA_REMOVE_FILE_CDC_MISSING_EXTENDED_METADATA", "XXKDS")
class ChangesIncompleteError(DeltaError):
    """A commit does not say enough of a file that it removed to read the rows that went with it."""

    template = (
        "Version {version} of {table} removed {path} without saying how large it was and in which partition it lay, so "
        "that the rows that went with it cannot be read. Begin with a later version."
    )
    table: str
    version: int
    path: str


@delta_error("INCORRECT_NUMBER_OF_ARGUMENTS", "42605")
class TableFunctionArgumentsError(DeltaAnalysisError, ValueError):
    """`table_changes` or `table_changes_by_path` was called with arguments that it does not have."""

    function: str
    problem: str

    def explain(self) -> str:
        what = "'/path/of/table'" if self.function.endswith("by_path") else "'table'"
        return f"{self.function}({what}, start[, end]): {self.problem}."
