"""Errors about rows that a table does not take. The write stopped; the table is as it was."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from anabranch.errors.base import DeltaAnalysisError, DeltaError
from anabranch.errors.schema import IncompatibleTypesError, SchemaMismatchError


@dataclasses.dataclass(eq=False, kw_only=True)
class NestedNotNullError(DeltaAnalysisError):
    """A new table was to have NOT NULL inside an array or a map."""

    condition: ClassVar[str] = "DELTA_NESTED_NOT_NULL_CONSTRAINT"
    sqlstate: ClassVar[str] = "0AKDC"
    template: ClassVar[str] = (
        "Column {column} of {table} cannot be NOT NULL: inside arrays and maps nobody checks it. Leave NOT NULL out, "
        "or set spark.databricks.delta.constraints.allowUnenforcedNotNull.enabled to true, and it is left out for you."
    )
    table: str
    column: str


@dataclasses.dataclass(eq=False, kw_only=True)
class NotNullViolationError(DeltaError):
    """A row has a NULL where the column allows none."""

    condition: ClassVar[str] = "DELTA_NOT_NULL_CONSTRAINT_VIOLATED"
    sqlstate: ClassVar[str] = "23502"
    template: ClassVar[str] = (
        "Column {column} of {table} is NOT NULL, and a row to be written has NULL there: {row}. Nothing was written. "
        "Fill or filter such rows, or drop NOT NULL from the column."
    )
    table: str
    column: str
    row: str
    """JSON of some of its values."""


@dataclasses.dataclass(eq=False, kw_only=True)
class LengthLimitError(DeltaError):
    """A text is longer than the column's `char(n)` or `varchar(n)`."""

    condition: ClassVar[str] = "DELTA_EXCEED_CHAR_VARCHAR_LIMIT"
    sqlstate: ClassVar[str] = "22001"
    template: ClassVar[str] = (
        "Column {column} of {table} is {declared}, and a row to be written has {value!r}: {row}. Nothing was written. "
        "Shorten the value, or widen the column."
    )
    table: str
    column: str
    declared: str
    value: str
    row: str
    """JSON of some of the values that were given."""


@dataclasses.dataclass(eq=False, kw_only=True)
class CastOverflowError(DeltaError):
    """A value does not fit the type of the table's column."""

    condition: ClassVar[str] = "DELTA_CAST_OVERFLOW_IN_TABLE_WRITE"
    sqlstate: ClassVar[str] = "22003"
    template: ClassVar[str] = (
        "Column {column} of {table} is {column_type}, and a row to be written has {value}, which does not fit. Nothing "
        "was written. Cast or filter such rows, or widen the column."
    )
    table: str
    column: str
    column_type: str
    value: str


@dataclasses.dataclass(eq=False, kw_only=True)
class InsertOverflowError(CastOverflowError):
    """A value to be inserted does not fit the type of the table's column."""

    condition: ClassVar[str] = "CAST_OVERFLOW_IN_TABLE_INSERT"


@dataclasses.dataclass(eq=False, kw_only=True)
class MalformedValueError(CastOverflowError):
    """A text is no value of the type of the table's column, as Spark's casts say it."""

    condition: ClassVar[str] = "CAST_INVALID_INPUT"
    sqlstate: ClassVar[str] = "22018"
    template: ClassVar[str] = (
        "Column {column} of {table} is {column_type}, and a row to be written has the text {value!r}, which is none. "
        "Nothing was written. Change or filter such rows."
    )


@dataclasses.dataclass(eq=False, kw_only=True)
class ReplaceWhereMismatchError(DeltaAnalysisError):
    """A row to be written lies outside of what `replaceWhere` replaces."""

    condition: ClassVar[str] = "DELTA_REPLACE_WHERE_MISMATCH"
    sqlstate: ClassVar[str] = "44000"
    template: ClassVar[str] = (
        "A row to be written to {table} does not satisfy replaceWhere ({predicate}): {row}. Nothing was written. "
        "Filter the rows, widen the predicate, or set spark.databricks.delta.replaceWhere.constraintCheck.enabled to "
        "false.{advice}"
    )
    table: str
    predicate: str
    row: str
    advice: str = ""


