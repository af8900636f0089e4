"""The schema of a table after a write of data with new or wider columns: `mergeSchema`.

Columns match without regard to case. The table's order, names, nullability and metadata stay; new fields
go to the end of their struct.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql.types import (
    ArrayType,
    ByteType,
    DataType,
    IntegerType,
    MapType,
    NullType,
    ShortType,
    StructField,
    StructType,
)

from anabranch.schema.casts import Casting
from anabranch.schema.column_mapping import MAPPING_KEYS
from anabranch.schema.paths import ELEMENT, KEY, VALUE, FieldPath, fold, positions, quoted, transform
from anabranch.schema.serialization import parse_schema
from anabranch.schema.type_widening import TYPE_CHANGES, Widening

# Parquet stores all three as INT32, so files of each can be read as the widest without any table feature.
_INT32 = (ByteType, ShortType, IntegerType)


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeRules:
    """Which types of existing columns a merge may change."""

    widening: Widening = Widening.NONE
    iceberg: bool = False
    """Make only those types wider that Iceberg can widen, too."""
    casting: Casting = Casting.NONE
    """Data of a type that can be cast to the table's does not change the table's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """A merged schema and its differences from the table's, each by quoted column path."""

    schema: StructType
    added: Mapping[str, str]
    """New columns with their types."""
    retyped: Mapping[str, tuple[str, str]]
    """Columns that took the data's type: the old and the new."""
    conflicts: Mapping[str, tuple[str, str]]
    """Columns whose types do not fit: the table's and the data's. They keep the table's."""


def merge_schemas(table_schema: StructType, data_schema: StructType, rules: MergeRules) -> Merged:
    """`table_schema` extended to hold data of `data_schema`, whose column names differ by more than case."""
    state = _Merge(rules=rules)
    schema = state.structs(table_schema, data_schema, ())
    return Merged(schema=schema, added=state.added, retyped=state.retyped, conflicts=state.conflicts)


@dataclass(slots=True, kw_only=True)
class _Merge:
    """One merge; collects all differences, so that a single error can name them."""

    rules: MergeRules
    added: dict[str, str] = dataclasses.field(default_factory=dict)
    retyped: dict[str, tuple[str, str]] = dataclasses.field(default_factory=dict)
    conflicts: dict[str, tuple[str, str]] = dataclasses.field(default_factory=dict)

    def structs(self, ours: StructType, theirs: StructType, path: FieldPath) -> StructType:
        table_positions, data_positions = positions(ours), positions(theirs)
        fields = []
        for table_field in ours.fields:
            index = data_positions.get(fold(table_field.name))
            fields.append(table_field if index is None else self.field(table_field, theirs.fields[index], path))
        new = [added for added in theirs.fields if fold(added.name) not in table_positions]
        self.added.update({quoted((*path, added.name)): added.dataType.simpleString() for added in new})
        return StructType(fields + new)

    def field(self, ours: StructField, theirs: StructField, path: FieldPath) -> StructField:
        merged = self.types(ours.dataType, theirs.dataType, (*path, ours.name))
        return StructField(ours.name, merged, ours.nullable, ours.metadata)

    def types(self, ours: DataType, theirs: DataType, path: FieldPath) -> DataType:
        if isinstance(ours, StructType) and isinstance(theirs, StructType):
            return self.structs(ours, theirs, path)
        if isinstance(ours, ArrayType) and isinstance(theirs, ArrayType):
            return ArrayType(self.types(ours.elementType, theirs.elementType, (*path, ELEMENT)), ours.containsNull)
        if isinstance(ours, MapType) and isinstance(theirs, MapType):
            key = self.types(ours.keyType, theirs.keyType, (*path, KEY))
            return MapType(key, self.types(ours.valueType, theirs.valueType, (*path, VALUE)), ours.valueContainsNull)
        return self.leaves(ours, theirs, path)

    def leaves(self, ours: DataType, theirs: DataType, path: FieldPath) -> DataType:
        merged = self.leaf(ours, theirs)
        outcome = self.conflicts if merged is None else self.retyped
        if merged != ours:
            outcome[quoted(path)] = (ours.simpleString(), theirs.simpleString())
        return ours if merged is None else merged

    def leaf(self, ours: DataType, theirs: DataType) -> DataType | None:
        if ours == theirs or isinstance(theirs, NullType):
            return ours
        if isinstance(ours, NullType) or self.rules.widening.allows(ours, theirs, iceberg=self.rules.iceberg):
            return theirs
        if self.rules.casting is not Casting.NONE and self.rules.casting.allows(theirs, ours):
            return ours
        if type(ours) in _INT32 and type(theirs) in _INT32:
            return max(ours, theirs, key=lambda kind: _INT32.index(type(kind)))
        return None


# Metadata that users see, and that a table takes over from a DataFrame's schema.


GENERATION_EXPRESSION = "delta.generationExpression"
CURRENT_DEFAULT = "CURRENT_DEFAULT"
EXISTS_DEFAULT = "EXISTS_DEFAULT"
IDENTITY_START = "delta.identity.start"
IDENTITY_STEP = "delta.identity.step"
IDENTITY_HIGH_WATER_MARK = "delta.identity.highWaterMark"
IDENTITY_ALLOW_EXPLICIT = "delta.identity.allowExplicitInsert"
INVARIANTS = "delta.invariants"

HIDDEN_KEYS = MAPPING_KEYS | {
    TYPE_CHANGES,
    GENERATION_EXPRESSION,
    CURRENT_DEFAULT,
    EXISTS_DEFAULT,
    IDENTITY_START,
    IDENTITY_STEP,
    IDENTITY_HIGH_WATER_MARK,
    IDENTITY_ALLOW_EXPLICIT,
}


def visible_schema(schema: StructType) -> StructType:
    """`schema` as `df.schema` shows it: with comments and declared lengths, without the table's own metadata.

    Also the form in which a DataFrame's schema becomes part of a table: a column that is read from one
    table must not carry its ids, defaults or generation into another.
    """

    def hide(_path: FieldPath, field: StructField) -> StructField:
        metadata = {key: value for key, value in field.metadata.items() if key not in HIDDEN_KEYS}
        return StructField(field.name, field.dataType, field.nullable, metadata)

    return transform(schema, hide)


@functools.lru_cache(maxsize=64)
def visible_schema_json(schema_string: str, table: str) -> str:
    """The `visible_schema` of a log's metadata as JSON. Raises `MalformedSchemaError`, which names the table."""
    return visible_schema(parse_schema(schema_string, table)).json()
