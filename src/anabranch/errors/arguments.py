"""Errors about what a user wrote: options and arguments, SQL text, conditions, the command line."""

from __future__ import annotations

from pyspark.errors import IllegalArgumentException, ParseException

from anabranch.errors.base import DeltaAnalysisError, DeltaError, delta_error

# Errors about options and arguments, and about what is not supported.


@delta_error("DELTA_ILLEGAL_OPTION", "42616")
class InvalidOptionError(DeltaAnalysisError, ValueError):
    """An option of a read or a write has a value that means nothing."""

    template = "Option {option} = {value!r}: {problem}."
    option: str
    value: str
    problem: str


@delta_error("DELTA_TIMESTAMP_INVALID", "42816")
class InvalidTimestampOptionError(InvalidOptionError):
    """An option names a time that is none."""


@delta_error("DELTA_UNSUPPORTED_TIME_TRAVEL_MULTIPLE_FORMATS", "42613")
class TimeTravelTwiceError(InvalidOptionError):
    """A read asks for a version in two ways."""


@delta_error("DELTA_INVALID_IDEMPOTENT_WRITES_OPTIONS", "42616")
class IdempotentWriteOptionsError(InvalidOptionError, IllegalArgumentException):
    """The options that make a write idempotent do not go together, or mean nothing."""


@delta_error("DELTA_REPLACE_WHERE_WITH_DYNAMIC_PARTITION_OVERWRITE", "42613")
class ReplaceWhereDynamicError(InvalidOptionError, IllegalArgumentException):
    """An overwrite says in two ways which rows go: by a condition, and by the partitions of the new ones."""


@delta_error("DELTA_OVERWRITE_SCHEMA_WITH_DYNAMIC_PARTITION_OVERWRITE", "42613")
class OverwriteSchemaDynamicError(InvalidOptionError, IllegalArgumentException):
    """An overwrite of some partitions would replace the schema of all."""


@delta_error("DELTA_OPERATION_NOT_SUPPORTED", "0A000")
class UnsupportedOperationError(DeltaError):
    """Something Delta offers and this version of anabranch does not. Nothing was done."""

    operation: str
    instead: str = ""

    def explain(self) -> str:
        instead = f" {self.instead}" if self.instead else ""
        return f"{self.operation} is not supported by this version of anabranch.{instead}"


@delta_error("DELTA_OPERATION_NOT_ALLOWED_DETAIL", "0AKDC")
class BucketingError(UnsupportedOperationError):
    """A Delta table was to have buckets."""


@delta_error("DELTA_TRUNCATE_TABLE_PARTITION_NOT_SUPPORTED", "0AKDC")
class PartitionTruncationError(UnsupportedOperationError):
    """TRUNCATE TABLE names a partition."""


@delta_error("ANABRANCH_DELTA_CONNECT_UNSUPPORTED", "0A000")
class ClientMessageError(DeltaError):
    """A client of Spark Connect sent a message about a table that cannot be answered. Nothing was done."""

    template = (
        "This server cannot answer the message {kind} of a client's DeltaTable: {problem}. Client and server may be of "
        "releases that do not fit together. Use SQL, which needs nothing in the client."
    )
    kind: str
    problem: str


@delta_error("DELTA_CONFIGURE_SPARK_SESSION", "56038")
class SessionNotEnabledError(DeltaError):
    """A call needs a session that `anabranch.enable` was called on."""

    template = "{call} needs a session that knows Delta. Call anabranch.enable(spark) once, first."
    call: str


@delta_error("DELTA_INVALID_ARGUMENT", "22023")
class InvalidArgumentError(DeltaAnalysisError, ValueError):
    """An argument of a call has a value that means nothing."""

    template = "{argument} = {value!r}: {problem}."
    argument: str
    value: str
    problem: str


@delta_error("DELTA_TIMESTAMP_INVALID", "42816")
class InvalidTimestampError(InvalidArgumentError):
    """A statement names a time that is none."""


