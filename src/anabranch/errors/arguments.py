"""Errors about what users write: options and arguments, SQL text, conditions, the command line."""

from __future__ import annotations

from pyspark.errors import IllegalArgumentException, ParseException

from anabranch.errors.base import DeltaAnalysisError, DeltaError, delta_error
from anabranch.java_search import NEEDED, WAYS_OUT

# Errors about options and arguments, and about unsupported operations.


@delta_error("DELTA_ILLEGAL_OPTION", "42616")
class InvalidOptionError(DeltaAnalysisError, ValueError):
    """An option of a read or a write has an invalid value."""

    template = "Option {option} = {value!r}: {problem}."
    option: str
    value: str
    problem: str


@delta_error("DELTA_TIMESTAMP_INVALID", "42816")
class InvalidTimestampOptionError(InvalidOptionError):
    """An option has an invalid timestamp."""


@delta_error("DELTA_UNSUPPORTED_TIME_TRAVEL_MULTIPLE_FORMATS", "42613")
class TimeTravelTwiceError(InvalidOptionError):
    """A read selects a version in two ways."""


@delta_error("DELTA_INVALID_IDEMPOTENT_WRITES_OPTIONS", "42616")
class IdempotentWriteOptionsError(InvalidOptionError, IllegalArgumentException):
    """The options of an idempotent write contradict each other or have invalid values."""


@delta_error("DELTA_REPLACE_WHERE_WITH_DYNAMIC_PARTITION_OVERWRITE", "42613")
class ReplaceWhereDynamicError(InvalidOptionError, IllegalArgumentException):
    """An overwrite selects the rows to replace in two ways: by a condition, and by the partitions of the new rows."""


@delta_error("DELTA_OVERWRITE_SCHEMA_WITH_DYNAMIC_PARTITION_OVERWRITE", "42613")
class OverwriteSchemaDynamicError(InvalidOptionError, IllegalArgumentException):
    """An overwrite of some partitions would replace the schema of all."""


@delta_error("DELTA_OPERATION_NOT_SUPPORTED", "0A000")
class UnsupportedOperationError(DeltaError):
    """Delta has the operation and this version of anabranch does not. Nothing was changed."""

    operation: str
    instead: str = ""

    def explain(self) -> str:
        instead = f" {self.instead}" if self.instead else ""
        return f"{self.operation} is not supported by this version of anabranch.{instead}"


@delta_error("DELTA_OPERATION_NOT_ALLOWED_DETAIL", "0AKDC")
class BucketingError(UnsupportedOperationError):
    """A Delta table cannot have buckets."""


@delta_error("DELTA_TRUNCATE_TABLE_PARTITION_NOT_SUPPORTED", "0AKDC")
class PartitionTruncationError(UnsupportedOperationError):
    """TRUNCATE TABLE names a partition."""


@delta_error("ANABRANCH_DELTA_CONNECT_UNSUPPORTED", "0A000")
class ClientMessageError(DeltaError):
    """A client of Spark Connect sent a message about a table that the server cannot execute. Nothing was changed."""

    template = (
        "This server cannot execute the message {kind} of a client's DeltaTable: {problem}. The releases of client and "
        "server may not be compatible. Use SQL, which needs nothing in the client."
    )
    kind: str
    problem: str


@delta_error("DELTA_CONFIGURE_SPARK_SESSION", "56038")
class SessionNotEnabledError(DeltaError):
    """A call needs a session on which `anabranch.enable` was called."""

    template = "{call} needs a session that knows Delta. Call anabranch.enable(spark) first."
    call: str


@delta_error("DELTA_INVALID_ARGUMENT", "22023")
class InvalidArgumentError(DeltaAnalysisError, ValueError):
    """An argument of a call has an invalid value."""

    template = "{argument} = {value!r}: {problem}."
    argument: str
    value: str
    problem: str


@delta_error("DELTA_TIMESTAMP_INVALID", "42816")
class InvalidTimestampError(InvalidArgumentError):
    """A statement has an invalid timestamp."""


