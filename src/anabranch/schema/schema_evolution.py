"""How the schema of a table changes with the data that is written: new columns (`mergeSchema`) and wider types.

Columns match without regard to case. The table's order, names, nullability and metadata stay; new fields go to the end
of their struct. Wider types are recorded: see "Type Widening" and "Type Change Metadata" of PROTOCOL.md.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql.types import (
    ArrayType,
    ByteType,
    CharType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    VarcharType,
)

from anabranch.errors.schema import InvalidTypeChangeError, MalformedSchemaError
from anabranch.schema.casts import Casting, is_wider_decimal
from anabranch.schema.column_mapping import MAPPING_KEYS
from anabranch.schema.computed_columns import (
    CURRENT_DEFAULT,
    EXISTS_DEFAULT,
    GENERATION_EXPRESSION,
    IDENTITY_ALLOW_EXPLICIT,
    IDENTITY_HIGH_WATER_MARK,
    IDENTITY_START,
    IDENTITY_STEP,
)
from anabranch.schema.paths import ELEMENT, KEY, VALUE, FieldPath, find, fold, positions, quoted, transform, walk
from anabranch.schema.serialization import parse_schema, parse_type, type_name

TYPE_CHANGES = "delta.typeChanges"

_INTEGERS = (ByteType, ShortType, IntegerType, LongType)
# Parquet keeps the three narrow integers as INT32 and LONG as INT64; readers turn those into decimals this wide.
_AS_DECIMAL: dict[type[DataType], DecimalType] = {
    ByteType: DecimalType(10, 0),
    ShortType: DecimalType(10, 0),
    IntegerType: DecimalType(10, 0),
    LongType: DecimalType(20, 0),
}
# SQL names that `fromType` and `toType` may have instead of the names of the schema format.
_SQL_NAMES = {"int": "integer", "bigint": "long", "smallint": "short", "tinyint": "byte", "real": "float"}


class Widening(enum.Enum):
    """Which type changes a write may make to the table on its own."""

    NONE = "never"
    SAME_FAMILY = "same_family_type"
    """Integers to integers, decimals to decimals, float to double, date to timestamp without time zone."""
    ALL = "always"

    def allows(self, old: DataType, new: DataType, *, iceberg: bool = False) -> bool:
        """Whether `old` may become `new`; `iceberg` keeps to what Iceberg can follow."""
        if self is Widening.NONE or old == new or not is_supported_change(old, new):
            return False
        if iceberg and not is_iceberg_change(old, new):
            return False
        return self is Widening.ALL or _is_same_family(old, new)


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeChange:
    """One entry of `delta.typeChanges`."""

    old: DataType
    new: DataType
    field_path: FieldPath = ()
    """The path from the field that holds the entry to the element, key or value that changed."""


def is_supported_change(old: DataType, new: DataType) -> bool:
    """Whether the protocol allows the change of a primitive type. An unchanged type is allowed."""
    if old == new:
        return True
    if type(old) in _INTEGERS and type(new) in _INTEGERS:
        return _INTEGERS.index(type(old)) < _INTEGERS.index(type(new))
    if isinstance(new, DecimalType):
        held = old if isinstance(old, DecimalType) else _AS_DECIMAL.get(type(old))
        return held is not None and is_wider_decimal(new, held)
    if isinstance(new, DoubleType):
        return isinstance(old, FloatType | ByteType | ShortType | IntegerType)
    return isinstance(old, DateType) and isinstance(new, TimestampNTZType)


def is_iceberg_change(old: DataType, new: DataType) -> bool:
    """Whether Iceberg V2 can follow the change, as the Iceberg compatibility features demand."""
    if isinstance(old, DecimalType) and isinstance(new, DecimalType):
        return old.scale == new.scale and old.precision <= new.precision
    integers = type(old) in _INTEGERS and type(new) in _INTEGERS
    return is_supported_change(old, new) and (old == new or integers or isinstance(old, FloatType))


def read_type_changes(field: StructField, table: str = "the table") -> list[TypeChange]:
    """The changes recorded at `field`, oldest first. Raises MalformedSchemaError."""
    entries = field.metadata.get(TYPE_CHANGES, [])
    if not isinstance(entries, list):
        raise MalformedSchemaError(table=table, field=field.name, reason=f"{TYPE_CHANGES} is not a list")
    return [_read_change(entry, field.name, table) for entry in entries]


def all_type_changes(schema: StructType, table: str = "the table") -> list[tuple[FieldPath, TypeChange]]:
    """Every recorded change with the path of the field, element, key or value that changed."""
    return [
        ((*path, *change.field_path), change)
        for path, field in walk(schema)
        if TYPE_CHANGES in field.metadata
        for change in read_type_changes(field, table)
    ]


def check_type_changes(schema: StructType, table: str) -> None:
    """Refuse a table whose schema records a change that readers cannot follow.

    Implements "Reader Requirements for Type Widening".
    """
    for path, change in all_type_changes(schema, table):
        if not is_supported_change(change.old, change.new) and not _are_strings(change.old, change.new):
            raise InvalidTypeChangeError(
                table=table, column=quoted(path), old=change.old.simpleString(), new=change.new.simpleString()
            )


def record_type_changes(schema: StructType, old_schema: StructType) -> StructType:
    """`schema` with an entry for each type that is wider than in `old_schema`; earlier entries stay."""

    def record(path: FieldPath, field: StructField) -> StructField:
        before = find(old_schema, path, case_sensitive=True)
        changes = [] if before is None else type_changes(before.dataType, field.dataType, ())
        if not changes:
            return field
        entries = [_write_change(change) for change in changes]
        metadata = {**field.metadata, TYPE_CHANGES: [*field.metadata.get(TYPE_CHANGES, []), *entries]}
        return StructField(field.name, field.dataType, field.nullable, metadata)

    return transform(schema, record)


def without_type_changes(schema: StructType) -> StructType:
    """`schema` without recorded changes, for dropping the feature once no file has an old type."""

    def drop(_path: FieldPath, field: StructField) -> StructField:
        metadata = {key: value for key, value in field.metadata.items() if key != TYPE_CHANGES}
        return StructField(field.name, field.dataType, field.nullable, metadata)

    return transform(schema, drop)


def type_changes(old: DataType, new: DataType, path: FieldPath) -> list[TypeChange]:
    """The types that became wider, down to the next structs, whose fields have records of their own."""
    if isinstance(old, ArrayType) and isinstance(new, ArrayType):
        return type_changes(old.elementType, new.elementType, (*path, ELEMENT))
    if isinstance(old, MapType) and isinstance(new, MapType):
        keys = type_changes(old.keyType, new.keyType, (*path, KEY))
        return keys + type_changes(old.valueType, new.valueType, (*path, VALUE))
    if isinstance(old, NullType | StructType) or old == new or not is_supported_change(old, new):
        return []
    return [TypeChange(old=old, new=new, field_path=path)]


def _write_change(change: TypeChange) -> dict[str, Any]:
    entry = {"fromType": type_name(change.old), "toType": type_name(change.new)}
    if change.field_path:
        entry["fieldPath"] = ".".join(change.field_path)
    return entry


def _read_change(entry: Any, name: str, table: str) -> TypeChange:
    if (
        not isinstance(entry, dict)
        or not isinstance(entry.get("fromType"), str)
        or not isinstance(entry.get("toType"), str)
    ):
        reason = f"an entry of {TYPE_CHANGES} has no fromType and toType"
        raise MalformedSchemaError(table=table, field=name, reason=reason)
    path = entry.get("fieldPath", "")
    if not isinstance(path, str):
        raise MalformedSchemaError(table=table, field=name, reason=f"a fieldPath of {TYPE_CHANGES} is not text")
    return TypeChange(
        old=_read_type(entry["fromType"], table),
        new=_read_type(entry["toType"], table),
        field_path=tuple(path.split(".")) if path else (),
    )


def _read_type(name: str, table: str) -> DataType:
    lower = name.strip().lower()
    return parse_type(_SQL_NAMES.get(lower, lower), table)


def _is_same_family(old: DataType, new: DataType) -> bool:
    if isinstance(new, DecimalType):
        return isinstance(old, DecimalType)
    return not (isinstance(new, DoubleType) and type(old) in _INTEGERS)


def _are_strings(old: DataType, new: DataType) -> bool:
    """Whether both are strings. Such changes need no record; some writers recorded them, which does no harm."""
    kinds = (StringType, CharType, VarcharType)
    return isinstance(old, kinds) and isinstance(new, kinds)


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
"""The metadata of columns that is the table's own, which users do not see."""


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