@dataclasses.dataclass(eq=False, kw_only=True)
class MetadataColumnError(DeltaAnalysisError):
    """A condition asks for `_metadata` of rows that have none."""

    condition: ClassVar[str] = "UNRESOLVED_COLUMN.WITH_SUGGESTION"
    sqlstate: ClassVar[str] = "42703"
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


@dataclasses.dataclass(eq=False, kw_only=True)
class CheckConstraintViolationError(DeltaError):
    """A row for which a CHECK constraint, or an invariant of a column, is false or NULL."""

    condition: ClassVar[str] = "DELTA_VIOLATE_CONSTRAINT_WITH_VALUES"
    sqlstate: ClassVar[str] = "23001"
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


@dataclasses.dataclass(eq=False, kw_only=True)
class GeneratedColumnMismatchError(DeltaError):
    """A value was given for a generated column, and it is not what the column computes."""

    condition: ClassVar[str] = "DELTA_VIOLATE_CONSTRAINT_WITH_VALUES"
    sqlstate: ClassVar[str] = "23001"
    template: ClassVar[str] = (
        "Column {column} of {table} is generated as {expression}, and a row to be written has another value: {row}. "
        "Nothing was written. Leave the column out of the data, or correct the value."
    )
    table: str
    column: str
    expression: str
    row: str
    """JSON of the column and those it is computed from."""


@dataclasses.dataclass(eq=False, kw_only=True)
class IdentityOverflowError(DeltaError):
    """The next number of an identity column is beyond what a BIGINT holds."""

    condition: ClassVar[str] = "DELTA_IDENTITY_COLUMNS_OVERFLOW"
    sqlstate: ClassVar[str] = "22003"
    template: ClassVar[str] = (
        "Identity column {column} of {table} has no numbers left: the next one is no BIGINT. Nothing was written. "
        "Write the rows to a new table whose column starts elsewhere."
    )
    table: str
    column: str


@dataclasses.dataclass(eq=False, kw_only=True)
class ExistingRowsViolateError(DeltaAnalysisError):
    """Rows that are in the table already break the rule that was to be added."""

    condition: ClassVar[str] = "DELTA_NEW_CHECK_CONSTRAINT_VIOLATION"
    sqlstate: ClassVar[str] = "23512"
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


@dataclasses.dataclass(eq=False, kw_only=True)
class UntrustedExpressionError(DeltaAnalysisError, ValueError):
    """An expression in the description of a table has something in it that is never run."""

    condition: ClassVar[str] = "DELTA_UNSUPPORTED_EXPRESSION_IN_METADATA"
    sqlstate: ClassVar[str] = "0AKDC"
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


@dataclasses.dataclass(eq=False, kw_only=True)
class UnsupportedGenerationError(UntrustedExpressionError):
    """A generated column was to be computed by an expression that no table may hold, such as the current time."""

    condition: ClassVar[str] = "DELTA_UNSUPPORTED_EXPRESSION_GENERATED_COLUMN"
    sqlstate: ClassVar[str] = "42621"


@dataclasses.dataclass(eq=False, kw_only=True)
class NonDeterministicGenerationError(UntrustedExpressionError):
    """A generated column was to have values that differ each time."""

    condition: ClassVar[str] = "DELTA_NON_DETERMINISTIC_EXPRESSION_IN_GENERATED_COLUMN"
    sqlstate: ClassVar[str] = "42621"


@dataclasses.dataclass(eq=False, kw_only=True)
class AggregateInGenerationError(UntrustedExpressionError):
    """A generated column was to be computed of several rows."""

    condition: ClassVar[str] = "DELTA_AGGREGATE_IN_GENERATED_COLUMN"
    sqlstate: ClassVar[str] = "42621"


@dataclasses.dataclass(eq=False, kw_only=True)
class UnsupportedConstraintError(UntrustedExpressionError):
    """A CHECK constraint was to hold an expression that no table may hold."""

    condition: ClassVar[str] = "DELTA_UNSUPPORTED_EXPRESSION_CHECK_CONSTRAINT"
    sqlstate: ClassVar[str] = "42621"


