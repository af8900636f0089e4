"""The values that UPDATE and MERGE give to columns, and to fields inside of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention
from pyspark.sql.types import StructField, StructType

from anabranch.commands.table_access import TableRef
from anabranch.errors.arguments import AssignmentError, ConflictingAssignmentsError, UnsupportedOperationError
from anabranch.errors.tables import InvalidIdentifierError
from anabranch.schema.conversions import Keep
from anabranch.schema.enforcement import ColumnPlan, Fill, fill_of
from anabranch.schema.paths import FieldPath, child, quoted
from anabranch.spark.conditions.column_names import RowNames
from anabranch.spark.session.table_identifiers import split_identifier
from anabranch.spark.write.row_rules import default_value

# The keyword DEFAULT.


def default_of(field: StructField, *, table: str) -> Column | None:
    """What DEFAULT stands for in that column: its default, or NULL; None for values that the table makes itself.

    Raises `UntrustedExpressionError`.
    """
    fill, expression = fill_of(field)
    if fill is Fill.NULL:
        return F.lit(None).cast(field.dataType)
    if fill is not Fill.DEFAULT:
        return None
    plan = ColumnPlan(target=field, source=None, source_index=None, conversion=Keep(), fill=fill, expression=expression)
    return default_value(plan, table=table)


def given_default(table: TableRef, path: FieldPath) -> Column:
    """The value of DEFAULT where a value must stand, as beside rows that have one; NULL within a struct.

    Raises `UnsupportedOperationError` for a column whose values the table makes, `UntrustedExpressionError`.
    """
    field = child(table.latest().schema, path[0])
    if field is None or len(path) > 1:
        return F.lit(None)
    value = default_of(field, table=table.label)
    if value is None:
        raise UnsupportedOperationError(
            operation=f"The keyword DEFAULT for the {fill_of(field)[0].value} column {field.name} of {table.label}",
            instead="Leave the column out, or write these rows by a statement of their own.",
        )
    return value


Value = Column | str
"""What a column is set to: a Column, or SQL."""
DEFAULT = "DEFAULT"
"""The keyword, in the place of a value: a column is set to its default."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Assignments:
    """New values by column. No path lies within another."""

    values: Mapping[FieldPath, Value]
    """By the path of the column or field, spelled as in the table."""

    def sets(self, column: str) -> bool:
        """Whether the column, or something in it, gets a new value."""
        return any(path[0] == column for path in self.values)

    def value(self, field: StructField, current: Column) -> Column:
        """The new value of a top-level column whose value is `current`."""
        return self._value(field, current, (field.name,))

    def _value(self, field: StructField, current: Column, path: FieldPath) -> Column:
        if path in self.values:
            given = self.values[path]
            return F.expr(given) if isinstance(given, str) else given
        inside = any(other[: len(path)] == path for other in self.values)
        if not inside or not isinstance(field.dataType, StructType):
            return current
        # A struct that is NULL becomes one whose other fields are NULL, as in Delta.
        return F.struct(
            *(
                self._value(inner, current.getField(inner.name), (*path, inner.name)).alias(inner.name)
                for inner in field.dataType.fields
            )
        )


def with_defaults(
    given: Mapping[str, Value], schema: StructType, *, table: str, alias: RowNames = None
) -> dict[str, Value]:
    """The same with the keyword DEFAULT made the column's own; columns that the table computes are left out."""
    kept = {name: value for name, value in given.items() if not _is_keyword(value, schema)}
    if len(kept) == len(given):
        return kept
    words = {name: value for name, value in given.items() if _is_keyword(value, schema)}
    for path in assignments(words, schema, table=table, alias=alias).values:
        found = default_of(schema[path[0]], table=table) if len(path) == 1 else F.lit(None)
        if found is not None:
            kept[quoted(path)] = found
    return kept


def _is_keyword(value: Value, schema: StructType) -> bool:
    return isinstance(value, str) and value.strip().upper() == DEFAULT and child(schema, DEFAULT) is None


def assignments(
    given: Mapping[str, Value],
    schema: StructType,
    *,
    table: str,
    alias: RowNames = None,
    case_sensitive: bool = False,
) -> Assignments:
    """What `given`, by column as a user writes it (`a`, `s.x`, `t.a` for an alias t), sets in a table of this schema.

    Raises `AssignmentError` for a column that is not there, `ConflictingAssignmentsError` for one that is set twice.
    """
    values: dict[FieldPath, Value] = {}
    for name, value in given.items():
        path = _path(name, schema, table, alias, case_sensitive=case_sensitive)
        clash = next((other for other in values if other[: len(path)] == path or path[: len(other)] == other), None)
        if clash is not None:
            problem = f"{quoted(clash)} is set as well"
            raise ConflictingAssignmentsError(table=table, column=name, problem=problem)
        values[path] = value
    return Assignments(values=values)


def _path(name: str, schema: StructType, table: str, alias: RowNames, *, case_sensitive: bool) -> FieldPath:
    try:
        parts = split_identifier(name)
    except InvalidIdentifierError as error:
        raise AssignmentError(table=table, column=name, problem=error.problem) from error
    if (
        isinstance(alias, str)
        and len(parts) > 1
        and parts[0].lower() == alias.lower()
        and child(schema, parts[0]) is None
    ):
        parts = parts[1:]
    found: list[str] = []
    here: StructType = schema
    for place, part in enumerate(parts):
        field = child(here, part, case_sensitive=case_sensitive)
        if field is None:
            there = ", ".join(here.fieldNames())
            raise AssignmentError(table=table, column=name, problem=f"there is no such column; there are: {there}")
        found.append(field.name)
        if place < len(parts) - 1:
            if not isinstance(field.dataType, StructType):
                problem = f"{quoted(found)} is {field.dataType.simpleString()}, and only fields of structs can be set"
                raise AssignmentError(table=table, column=name, problem=problem)
            here = field.dataType
    return tuple(found)


def check_of_one_row(frame: DataFrame, values: Mapping[str, Column], *, table: str) -> None:
    """Raises `AssignmentError` for generators, aggregates and window functions, by column of the table.

    Spark takes them in SELECT, where they make other rows of those that a statement is about.
    """
    try:
        # In WHERE it takes none of them. It looks at the plan, and nothing runs.
        frame.where(F.struct(*values.values()).isNotNull())
    except AnalysisException as refused:
        # What makes no sense at all is told as it is.
        assert frame.select(*(value.alias(f"v{place}") for place, value in enumerate(values.values()))).schema
        problem = f"generators, aggregates and window functions have no value of one row ({refused})"
        raise AssignmentError(table=table, column=", ".join(values), problem=problem) from refused
