"""Errors about rows that a table does not take. The write stopped; the table is as it was."""

from __future__ import annotations

from anabranch.errors.base import DeltaAnalysisError, DeltaError, delta_error
from anabranch.errors.schema import IncompatibleTypesError, SchemaMismatchError


@delta_error("DELTA_NESTED_NOT_NULL_CONSTRAINT", "0AKDC")
class NestedNotNullError(DeltaAnalysisError):
    """A new table was to have NOT NULL inside an array or a map."""

    template = (
        "Column {column} of {table} cannot be NOT NULL: inside arrays and maps nobody checks it. Leave NOT NULL out, "
        "or set spark.databricks.delta.constraints.allowUnenforcedNotNull.enabled to true, and it is left out for you."
    )
    table: str
    column: str


@delta_error("DELTA_NOT_NULL_CONSTRAINT_VIOLATED", "23502")
class NotNullViolationError(DeltaError):
    """A row has a NULL where the column allows none."""

    template = (
        "Column {column} of {table} is NOT NULL, and a row to be written has NULL there: {row}. Nothing was written. "
        "Fill or filter such rows, or drop NOT NULL from the column."
    )
    table: str
    column: str
    row: str
    """JSON of some of its values."""


@delta_error("DELTA_EXCEED_CHAR_VARCHAR_LIMIT", "22001")
class LengthLimitError(DeltaError):
    """A text is longer than the column's `char(n)` or `varchar(n)`."""

    template = (
        "Column {column} of {table} is {declared}, and a row to be written has {value!r}: {row}. Nothing was written. "
        "Shorten the value, or widen the column."
    )
    table: str
    column: str
    declared: str
    value: str
    row: str
    """JSON of some of the values that were given."""


@delta_error("DELTA_CAST_OVERFLOW_IN_TABLE_WRITE", "22003")
class CastOverflowError(DeltaError):
    """A value does not fit the type of the table's column."""

    template = (
        "Column {column} of {table} is {column_type}, and a row to be written has {value}, which does not fit. Nothing "
        "was written. Cast or filter such rows, or widen the column."
    )
    table: str
    column: str
    column_type: str
    value: str


@delta_error("CAST_OVERFLOW_IN_TABLE_INSERT")
class InsertOverflowError(CastOverflowError):
    """A value to be inserted does not fit the type of the table's column."""


@delta_error("CAST_INVALID_INPUT", "22018")
class MalformedValueError(CastOverflowError):
    """A text is no value of the type of the table's column, as Spark's casts say it."""

    template = (
        "Column {column} of {table} is {column_type}, and a row to be written has the text {value!r}, which is none. "
        "Nothing was written. Change or filter such rows."
    )


@delta_error("DELTA_REPLACE_WHERE_MISMATCH", "44000")
class ReplaceWhereMismatchError(DeltaAnalysisError):
    """A row to be written lies outside of what `replaceWhere` replaces."""

    template = (
        "A row to be written to {table} does not satisfy replaceWhere ({predicate}): {row}. Nothing was written. "
        "Filter the rows, widen the predicate, or set spark.databricks.delta.replaceWhere.constraintCheck.enabled to "
        "false.{advice}"
    )
    table: str
    predicate: str
    row: str
    advice: str = ""


@delta_error("UNRESOLVED_COLUMN.WITH_SUGGESTION", "42703")
class MetadataColumnError(DeltaAnalysisError):
    """A condition asks for `_metadata` of rows that have none."""

    is_view: bool

    def explain(self) -> str:
        if self.is_view:
            return (
                "A condition asks for _metadata of a view, which does not show it. Name the table in the place of the "
                "view, or let the view select _metadata, too."
            )
        return (
            "replaceWhere asks for _metadata, and the rows to be written are in no file yet. Use DELETE FROM … WHERE "
            "_metadata…, then append the new rows; or MERGE, whose conditions may ask for it."
        )


@delta_error("DELTA_VIOLATE_CONSTRAINT_WITH_VALUES", "23001")
class CheckConstraintViolationError(DeltaError):
    """A row for which a CHECK constraint, or an invariant of a column, is false or NULL."""

    table: str
    constraint: str
    """Such as "CHECK constraint positive"."""
    expression: str
    columns: tuple[str, ...]
    """Those that the expression reads."""
    row: str
    """JSON of their values."""

    def explain(self) -> str:
        columns = f" (columns {', '.join(self.columns)})" if self.columns else ""
        return (
            f"A row to be written violates the {self.constraint} ({self.expression}) of {self.table}{columns}: "
            f"{self.row}. Nothing was written. Correct or filter such rows, or drop the constraint; a result of NULL "
            "counts as a violation."
        )


@delta_error("DELTA_VIOLATE_CONSTRAINT_WITH_VALUES", "23001")
class GeneratedColumnMismatchError(DeltaError):
    """A value was given for a generated column, and it is not what the column computes."""

    template = (
        "Column {column} of {table} is generated as {expression}, and a row to be written has another value: {row}. "
        "Nothing was written. Leave the column out of the data, or correct the value."
    )
    table: str
    column: str
    expression: str
    row: str
    """JSON of the column and those it is computed from."""


@delta_error("DELTA_IDENTITY_COLUMNS_OVERFLOW", "22003")
class IdentityOverflowError(DeltaError):
    """The next number of an identity column is beyond what a BIGINT holds."""

    template = (
        "Identity column {column} of {table} has no numbers left: the next one is no BIGINT. Nothing was written. "
        "Write the rows to a new table whose column starts elsewhere."
    )
    table: str
    column: str