@dataclasses.dataclass(eq=False, kw_only=True)
class NonDeterministicConstraintError(UntrustedExpressionError):
    """A CHECK constraint was to ask what has another answer each time."""

    condition: ClassVar[str] = "DELTA_NON_DETERMINISTIC_EXPRESSION_IN_CHECK_CONSTRAINT"
    sqlstate: ClassVar[str] = "42621"


@dataclasses.dataclass(eq=False, kw_only=True)
class AggregateInConstraintError(UntrustedExpressionError):
    """A CHECK constraint was to ask something of several rows."""

    condition: ClassVar[str] = "DELTA_AGGREGATE_IN_CHECK_CONSTRAINT"
    sqlstate: ClassVar[str] = "42621"


@dataclasses.dataclass(eq=False, kw_only=True)
class ConstraintNameError(DeltaAnalysisError, ValueError):
    """A CHECK constraint was to have a name that Delta has for itself."""

    condition: ClassVar[str] = "DELTA_INVALID_CONSTRAINT_NAME"
    sqlstate: ClassVar[str] = "42939"
    template: ClassVar[str] = "{table} can have no CHECK constraint of the name {name}: it is reserved. Choose another."
    table: str
    name: str


@dataclasses.dataclass(eq=False, kw_only=True)
class ExpressionTypeError(DeltaAnalysisError, ValueError):
    """An expression in the description of a table makes no sense, or gives values of another type."""

    condition: ClassVar[str] = "DELTA_EXPRESSION_TYPE_MISMATCH"
    sqlstate: ClassVar[str] = "42K09"
    table: str
    owner: str
    expression: str
    problem: str

    def explain(self) -> str:
        return f"The {self.owner} of {self.table} ({_shortened(self.expression)}) cannot be used: {self.problem}."


@dataclasses.dataclass(eq=False, kw_only=True)
class DefaultTypeError(ExpressionTypeError):
    """A default has values of a type that its column does not take. The condition is Spark's."""

    condition: ClassVar[str] = "INVALID_DEFAULT_VALUE.DATA_TYPE"
    sqlstate: ClassVar[str] = "42623"


@dataclasses.dataclass(eq=False, kw_only=True)
class ConstraintExistsError(DeltaAnalysisError, ValueError):
    """A constraint of that name is there already."""

    condition: ClassVar[str] = "DELTA_CONSTRAINT_ALREADY_EXISTS"
    sqlstate: ClassVar[str] = "42710"
    template: ClassVar[str] = (
        "{table} has a constraint {name} already: {expression}. Drop it first, or choose another name."
    )
    table: str
    name: str
    expression: str


@dataclasses.dataclass(eq=False, kw_only=True)
class ConstraintNotFoundError(DeltaAnalysisError, ValueError):
    """There is no constraint of that name to drop."""

    condition: ClassVar[str] = "DELTA_CONSTRAINT_DOES_NOT_EXIST"
    sqlstate: ClassVar[str] = "42704"
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


@dataclasses.dataclass(eq=False, kw_only=True)
class UncastableValueError(IncompatibleTypesError):
    """A value has a type that is not cast to the column's."""

    condition = "DATATYPE_MISMATCH.CAST_WITHOUT_SUGGESTION"
    sqlstate = "42K09"


@dataclasses.dataclass(eq=False, kw_only=True)
class UnsafeCastError(IncompatibleTypesError):
    """A value has a type that is not cast to the column's under `storeAssignmentPolicy=STRICT`."""

    condition = "CANNOT_UP_CAST_DATATYPE"
    sqlstate = "42846"


@dataclasses.dataclass(eq=False, kw_only=True)
class UnknownFieldsError(SchemaMismatchError):
    """A struct that UPDATE or MERGE sets has fields that the table's lacks."""

    condition = "DELTA_UPDATE_SCHEMA_MISMATCH_EXPRESSION"
    sqlstate = "42846"
