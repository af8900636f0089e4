"""Errors about rows that a table does not accept. The write stopped; the table is unchanged."""

from __future__ import annotations

from anabranch.errors.base import DeltaAnalysisError, DeltaError, delta_error
from anabranch.errors.schema import IncompatibleTypesError, SchemaMismatchError


@delta_error("DELTA_NESTED_NOT_NULL_CONSTRAINT", "0AKDC")
class NestedNotNullError(DeltaAnalysisError):
    """The definition of a table has NOT NULL inside an array or a map."""

    template = (
        "Column {column} of {table} cannot be NOT NULL: it is inside an array or a map, where the constraint is not "
        "checked. Leave NOT NULL out, or set spark.databricks.delta.constraints.allowUnenforcedNotNull.enabled to "
        "true, and anabranch leaves it out."
    )
    table: str
    column: str


@delta_error("DELTA_NOT_NULL_CONSTRAINT_VIOLATED", "23502")
class NotNullViolationError(DeltaError):
    """A row to be written has NULL in a NOT NULL column."""

    template = (
        "Column {column} of {table} is NOT NULL, and a row to be written has NULL there: {row}. Nothing was written. "
        "Fill or filter such rows, or drop NOT NULL from the column."
    )
    table: str
    column: str
    row: str
    """Some of the row's values as JSON."""


@delta_error("DELTA_EXCEED_CHAR_VARCHAR_LIMIT", "22001")
class LengthLimitError(DeltaError):
    """A string is longer than the column's `char(n)` or `varchar(n)` allows."""

    template = (
        "Column {column} of {table} is {declared}, and a row to be written has {value!r}: {row}. Nothing was written. "
        "Shorten the value, or widen the column."
    )
    table: str
    column: str
    declared: str
    value: str
    row: str
    """Some of the row's values as JSON."""


@delta_error("DELTA_CAST_OVERFLOW_IN_TABLE_WRITE", "22003")
class CastOverflowError(DeltaError):
    """A value does not fit into the type of the table's column."""

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
    """A value to be inserted does not fit into the type of the table's column."""


@delta_error("CAST_INVALID_INPUT", "22018")
class MalformedValueError(CastOverflowError):
    """A string is not a value of the column's type. The condition is that of Spark's casts."""

    template = (
        "Column {column} of {table} is {column_type}, and a row to be written has the string {value!r}, which is not a "
        "value of that type. Nothing was written. Correct or filter such rows."
    )


@delta_error("DELTA_REPLACE_WHERE_MISMATCH", "44000")
class ReplaceWhereMismatchError(DeltaAnalysisError):
    """A row to be written does not satisfy the `replaceWhere` condition."""

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
    """A condition reads `_metadata` of rows that have none."""

    is_view: bool

    def explain(self) -> str:
        if self.is_view:
            return (
                "A condition reads _metadata of a view that does not select it. Name the table instead of the view, or "
                "add _metadata to the columns of the view."
            )
        return (
            "replaceWhere reads _metadata, and the rows to be written are in no file yet. Use DELETE FROM … WHERE "
            "_metadata…, then append the new rows; or MERGE, whose conditions may read it."
        )


@delta_error("DELTA_VIOLATE_CONSTRAINT_WITH_VALUES", "23001")
class CheckConstraintViolationError(DeltaError):
    """A CHECK constraint, or an invariant of a column, is false or NULL for a row to be written."""

    table: str
    constraint: str
    """Such as "CHECK constraint positive"."""
    expression: str
    columns: tuple[str, ...]
    """The columns that the expression reads."""
    row: str
    """The values of these columns as JSON."""

    def explain(self) -> str:
        columns = f" (columns {', '.join(self.columns)})" if self.columns else ""
        return (
            f"A row to be written violates the {self.constraint} ({self.expression}) of {self.table}{columns}: "
            f"{self.row}. Nothing was written. Correct or filter such rows, or drop the constraint; a result of NULL "
            "counts as a violation."
        )


@delta_error("DELTA_VIOLATE_CONSTRAINT_WITH_VALUES", "23001")
class GeneratedColumnMismatchError(DeltaError):
    """A row to be written has another value in a generated column than the column's expression gives."""

    template = (
        "Column {column} of {table} is generated as {expression}, and a row to be written has another value: {row}. "
        "Nothing was written. Leave the column out of the data, or correct the value."
    )
    table: str
    column: str
    expression: str
    row: str
    """The values of the column and of those it is computed from, as JSON."""


@delta_error("DELTA_IDENTITY_COLUMNS_OVERFLOW", "22003")
class IdentityOverflowError(DeltaError):
    """The next number of an identity column exceeds BIGINT."""

    template = (
        "Identity column {column} of {table} has no numbers left: the next one exceeds BIGINT. Nothing was written. "
        "Write the rows to a new table whose column starts at another number."
    )
    table: str
    column: str


@delta_error("DELTA_NEW_CHECK_CONSTRAINT_VIOLATION", "23512")
class ExistingRowsViolateError(DeltaAnalysisError):
    """Rows that are already in the table break the new rule."""

    table: str
    rule: str
    expression: str
    num_rows: int
    rows: tuple[str, ...]
    """Some of the rows as JSON."""

    def explain(self) -> str:
        rule = f"the new {self.rule} ({self.expression})"
        rows = ", ".join(self.rows)
        violation = f"1 row of {self.table} violates {rule}: {rows}"
        if self.num_rows != 1:
            violation = f"{self.num_rows:,} rows of {self.table} violate {rule}, among them {rows}"
        return f"{violation}. The rule was not added. Correct or delete these rows first."