@delta_error("DELTA_INVALID_ASSIGNMENT", "42703")
class AssignmentError(DeltaAnalysisError, ValueError):
    """UPDATE or MERGE assigns to something that cannot be assigned."""

    template = "{column} of {table} cannot be set: {problem}."
    table: str
    column: str
    """The column as the statement writes it."""
    problem: str


@delta_error("DELTA_IDENTITY_COLUMNS_UPDATE_NOT_SUPPORTED", "42808")
class IdentityAssignmentError(AssignmentError):
    """UPDATE or MERGE assigns to an identity column, whose values the table generates."""

    problem: str = "it is an identity column, whose values the table generates; rows keep theirs"


@delta_error("DELTA_UNSUPPORTED_NESTED_FIELD_IN_UPDATE", "0A000")
class NestedAssignmentError(AssignmentError):
    """UPDATE or MERGE assigns to something other than a column or a struct field, such as a field inside an array."""

    problem: str = "only columns and fields of structs can be set"


@delta_error("DELTA_UNSUPPORTED_SOURCE", "0AKDD")
class UnchangeableTargetError(DeltaAnalysisError, ValueError):
    """The target of a statement is not a table and cannot be used as one. Nothing was changed."""

    template = (
        "{statement} needs a whole Delta table as its target, and this target cannot be used as one: {problem}. Name "
        "the table itself. DELETE, UPDATE and MERGE also accept a temporary view of rows and columns of one table."
    )
    statement: str
    problem: str


@delta_error("DELTA_UNEXPECTED_PARTIAL_SCAN", "KD00A")
class PartialTargetError(UnchangeableTargetError):
    """The target of a statement is a part of a table, such as a partition. Nothing was changed."""


@delta_error("DELTA_FAILED_SCAN_WITH_HISTORICAL_VERSION", "KD002")
class HistoricalTargetError(UnchangeableTargetError):
    """The target of a statement is an old version of a table. Nothing was changed."""


@delta_error("DELTA_CONFLICT_SET_COLUMN", "42701")
class ConflictingAssignmentsError(AssignmentError):
    """UPDATE or MERGE assigns to a column twice, or to a struct and to a field of it."""


@delta_error("DELTA_DUPLICATE_COLUMNS_ON_INSERT", "42701")
class DuplicateInsertColumnsError(AssignmentError):
    """The INSERT of a MERGE names a column twice."""


# Errors about SQL text.


@delta_error("PARSE_SYNTAX_ERROR", "42601")
class SqlSyntaxError(DeltaAnalysisError, ParseException, ValueError):
    """A statement on a Delta table cannot be parsed. Also Spark's `ParseException`."""

    template = (
        "The statement {statement} cannot be parsed at line {line}, column {column}: expected {expected}, but found "
        "{found}. Put names that are keywords, or that have characters other than letters, digits and _, into "
        "backticks."
    )
    statement: str
    """The kind of statement, as far as it was parsed."""
    line: int
    """Counted from 1, as the column is."""
    column: int
    expected: str
    found: str


@delta_error("UNBOUND_SQL_PARAMETER", "42P02")
class UnboundParameterError(DeltaAnalysisError, ValueError):
    """A parameter of a statement has no value."""

    template = (
        "The statement has the parameter {parameter}, which has no value. Pass named parameters as a dictionary and "
        "those written ? as a list: spark.sql(text, args=…)."
    )
    parameter: str


@delta_error("UNSUPPORTED_SQL_PARAMETER", "0A000")
class UnsupportedParameterError(DeltaAnalysisError, ValueError):
    """A parameter of a condition or an assignment has a value without an SQL literal."""

    template = (
        "The parameter {parameter} is a value of type {value_type}, which has no SQL literal. Write the value into the "
        "statement, or use a query over a DataFrame."
    )
    parameter: str
    value_type: str


