"""Errors about what a user wrote: options and arguments, SQL text, conditions, the command line."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from pyspark.errors import IllegalArgumentException, ParseException

from anabranch.errors.base import DeltaAnalysisError, DeltaError

# Errors about options and arguments, and about what is not supported.


@dataclasses.dataclass(eq=False, kw_only=True)
class InvalidOptionError(DeltaAnalysisError, ValueError):
    """An option of a read or a write has a value that means nothing."""

    condition: ClassVar[str] = "DELTA_ILLEGAL_OPTION"
    sqlstate: ClassVar[str] = "42616"
    template: ClassVar[str] = "Option {option} = {value!r}: {problem}."
    option: str
    value: str
    problem: str


@dataclasses.dataclass(eq=False, kw_only=True)
class InvalidTimestampOptionError(InvalidOptionError):
    """An option names a time that is none."""

    condition: ClassVar[str] = "DELTA_TIMESTAMP_INVALID"
    sqlstate: ClassVar[str] = "42816"


@dataclasses.dataclass(eq=False, kw_only=True)
class TimeTravelTwiceError(InvalidOptionError):
    """A read asks for a version in two ways."""

    condition: ClassVar[str] = "DELTA_UNSUPPORTED_TIME_TRAVEL_MULTIPLE_FORMATS"
    sqlstate: ClassVar[str] = "42613"


@dataclasses.dataclass(eq=False, kw_only=True)
class IdempotentWriteOptionsError(InvalidOptionError, IllegalArgumentException):
    """The options that make a write idempotent do not go together, or mean nothing."""

    condition: ClassVar[str] = "DELTA_INVALID_IDEMPOTENT_WRITES_OPTIONS"
    sqlstate: ClassVar[str] = "42616"


@dataclasses.dataclass(eq=False, kw_only=True)
class ReplaceWhereDynamicError(InvalidOptionError, IllegalArgumentException):
    """An overwrite says in two ways which rows go: by a condition, and by the partitions of the new ones."""

    condition: ClassVar[str] = "DELTA_REPLACE_WHERE_WITH_DYNAMIC_PARTITION_OVERWRITE"
    sqlstate: ClassVar[str] = "42613"


@dataclasses.dataclass(eq=False, kw_only=True)
class OverwriteSchemaDynamicError(InvalidOptionError, IllegalArgumentException):
    """An overwrite of some partitions would replace the schema of all."""

    condition: ClassVar[str] = "DELTA_OVERWRITE_SCHEMA_WITH_DYNAMIC_PARTITION_OVERWRITE"
    sqlstate: ClassVar[str] = "42613"


@dataclasses.dataclass(eq=False, kw_only=True)
class UnsupportedOperationError(DeltaError):
    """Something Delta offers and this version of anabranch does not. Nothing was done."""

    condition: ClassVar[str] = "DELTA_OPERATION_NOT_SUPPORTED"
    sqlstate: ClassVar[str] = "0A000"
    operation: str
    instead: str = ""

    def explain(self) -> str:
        instead = f" {self.instead}" if self.instead else ""
        return f"{self.operation} is not supported by this version of anabranch.{instead}"


@dataclasses.dataclass(eq=False, kw_only=True)
class BucketingError(UnsupportedOperationError):
    """A Delta table was to have buckets."""

    condition: ClassVar[str] = "DELTA_OPERATION_NOT_ALLOWED_DETAIL"
    sqlstate: ClassVar[str] = "0AKDC"


@dataclasses.dataclass(eq=False, kw_only=True)
class PartitionTruncationError(UnsupportedOperationError):
    """TRUNCATE TABLE names a partition."""

    condition: ClassVar[str] = "DELTA_TRUNCATE_TABLE_PARTITION_NOT_SUPPORTED"
    sqlstate: ClassVar[str] = "0AKDC"


@dataclasses.dataclass(eq=False, kw_only=True)
class ClientMessageError(DeltaError):
    """A client of Spark Connect sent a message about a table that cannot be answered. Nothing was done."""

    condition: ClassVar[str] = "ANABRANCH_DELTA_CONNECT_UNSUPPORTED"
    sqlstate: ClassVar[str] = "0A000"
    template: ClassVar[str] = (
        "This server cannot answer the message {kind} of a client's DeltaTable: {problem}. Client and server may be of "
        "releases that do not fit together. Use SQL, which needs nothing in the client."
    )
    kind: str
    problem: str


@dataclasses.dataclass(eq=False, kw_only=True)
class SessionNotEnabledError(DeltaError):
    """A call needs a session that `anabranch.enable` was called on."""

    condition: ClassVar[str] = "DELTA_CONFIGURE_SPARK_SESSION"
    sqlstate: ClassVar[str] = "56038"
    template: ClassVar[str] = "{call} needs a session that knows Delta. Call anabranch.enable(spark) once, first."
    call: str


@dataclasses.dataclass(eq=False, kw_only=True)
class InvalidArgumentError(DeltaAnalysisError, ValueError):
    """An argument of a call has a value that means nothing."""

    condition: ClassVar[str] = "DELTA_INVALID_ARGUMENT"
    sqlstate: ClassVar[str] = "22023"
    template: ClassVar[str] = "{argument} = {value!r}: {problem}."
    argument: str
    value: str
    problem: str


@dataclasses.dataclass(eq=False, kw_only=True)
class InvalidTimestampError(InvalidArgumentError):
    """A statement names a time that is none."""

    condition: ClassVar[str] = "DELTA_TIMESTAMP_INVALID"
    sqlstate: ClassVar[str] = "42816"


@dataclasses.dataclass(eq=False, kw_only=True)
class AssignmentError(DeltaAnalysisError, ValueError):
    """UPDATE or MERGE sets something that cannot be set."""

    condition: ClassVar[str] = "DELTA_INVALID_ASSIGNMENT"
    sqlstate: ClassVar[str] = "42703"
    template: ClassVar[str] = "{column} of {table} cannot be set: {problem}."
    table: str
    column: str
    """As it was written."""
    problem: str


@dataclasses.dataclass(eq=False, kw_only=True)
class IdentityAssignmentError(AssignmentError):
    """UPDATE or MERGE sets an identity column, whose values the table makes."""

    condition: ClassVar[str] = "DELTA_IDENTITY_COLUMNS_UPDATE_NOT_SUPPORTED"
    sqlstate: ClassVar[str] = "42808"
    problem: str = "it is an identity column, whose values the table makes; rows keep theirs"


@dataclasses.dataclass(eq=False, kw_only=True)
class NestedAssignmentError(AssignmentError):
    """UPDATE or MERGE sets what is neither a column nor a field of a struct, such as a field inside an array."""

    condition: ClassVar[str] = "DELTA_UNSUPPORTED_NESTED_FIELD_IN_UPDATE"
    sqlstate: ClassVar[str] = "0A000"
    problem: str = "only columns and fields of structs can be set"


@dataclasses.dataclass(eq=False, kw_only=True)
class UnchangeableTargetError(DeltaAnalysisError, ValueError):
    """A statement names something that is not a table, and cannot be used as one. Nothing was done."""

    condition: ClassVar[str] = "DELTA_UNSUPPORTED_SOURCE"
    sqlstate: ClassVar[str] = "0AKDD"
    template: ClassVar[str] = (
        "{statement} needs a whole Delta table; what it names cannot stand for one: {problem}. Name the table itself; "
        "DELETE, UPDATE and MERGE take a temporary view of rows and columns of one table, too."
    )
    statement: str
    problem: str


@dataclasses.dataclass(eq=False, kw_only=True)
class PartialTargetError(UnchangeableTargetError):
    """A statement names a part of a table, a partition for one, where it needs the whole. Nothing was done."""

    condition: ClassVar[str] = "DELTA_UNEXPECTED_PARTIAL_SCAN"
    sqlstate: ClassVar[str] = "KD00A"


@dataclasses.dataclass(eq=False, kw_only=True)
class HistoricalTargetError(UnchangeableTargetError):
    """A statement that is about the newest version of a table names an old one. Nothing was done."""

    condition: ClassVar[str] = "DELTA_FAILED_SCAN_WITH_HISTORICAL_VERSION"
    sqlstate: ClassVar[str] = "KD002"


@dataclasses.dataclass(eq=False, kw_only=True)
class ConflictingAssignmentsError(AssignmentError):
    """UPDATE or MERGE sets a column twice, or a struct and a field of it."""

    condition: ClassVar[str] = "DELTA_CONFLICT_SET_COLUMN"
    sqlstate: ClassVar[str] = "42701"


@dataclasses.dataclass(eq=False, kw_only=True)
class DuplicateInsertColumnsError(AssignmentError):
    """The INSERT of a MERGE names a column twice."""

    condition: ClassVar[str] = "DELTA_DUPLICATE_COLUMNS_ON_INSERT"
    sqlstate: ClassVar[str] = "42701"


# Errors about SQL text.


@dataclasses.dataclass(eq=False, kw_only=True)
class SqlSyntaxError(DeltaAnalysisError, ParseException, ValueError):
    """A statement on a Delta table that cannot be read. Also Spark's `ParseException`."""

    condition: ClassVar[str] = "PARSE_SYNTAX_ERROR"
    sqlstate: ClassVar[str] = "42601"
    template: ClassVar[str] = (
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


@dataclasses.dataclass(eq=False, kw_only=True)
class UnboundParameterError(DeltaAnalysisError, ValueError):
    """A statement has a parameter that no value was given for."""

    condition: ClassVar[str] = "UNBOUND_SQL_PARAMETER"
    sqlstate: ClassVar[str] = "42P02"
    template: ClassVar[str] = (
        "The statement has the parameter {parameter}, and no value was given for it. Pass named parameters as a "
        "dictionary and those written ? as a list: spark.sql(text, args=…)."
    )
    parameter: str


@dataclasses.dataclass(eq=False, kw_only=True)
class UnsupportedParameterError(DeltaAnalysisError, ValueError):
    """A parameter has a value that cannot be used in a condition or an assignment."""

    condition: ClassVar[str] = "UNSUPPORTED_SQL_PARAMETER"
    sqlstate: ClassVar[str] = "0A000"
    template: ClassVar[str] = (
        "The parameter {parameter} is a value of type {value_type}, which has no SQL literal. Write the value into the "
        "statement, or use a query over a DataFrame."
    )
    parameter: str
    value_type: str


@dataclasses.dataclass(eq=False, kw_only=True)
class InvalidColumnListError(DeltaAnalysisError, ValueError):
    """The columns that an INSERT names do not go together with its rows."""

    condition: ClassVar[str] = "DELTA_INSERT_COLUMN_ARITY_MISMATCH"
    sqlstate: ClassVar[str] = "42802"
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


@dataclasses.dataclass(eq=False, kw_only=True)
class StaticPartitionColumnListedError(DeltaAnalysisError, ValueError):
    """An INSERT gives a column its value by PARTITION and lists it too."""

    condition: ClassVar[str] = "STATIC_PARTITION_COLUMN_IN_INSERT_COLUMN_LIST"
    sqlstate: ClassVar[str] = "42713"
    table: str
    column: str

    def explain(self) -> str:
        return (
            f"PARTITION gives the column {self.column} of {self.table} its value, so the list of columns cannot have "
            "it too. Leave it out of the list, or write PARTITION without a value for it."
        )


# What can be wrong with a condition that a user wrote.


@dataclasses.dataclass(eq=False, kw_only=True)
class PredicateSyntaxError(DeltaAnalysisError, ValueError):
    """The text is no SQL condition. Also Python's `ValueError`."""

    condition: ClassVar[str] = "PARSE_SYNTAX_ERROR"
    sqlstate: ClassVar[str] = "42601"

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


@dataclasses.dataclass(eq=False, kw_only=True)
class ConditionNeedsSparkError(DeltaAnalysisError):
    """A condition has parts that only Spark can evaluate row by row."""

    condition: ClassVar[str] = "ANABRANCH_CONDITION_NEEDS_SPARK"
    sqlstate: ClassVar[str] = "0A000"
    template: ClassVar[str] = (
        "The condition {condition_text!r} needs Spark: {parts} cannot be evaluated without it. Here, comparisons of "
        "columns with constants or columns, IN, BETWEEN, IS NULL and LIKE 'prefix%' work, joined by AND, OR and NOT. "
        'For more, use spark.read.format("delta").load(…).where(…).'
    )
    condition_text: str
    parts: tuple[str, ...]


@dataclasses.dataclass(eq=False, kw_only=True)
class DemoFolderInUseError(DeltaError):
    """The folder for the demo holds something else."""

    condition: ClassVar[str] = "ANABRANCH_DEMO_FOLDER_IN_USE"
    sqlstate: ClassVar[str] = "42710"
    template: ClassVar[str] = (
        "{folder} is not an earlier demo table ({found}), so the demo leaves it alone. Give the path of a folder that "
        "does not exist yet."
    )
    folder: str
    found: str


@dataclasses.dataclass(eq=False, kw_only=True)
class DemoDataMissingError(DeltaError):
    """The data set of the demo is not installed."""

    condition: ClassVar[str] = "ANABRANCH_DEMO_DATA_MISSING"
    sqlstate: ClassVar[str] = "42704"
    template: ClassVar[str] = 'The flights of the demo are not installed. Run: pip install "anabranch[demo]"'


@dataclasses.dataclass(eq=False, kw_only=True)
class JavaMissingError(DeltaError):
    """Spark needs a Java that is not there."""

    condition: ClassVar[str] = "ANABRANCH_JAVA_MISSING"
    sqlstate: ClassVar[str] = "58000"
    template: ClassVar[str] = (
        "Spark needs Java 17 or newer, and {found}.\nInstall one of these, then run the command again:\n  Debian, "
        "Ubuntu   sudo apt-get install openjdk-17-jre-headless\n  Fedora, RHEL     sudo dnf install "
        "java-17-openjdk-headless\n  macOS            brew install openjdk@17\n  conda            conda install -c "
        "conda-forge openjdk=17\nIf Java is installed elsewhere, set JAVA_HOME to its folder."
    )
    found: str
    """What there is instead, as a clause."""


@dataclasses.dataclass(eq=False, kw_only=True)
class DemoFailedError(DeltaError):
    """A part of the demo gave a wrong result."""

    condition: ClassVar[str] = "ANABRANCH_DEMO_FAILED"
    template: ClassVar[str] = "The demo stopped at {part}: {problem}"
    part: str
    problem: str