@delta_error("DELTA_UNSUPPORTED_EXPRESSION_IN_METADATA", "0AKDC")
class UntrustedExpressionError(DeltaAnalysisError, ValueError):
    """An expression in a table's metadata contains something that anabranch does not execute."""

    table: str
    owner: str
    """Such as "CHECK constraint positive"."""
    expression: str
    reason: str
    function: str | None = None
    """The function that the expression may not call, in lower case; None where something else is wrong."""

    def explain(self) -> str:
        return (
            f"The {self.owner} of {self.table} ({_shortened(self.expression)}) is not executed: {self.reason}. It may "
            "have operators and deterministic built-in functions of the table's columns, but no subqueries, "
            "aggregates, windows, user-defined functions or functions that call code. Change it, or drop it."
        )


@delta_error("DELTA_UNSUPPORTED_EXPRESSION_GENERATED_COLUMN", "42621")
class UnsupportedGenerationError(UntrustedExpressionError):
    """The expression of a generated column is not allowed in a table, such as the current time."""


@delta_error("DELTA_NON_DETERMINISTIC_EXPRESSION_IN_GENERATED_COLUMN", "42621")
class NonDeterministicGenerationError(UntrustedExpressionError):
    """The expression of a generated column is not deterministic."""


@delta_error("DELTA_AGGREGATE_IN_GENERATED_COLUMN", "42621")
class AggregateInGenerationError(UntrustedExpressionError):
    """The expression of a generated column aggregates rows."""


@delta_error("DELTA_UNSUPPORTED_EXPRESSION_CHECK_CONSTRAINT", "42621")
class UnsupportedConstraintError(UntrustedExpressionError):
    """The expression of a CHECK constraint is not allowed in a table."""


@delta_error("DELTA_NON_DETERMINISTIC_EXPRESSION_IN_CHECK_CONSTRAINT", "42621")
class NonDeterministicConstraintError(UntrustedExpressionError):
    """The expression of a CHECK constraint is not deterministic."""


@delta_error("DELTA_AGGREGATE_IN_CHECK_CONSTRAINT", "42621")
class AggregateInConstraintError(UntrustedExpressionError):
    """The expression of a CHECK constraint aggregates rows."""


@delta_error("DELTA_INVALID_CONSTRAINT_NAME", "42939")
class ConstraintNameError(DeltaAnalysisError, ValueError):
    """The name of a new CHECK constraint is reserved by Delta."""

    template = "{table} cannot have a CHECK constraint named {name}: the name is reserved. Choose another one."
    table: str
    name: str


@delta_error("DELTA_EXPRESSION_TYPE_MISMATCH", "42K09")
class ExpressionTypeError(DeltaAnalysisError, ValueError):
    """An expression in a table's metadata cannot be resolved, or has another type than it must have."""

    table: str
    owner: str
    expression: str
    problem: str

    def explain(self) -> str:
        return f"The {self.owner} of {self.table} ({_shortened(self.expression)}) cannot be used: {self.problem}."


@delta_error("INVALID_DEFAULT_VALUE.DATA_TYPE", "42623")
class DefaultTypeError(ExpressionTypeError):
    """A column's default has a type that the column does not take. The condition is Spark's."""


@delta_error("DELTA_CONSTRAINT_ALREADY_EXISTS", "42710")
class ConstraintExistsError(DeltaAnalysisError, ValueError):
    """The table already has a constraint of that name."""

    template = "{table} already has a constraint {name}: {expression}. Drop it first, or choose another name."
    table: str
    name: str
    expression: str


@delta_error("DELTA_CONSTRAINT_DOES_NOT_EXIST", "42704")
class ConstraintNotFoundError(DeltaAnalysisError, ValueError):
    """The table has no constraint of the name to be dropped."""

    table: str
    name: str
    existing: tuple[str, ...]

    def explain(self) -> str:
        return (
            f"{self.table} has no constraint {self.name}; it has {', '.join(self.existing) or 'none'}. "
            "DROP CONSTRAINT IF EXISTS ignores missing constraints."
        )


def _shortened(expression: str) -> str:
    return expression if len(expression) <= 200 else expression[:200] + " …"


# Errors about values that UPDATE, MERGE, or INSERT by position casts. Nothing was committed.


@delta_error("DATATYPE_MISMATCH.CAST_WITHOUT_SUGGESTION", "42K09")
class UncastableValueError(IncompatibleTypesError):
    """A value has a type that cannot be cast to the column's."""


@delta_error("CANNOT_UP_CAST_DATATYPE", "42846")
class UnsafeCastError(IncompatibleTypesError):
    """A value has a type that is not cast to the column's type under `storeAssignmentPolicy=STRICT`."""


@delta_error("DELTA_UPDATE_SCHEMA_MISMATCH_EXPRESSION", "42846")
class UnknownFieldsError(SchemaMismatchError):
    """A struct that UPDATE or MERGE assigns has fields that the table's column lacks."""