@delta_error("DELTA_INSERT_COLUMN_ARITY_MISMATCH", "42802")
class InvalidColumnListError(DeltaAnalysisError, ValueError):
    """The column list of an INSERT does not match its rows."""

    table: str
    columns: tuple[str, ...]
    """The columns that each row must have."""
    found: int
    """The number of columns that the rows have."""

    def explain(self) -> str:
        return (
            f"Each row for {self.table} needs {len(self.columns)} columns ({', '.join(self.columns)}), and the query "
            f"has {self.found}. List the columns of the query: INSERT INTO table (a, b) …"
        )


@delta_error("STATIC_PARTITION_COLUMN_IN_INSERT_COLUMN_LIST", "42713")
class StaticPartitionColumnListedError(DeltaAnalysisError, ValueError):
    """An INSERT has a column both in PARTITION, with a value, and in its column list."""

    table: str
    column: str

    def explain(self) -> str:
        return (
            f"PARTITION sets the value of column {self.column} of {self.table}, so the column list cannot have it too. "
            "Leave it out of the list, or write PARTITION without a value for it."
        )


# Errors about conditions.


@delta_error("PARSE_SYNTAX_ERROR", "42601")
class PredicateSyntaxError(DeltaAnalysisError, ValueError):
    """The text is not an SQL condition. Also Python's `ValueError`."""

    text: str
    line: int
    """Counted from 1."""
    column: int
    """Counted from 1."""
    reason: str

    def explain(self) -> str:
        shown = self.text if len(self.text) <= 500 else self.text[:500] + "…"
        return (
            f"Could not parse the condition {shown!r} at line {self.line}, column {self.column}: "
            f"{self.reason.rstrip('.')}. Write it as the WHERE clause of a query."
        )


# Errors of the command line.


@delta_error("ANABRANCH_CONDITION_NEEDS_SPARK", "0A000")
class ConditionNeedsSparkError(DeltaAnalysisError):
    """A condition has parts that only Spark can evaluate."""

    template = (
        "The condition {condition_text!r} needs Spark: {parts} cannot be evaluated without it. Here you can use "
        "comparisons of columns with constants or columns, IN, BETWEEN, IS NULL and LIKE 'prefix%', joined by AND, OR "
        'and NOT. For more, use spark.read.format("delta").load(…).where(…).'
    )
    condition_text: str
    parts: tuple[str, ...]


@delta_error("ANABRANCH_DEMO_FOLDER_IN_USE", "42710")
class DemoFolderInUseError(DeltaError):
    """The folder for the demo contains something else."""

    template = (
        "{folder} is not an earlier demo table ({found}), so the demo does not change it. Use the path of a folder "
        "that does not exist yet."
    )
    folder: str
    found: str


@delta_error("ANABRANCH_DEMO_DATA_MISSING", "42704")
class DemoDataMissingError(DeltaError):
    """The data set of the demo is not installed."""

    template = 'The data set of the demo (flights) is not installed. Run: pip install "anabranch[demo]"'


@delta_error("ANABRANCH_JAVA_MISSING", "58000")
class JavaMissingError(DeltaError):
    """Spark does not find a Java that it supports."""

    template = f"{NEEDED}{{found}}.{WAYS_OUT}"
    found: str
    """What was found instead, as a clause."""


@delta_error("ANABRANCH_DEMO_FAILED")
class DemoFailedError(DeltaError):
    """A step of the demo had a wrong result."""

    template = "The demo stopped at {part}: {problem}"
    part: str
    problem: str


@delta_error("ANABRANCH_SITE_PACKAGES_NOT_WRITABLE", "42501")
class SitePackagesNotWritableError(DeltaError):
    """The site-packages folder of the environment is not writable."""

    template = (
        "{folder} cannot be changed ({problem}), so nothing was. Run this as a user who may change it, or in a virtual "
        "environment of your own; or start single programs by `anabranch run`, which changes no folder."
    )
    folder: str
    problem: str


@delta_error("ANABRANCH_FOREIGN_SITE_FILE", "42710")
class ForeignSiteFileError(DeltaError):
    """A file in site-packages has the name of anabranch's and was not made by anabranch."""

    template = "{path} was not made by anabranch, so it was not changed. Move it away, then run this again."
    path: str