@delta_error("DELTA_NEW_CHECK_CONSTRAINT_VIOLATION", "23512")
class ExistingRowsViolateError(DeltaAnalysisError):
    """Rows that are in the table already break the rule that was to be added."""

    table: str
    rule: str
    expression: str
    num_rows: int
    rows: tuple[str, ...]
    """Some of them, as JSON."""

    def explain(self) -> str:
        rule = f"the new {self.rule} ({self.expression})"
        rows = ", ".join(self.rows)
        said = f"1 row of {self.table} violates {rule}: {rows}"
        if self.num_rows != 1:
            said = f"{self.num_rows:,} rows of {self.table} violate {rule}, among them {rows}"
        return f"{said}. The rule was not added. Correct or delete these rows first."


@delta_error("DELTA_UNSUPPORTED_EXPRESSION_IN_METADATA", "0AKDC")
class UntrustedExpressionError(DeltaAnalysisError, ValueError):
    """An expression in the description of a table has something in it that is never run."""

    table: str
    owner: str
    """Such as "CHECK constraint positive"."""
    expression: str
    reason: str
    function: str | None = None
    """The function that it calls and may not, in lower case, where that is what is wrong."""

    def explain(self) -> str:
        return (
            f"The {self.owner} of {self.table} ({_shortened(self.expression)}) is not run: {self.reason}. It may hold "
            "operators and deterministic built-in functions of the table's columns, and neither subqueries, "
            "aggregates, windows, user-defined functions nor functions that call code. Write it otherwise, or drop it."
        )


@delta_error("DELTA_UNSUPPORTED_EXPRESSION_GENERATED_COLUMN", "42621")
class UnsupportedGenerationError(UntrustedExpressionError):
    """A generated column was to be computed by an expression that no table may hold, such as the current time."""


@delta_error("DELTA_NON_DETERMINISTIC_EXPRESSION_IN_GENERATED_COLUMN", "42621")
class NonDeterministicGenerationError(UntrustedExpressionError):
    """A generated column was to have values that differ each time."""


@delta_error("DELTA_AGGREGATE_IN_GENERATED_COLUMN", "42621")
class AggregateInGenerationError(UntrustedExpressionError):
    """A generated column was to be computed of several rows."""


@delta_error("DELTA_UNSUPPORTED_EXPRESSION_CHECK_CONSTRAINT", "42621")
class UnsupportedConstraintError(UntrustedExpressionError):
    """A CHECK constraint was to hold an expression that no table may hold."""


@delta_error("DELTA_NON_DETERMINISTIC_EXPRESSION_IN_CHECK_CONSTRAINT", "42621")
class NonDeterministicConstraintError(UntrustedExpressionError):
    """A CHECK constraint was to ask what has another answer each time."""


@delta_error("DELTA_AGGREGATE_IN_CHECK_CONSTRAINT", "42621")
class AggregateInConstraintError(UntrustedExpressionError):
    """A CHECK constraint was to ask something of several rows."""


@delta_error("DELTA_INVALID_CONSTRAINT_NAME", "42939")
class ConstraintNameError(DeltaAnalysisError, ValueError):
    """A CHECK constraint was to have a name that Delta has for itself."""

    template = "{table} can have no CHECK constraint of the name {name}: it is reserved. Choose another."
    table: str
    name: str


@delta_error("DELTA_EXPRESSION_TYPE_MISMATCH", "42K09")
class ExpressionTypeError(DeltaAnalysisError, ValueError):
    """An expression in the description of a table makes no sense, or gives values of another type."""

    table: str
    owner: str
    expression: str
    problem: str

    def explain(self) -> str:
        return f"The {self.owner} of {self.table} ({_shortened(self.expression)}) cannot be used: {self.problem}."


@delta_error("INVALID_DEFAULT_VALUE.DATA_TYPE", "42623")
class DefaultTypeError(ExpressionTypeError):
    """A default has values of a type that its column does not take. The condition is Spark's."""


@delta_error("DELTA_CONSTRAINT_ALREADY_EXISTS", "42710")
class ConstraintExistsError(DeltaAnalysisError, ValueError):
    """A constraint of that name is there already."""

    template = "{table} has a constraint {name} already: {expression}. Drop it first, or choose another name."
    table: str
    name: str
    expression: str


@delta_error("DELTA_CONSTRAINT_DOES_NOT_EXIST", "42704")
class ConstraintNotFoundError(DeltaAnalysisError, ValueError):
    """There is no constraint of that name to drop."""

    table: str
    name: str
    existing: tuple[str, ...]

    def explain(self) -> str:
        return (
            f"{self.table} has no constraint {self.name}; it has {', '.join(self.existing) or 'none'}. "
            "DROP CONSTRAINT IF EXISTS passes over what is not there."
        )


def _shortened(expression: str) -> str:
    return expression if len(expression) <= 200 else expression[:200] + " …"


# Errors about values that UPDATE, MERGE, or INSERT by position casts. Nothing was committed.


@delta_error("DATATYPE_MISMATCH.CAST_WITHOUT_SUGGESTION", "42K09")
class UncastableValueError(IncompatibleTypesError):
    """A value has a type that is not cast to the column's."""


@delta_error("CANNOT_UP_CAST_DATATYPE", "42846")
class UnsafeCastError(IncompatibleTypesError):
    """A value has a type that is not cast to the column's under `storeAssignmentPolicy=STRICT`."""


@delta_error("DELTA_UPDATE_SCHEMA_MISMATCH_EXPRESSION", "42846")
class UnknownFieldsError(SchemaMismatchError):
    """A struct that UPDATE or MERGE sets has fields that the table's lacks."""
