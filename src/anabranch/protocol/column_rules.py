"""What the metadata of schema fields requires of writers. See "Column Invariants" and the sections after it."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Iterator
from typing import Final

from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

INVARIANT_KEY: Final = "delta.invariants"
GENERATION_KEY: Final = "delta.generationExpression"
IDENTITY_PREFIX: Final = "delta.identity."
DEFAULT_KEY: Final = "CURRENT_DEFAULT"

GEOSPATIAL_TYPES: Final = frozenset({"geometry", "geography"})
"""Their type names: not every supported PySpark has classes for them."""


class RuleKind(enum.Enum):
    """The kinds of rules that a column or a table can have."""

    CHECK = "CHECK constraint"
    INVARIANT = "invariant of column"
    GENERATED = "generated column"
    IDENTITY = "identity column"
    DEFAULT = "default of column"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ColumnRule:
    """One rule that a writer must keep."""

    kind: RuleKind
    name: str
    """The name of the constraint, or the dotted path of the column."""
    expression: str
    """SQL as in the metadata; JSON for invariants; empty for identity columns."""

    def __str__(self) -> str:
        return f"{self.kind.value} `{self.name}`" + (f" ({self.expression})" if self.expression else "")


def column_rules(schema: StructType) -> Iterator[ColumnRule]:
    """The rules of all fields, nested fields included."""
    for path, field in walk_fields(schema):
        name = ".".join(path)
        metadata = field.metadata or {}
        if INVARIANT_KEY in metadata:
            yield ColumnRule(kind=RuleKind.INVARIANT, name=name, expression=str(metadata[INVARIANT_KEY]))
        if GENERATION_KEY in metadata:
            yield ColumnRule(kind=RuleKind.GENERATED, name=name, expression=str(metadata[GENERATION_KEY]))
        if any(key.startswith(IDENTITY_PREFIX) for key in metadata):
            yield ColumnRule(kind=RuleKind.IDENTITY, name=name, expression="")
        if DEFAULT_KEY in metadata:
            yield ColumnRule(kind=RuleKind.DEFAULT, name=name, expression=str(metadata[DEFAULT_KEY]))


def walk_fields(schema: StructType) -> Iterator[tuple[tuple[str, ...], StructField]]:
    """Every field with its path, those inside arrays and maps too (as `element`, `key`, `value`)."""
    for field in schema.fields:
        yield from _walk_field((field.name,), field)


def _walk_field(path: tuple[str, ...], field: StructField) -> Iterator[tuple[tuple[str, ...], StructField]]:
    yield path, field
    yield from _walk_type(path, field.dataType)


def _walk_type(path: tuple[str, ...], data_type: DataType) -> Iterator[tuple[tuple[str, ...], StructField]]:
    match data_type:
        case StructType():
            for field in data_type.fields:
                yield from _walk_field((*path, field.name), field)
        case ArrayType():
            yield from _walk_type((*path, "element"), data_type.elementType)
        case MapType():
            yield from _walk_type((*path, "key"), data_type.keyType)
            yield from _walk_type((*path, "value"), data_type.valueType)


def contains_type(data_type: DataType, wanted: Callable[[DataType], bool]) -> bool:
    """Whether `wanted` is true of the type or of one inside it."""
    if wanted(data_type):
        return True
    match data_type:
        case StructType():
            return any(contains_type(field.dataType, wanted) for field in data_type.fields)
        case ArrayType():
            return contains_type(data_type.elementType, wanted)
        case MapType():
            return contains_type(data_type.keyType, wanted) or contains_type(data_type.valueType, wanted)
        case _:
            return False