@delta_error("DELTA_INVALID_ASSIGNMENT", "42703")
class AssignmentError(DeltaAnalysisError, ValueError):
    """UPDATE or MERGE sets something that cannot be set."""

    template = "{column} of {table} cannot be set: {problem}."
    table: str
    column: str
    """As it was written."""
    problem: str


@delta_error("DELTA_IDENTITY_COLUMNS_UPDATE_NOT_SUPPORTED", "42808")
class IdentityAssignmentError(AssignmentError):
    """UPDATE or MERGE sets an identity column, whose values the table makes."""

    problem: str = "it is an identity column, whose values the table makes; rows keep theirs"


@delta_error("DELTA_UNSUPPORTED_NESTED_FIELD_IN_UPDATE", "0A000")
class NestedAssignmentError(AssignmentError):
    """UPDATE or MERGE sets what is neither a column nor a field of a struct, such as a field inside an array."""

    problem: str = "only columns and fields of structs can be set"


@delta_error("DELTA_UNSUPPORTED_SOURCE", "0AKDD")
class UnchangeableTargetError(DeltaAnalysisError, ValueError):
    """A statement names something that is not a table, and cannot be used as one. Nothing was done."""

    template = (
        "{statement} needs a whole Delta table; what it names cannot stand for one: {problem}. Name the table itself; "
        "DELETE, UPDATE and MERGE take a temporary view of rows and columns of one table, too."
    )
    statement: str
    problem: str


@delta_error("DELTA_UNEXPECTED_PARTIAL_SCAN", "KD00A")
class PartialTargetError(UnchangeableTargetError):
    """A statement names a part of a table, a partition for one, where it needs the whole. Nothing was done."""


@delta_error("DELTA_FAILED_SCAN_WITH_HISTORICAL_VERSION", "KD002")
class HistoricalTargetError(UnchangeableTargetError):
    """A statement that is about the newest version of a table names an old one. Nothing was done."""


@delta_error("DELTA_CONFLICT_SET_COLUMN", "42701")
class ConflictingAssignmentsError(AssignmentError):
    """UPDATE or MERGE sets a column twice, or a struct and a field of it."""


@delta_error("DELTA_DUPLICATE_COLUMNS_ON_INSERT", "42701")
class DuplicateInsertColumnsError(AssignmentError):
    """The INSERT of a MERGE names a column twice."""


# Errors about SQL text.


@delta_error("PARSE_SYNTAX_ERROR", "42601")
class SqlSyntaxError(DeltaAnalysisError, ParseException, ValueError):
    """A statement on a Delta table that cannot be read. Also Spark's `ParseException`."""

    template = (
        "The statement {statement} cannot be read from line {line}, column {column} on: expected is {expected}, there "
        "is {found}. Names that are keywords or hold other than letters, digits and _ go in backticks."
    )
    statement: str
    """What kind of statement it is, as far as that could be told."""
    line: int
    """Counted from 1, as the column is."""
    column: int
    expected: str
    found: str


@delta_error("UNBOUND_SQL_PARAMETER", "42P02")
class UnboundParameterError(DeltaAnalysisError, ValueError):
    """A statement has a parameter that no value was given for."""

    template = (
        "The statement has the parameter {parameter}, and no value was given for it. Pass named parameters as a "
        "dictionary and those written ? as a list: spark.sql(text, args=…)."
    )
    parameter: str


@delta_error("UNSUPPORTED_SQL_PARAMETER", "0A000")
class UnsupportedParameterError(DeltaAnalysisError, ValueError):
    """A parameter has a value that cannot be used in a condition or an assignment."""

    template = (
        "The parameter {parameter} is a value of type {value_type}, which has no SQL literal. Write the value into the "
        "statement, or use a query over a DataFrame."
    )
    parameter: str
    value_type: str


