"""The values that UPDATE and MERGE assign to columns and to fields of structs."""

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
from anabranch.schema.casts import Keep
from anabranch.schema.enforcement import ColumnPlan, Fill, fill_of
from anabranch.schema.paths import FieldPath, child, quoted
from anabranch.spark.conditions.column_names import RowNames
from anabranch.spark.session.table_identifiers import split_identifier
from anabranch.spark.write.row_rules import default_value


def default_of(field: StructField, *, table: str) -> Column | None:
    """The value of the keyword DEFAULT in that column: its default, or NULL; None where the table makes the values.

    Raises `UntrustedExpressionError`.
    """
    fill, expression = fill_of(field)
    if fill is Fill.NULL:
        return F.lit(None).cast(field.dataType)
    if fill is not Fill.DEFAULT:
        return None
    plan = ColumnPlan(target=field, source_index=None, conversion=Keep(), fill=fill, expression=expression)
    return default_value(plan, table=table)


def default_keyword_value(table: TableRef, path: FieldPath) -> Column:
    """The value of DEFAULT where a value is required, as in one of several rows of VALUES; NULL within a struct.

    Raises `UnsupportedOperationError` for a column whose values the table makes, `UntrustedExpressionError`.
    """
    field = child(table.latest().schema, path[0])
    if field is None or len(path) > 1:
        return F.lit(None)
    value = default_of(field, table=table.label)
    if value is None:
        raise UnsupportedOperationError(
            operation=f"The keyword DEFAULT for the {fill_of(field)[0].value} column {field.name} of {table.label}",
            instead="Leave the column out, or write these rows in a separate statement.",
        )
    return value


Value = Column | str
"""The value that a column is set to: a Column, or SQL."""
DEFAULT = "DEFAULT"
"""The keyword which, in the place of a value, sets a column to its default."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Assignments:
    """New values by column. No path is a prefix of another."""

    values: Mapping[FieldPath, Value]
    """The values by the path of the column or field, spelled as in the table."""

    def sets(self, column: str) -> bool:
        """Whether the column, or a field in it, gets a new value."""
        return any(path[0] == column for path in self.values)

    def value(self, field: StructField, current: Column) -> Column:
        """The new value of a top-level column whose value is `current`."""
        return self._value(field, current, (field.name,))

    def _value(self, field: StructField, current: Column, path: FieldPath) -> Column:
        if path in self.values:
            value = self.values[path]
            return F.expr(value) if isinstance(value, str) else value
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
    values: Mapping[str, Value], schema: StructType, *, table: str, alias: RowNames = None
) -> dict[str, Value]:
    """The values with each keyword DEFAULT replaced by the column's default; columns that the table computes are
    left out.
    """
    replaced = {name: value for name, value in values.items() if not _is_keyword(value, schema)}
    if len(replaced) == len(values):
        return replaced
    keywords = {name: value for name, value in values.items() if _is_keyword(value, schema)}
    for path in assignments(keywords, schema, table=table, alias=alias).values:
        default = default_of(schema[path[0]], table=table) if len(path) == 1 else F.lit(None)
        if default is not None:
            replaced[quoted(path)] = default
    return replaced


def _is_keyword(value: Value, schema: StructType) -> bool:
    return isinstance(value, str) and value.strip().upper() == DEFAULT and child(schema, DEFAULT) is None


def assignments(
    values: Mapping[str, Value],
    schema: StructType,
    *,
    table: str,
    alias: RowNames = None,
    case_sensitive: bool = False,
) -> Assignments:
    """The values by path, from values by column as a user writes it (`a`, `s.x`, `t.a` for an alias t).

    Raises `AssignmentError` for a column that the table lacks, `ConflictingAssignmentsError` for one that is set twice.
    """
    by_path: dict[FieldPath, Value] = {}
    for name, value in values.items():
        path = _path(name, schema, table, alias, case_sensitive=case_sensitive)
        clash = next((other for other in by_path if other[: len(path)] == path or path[: len(other)] == other), None)
        if clash is not None:
            problem = f"{quoted(clash)} is set as well"
            raise ConflictingAssignmentsError(table=table, column=name, problem=problem)
        by_path[path] = value
    return Assignments(values=by_path)


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
    path: list[str] = []
    struct: StructType = schema
    for depth, part in enumerate(parts, start=1):
        field = child(struct, part, case_sensitive=case_sensitive)
        if field is None:
            columns = ", ".join(struct.fieldNames())
            raise AssignmentError(
                table=table, column=name, problem=f"there is no such column; the columns are: {columns}"
            )
        path.append(field.name)
        if depth < len(parts):
            if not isinstance(field.dataType, StructType):
                problem = f"{quoted(path)} is {field.dataType.simpleString()}, and only fields of structs can be set"
                raise AssignmentError(table=table, column=name, problem=problem)
            struct = field.dataType
    return tuple(path)


def check_of_one_row(frame: DataFrame, values: Mapping[str, Column], *, table: str) -> None:
    """Raises `AssignmentError` for generators, aggregates and window functions; `values` are by column of the table.

    Spark allows them in SELECT, where they change how many rows there are.
    """
    try:
        # Spark allows none of them in WHERE. It analyzes the plan, and runs nothing.
        frame.where(F.struct(*values.values()).isNotNull())
    except AnalysisException as refused:
        # For a value that makes no sense in SELECT either, Spark's own error is raised here.
        assert frame.select(*(value.alias(f"v{index}") for index, value in enumerate(values.values()))).schema
        problem = f"generators, aggregates and window functions have no value for a single row ({refused})"
        raise AssignmentError(table=table, column=", ".join(values), problem=problem) from refused
