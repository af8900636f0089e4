"""The values that UPDATE and MERGE give to columns, and to fields inside of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention
from pyspark.sql.types import StructField, StructType

from anabranch.errors.arguments import AssignmentError
from anabranch.errors.tables import InvalidIdentifierError
from anabranch.schema.paths import FieldPath, child, quoted
from anabranch.spark.table_identifiers import split_identifier

Value = Column | str
"""What a column is set to: a Column, or SQL."""


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


def assignments(given: Mapping[str, Value], schema: StructType, *, table: str, alias: str | None = None) -> Assignments:
    """What `given`, by column as a user writes it (`a`, `s.x`, `t.a` for an alias t), sets in a table of this schema.

    Raises `AssignmentError` for a column that is not there, and for one that is set twice.
    """
    values: dict[FieldPath, Value] = {}
    for name, value in given.items():
        path = _path(name, schema, table, alias)
        clash = next((other for other in values if other[: len(path)] == path or path[: len(other)] == other), None)
        if clash is not None:
            raise AssignmentError(table=table, column=name, problem=f"{quoted(clash)} is set as well")
        values[path] = value
    return Assignments(values=values)


def _path(name: str, schema: StructType, table: str, alias: str | None) -> FieldPath:
    try:
        parts = split_identifier(name)
    except InvalidIdentifierError as error:
        raise AssignmentError(table=table, column=name, problem=error.problem) from error
    if alias is not None and len(parts) > 1 and parts[0].lower() == alias.lower() and child(schema, parts[0]) is None:
        parts = parts[1:]
    found: list[str] = []
    here: StructType = schema
    for place, part in enumerate(parts):
        field = child(here, part)
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