@delta_error("DELTA_INSERT_COLUMN_ARITY_MISMATCH", "42802")
class InvalidColumnListError(DeltaAnalysisError, ValueError):
    """The columns that an INSERT names do not go together with its rows."""

    table: str
    columns: tuple[str, ...]
    """That the rows are for."""
    found: int
    """How many columns the rows have."""

    def explain(self) -> str:
        return (
            f"Each row for {self.table} needs {len(self.columns)} columns ({', '.join(self.columns)}), and the query "
            f"gives {self.found}. Name the columns that the query gives: INSERT INTO table (a, b) …"
        )


@delta_error("STATIC_PARTITION_COLUMN_IN_INSERT_COLUMN_LIST", "42713")
class StaticPartitionColumnListedError(DeltaAnalysisError, ValueError):
    """An INSERT gives a column its value by PARTITION and lists it too."""

    table: str
    column: str

    def explain(self) -> str:
        return (
            f"PARTITION gives the column {self.column} of {self.table} its value, so the list of columns cannot have "
            "it too. Leave it out of the list, or write PARTITION without a value for it."
        )


# What can be wrong with a condition that a user wrote.


@delta_error("PARSE_SYNTAX_ERROR", "42601")
class PredicateSyntaxError(DeltaAnalysisError, ValueError):
    """The text is no SQL condition. Also Python's `ValueError`."""

    text: str
    line: int
    """From 1."""
    column: int
    """From 1."""
    reason: str

    def explain(self) -> str:
        shown = self.text if len(self.text) <= 500 else self.text[:500] + "…"
        return (
            f"Could not read the condition {shown!r} at line {self.line}, column {self.column}: "
            f"{self.reason.rstrip('.')}. Write it as the WHERE clause of a query."
        )


# What can go wrong on the command line beyond the errors of tables.


@delta_error("ANABRANCH_CONDITION_NEEDS_SPARK", "0A000")
class ConditionNeedsSparkError(DeltaAnalysisError):
    """A condition has parts that only Spark can evaluate row by row."""

    template = (
        "The condition {condition_text!r} needs Spark: {parts} cannot be evaluated without it. Here, comparisons of "
        "columns with constants or columns, IN, BETWEEN, IS NULL and LIKE 'prefix%' work, joined by AND, OR and NOT. "
        'For more, use spark.read.format("delta").load(…).where(…).'
    )
    condition_text: str
    parts: tuple[str, ...]


@delta_error("ANABRANCH_DEMO_FOLDER_IN_USE", "42710")
class DemoFolderInUseError(DeltaError):
    """The folder for the demo holds something else."""

    template = (
        "{folder} is not an earlier demo table ({found}), so the demo leaves it alone. Give the path of a folder that "
        "does not exist yet."
    )
    folder: str
    found: str


@delta_error("ANABRANCH_DEMO_DATA_MISSING", "42704")
class DemoDataMissingError(DeltaError):
    """The data set of the demo is not installed."""

    template = 'The flights of the demo are not installed. Run: pip install "anabranch[demo]"'


@delta_error("ANABRANCH_JAVA_MISSING", "58000")
class JavaMissingError(DeltaError):
    """Spark needs a Java that is not there."""

    template = (
        "Spark needs Java 17 or newer, and {found}.\nInstall one of these, then run the command again:\n  Debian, "
        "Ubuntu   sudo apt-get install openjdk-17-jre-headless\n  Fedora, RHEL     sudo dnf install "
        "java-17-openjdk-headless\n  macOS            brew install openjdk@17\n  conda            conda install -c "
        "conda-forge openjdk=17\nIf Java is installed elsewhere, set JAVA_HOME to its folder."
    )
    found: str
    """What there is instead, as a clause."""


@delta_error("ANABRANCH_DEMO_FAILED")
class DemoFailedError(DeltaError):
    """A part of the demo gave a wrong result."""

    template = "The demo stopped at {part}: {problem}"
    part: str
    problem: str
