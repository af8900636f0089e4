"""Columns of a schema, as conditions of the command line name them."""

from __future__ import annotations

from pyspark.sql.types import StructField, StructType

from anabranch.cli.rows.written_conditions import parse_condition
from anabranch.errors.schema import ColumnNotFoundError
from anabranch.predicates.expressions import ColumnPath, Predicate
from anabranch.protocol.time_zones import UTC, TimeZone
from anabranch.schema.paths import find


def parsed(text: str, schema: StructType, *, time_zone: TimeZone = UTC) -> Predicate:
    def find_column(path: ColumnPath) -> tuple[ColumnPath, StructField]:
        if len(path) > 1 and find(schema, path[:1]) is None:
            path = path[1:]
        fields = [field for end in range(len(path)) if (field := find(schema, path[: end + 1])) is not None]
        if len(fields) < len(path):
            raise ColumnNotFoundError(table="t", column=".".join(path), available=tuple(schema.fieldNames()))
        return tuple(field.name for field in fields), fields[-1]

    return parse_condition(text, find_column, time_zone=time_zone)
