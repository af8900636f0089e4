"""Column mapping: the names and ids of columns in data files.

Implements "Column Mapping" of PROTOCOL.md. Logical names are what users see; physical names and ids are
what files, statistics and partition values use, and never change once assigned.
"""

from __future__ import annotations

import enum
import random
from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from anabranch.clock import random_uuid
from anabranch.errors.schema import (
    ColumnMappingChangeError,
    ColumnNotFoundError,
    InvalidColumnMappingError,
    UnknownColumnMappingModeError,
)
from anabranch.schema.paths import ELEMENT, KEY, VALUE, FieldPath, find, fold, quoted, same_type, transform, walk

ID = "delta.columnMapping.id"
PHYSICAL_NAME = "delta.columnMapping.physicalName"
NESTED_IDS = "delta.columnMapping.nested.ids"
PARQUET_ID = "parquet.field.id"
PARQUET_NESTED_IDS = "parquet.field.nested.ids"
MAPPING_KEYS = frozenset({ID, PHYSICAL_NAME, NESTED_IDS, PARQUET_ID, PARQUET_NESTED_IDS})

ID_MAX = 2**31 - 1


class ColumnMappingMode(enum.Enum):
    """The value of `delta.columnMapping.mode`."""

    NONE = "none"
    NAME = "name"
    ID = "id"

    @classmethod
    def parse(cls, text: str | None) -> ColumnMappingMode:
        """The mode that a property value names, in any case; `None` is `NONE`."""
        try:
            return cls((text or "none").lower())
        except ValueError:
            raise UnknownColumnMappingModeError(mode=str(text)) from None

    @property
    def maps(self) -> bool:
        """Whether files use physical names."""
        return self is not ColumnMappingMode.NONE


def check_mode_change(old: ColumnMappingMode, new: ColumnMappingMode) -> None:
    """Refuse a change of an existing table's mode, except from `none` to `name`.

    The command that goes back to `none` rewrites the files, and does not call this check.
    """
    if old is not new and (old, new) != (ColumnMappingMode.NONE, ColumnMappingMode.NAME):
        raise ColumnMappingChangeError(old_mode=old.value, new_mode=new.value)


def field_id(field: StructField) -> int | None:
    """The column id of `field`, or None where none was assigned."""
    value = field.metadata.get(ID)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= ID_MAX:
        raise InvalidColumnMappingError(
            table="the table", column=field.name, reason=f"the id {value!r} is not a 32-bit integer"
        )
    return value


def nested_ids(field: StructField) -> Mapping[str, int]:
    """Ids of the `element`, `key` and `value` fields below `field`, by physical path; IcebergCompatV2 needs them."""
    value = field.metadata.get(NESTED_IDS, {})
    if not isinstance(value, dict) or not all(
        type(number) is int and 0 <= number <= ID_MAX for number in value.values()
    ):
        raise InvalidColumnMappingError(
            table="the table", column=field.name, reason=f"{NESTED_IDS} is not an object of 32-bit integers"
        )
    return value


def physical_name(field: StructField, mode: ColumnMappingMode) -> str:
    """The name of `field` in data files."""
    if not mode.maps:
        return field.name
    value = field.metadata.get(PHYSICAL_NAME)
    if not isinstance(value, str) or not value:
        raise InvalidColumnMappingError(
            table="the table", column=field.name, reason=f"mode {mode.value} needs a physical name, and it has none"
        )
    return value


def to_physical(schema: StructType, mode: ColumnMappingMode) -> StructType:
    """`schema` as data files spell it: physical names at every level, metadata kept."""
    if not mode.maps:
        return schema

    def rename(_path: FieldPath, field: StructField) -> StructField:
        return StructField(physical_name(field, mode), field.dataType, field.nullable, field.metadata)

    return transform(schema, rename)


def physical_paths(schema: StructType, mode: ColumnMappingMode) -> dict[FieldPath, FieldPath]:
    """The physical path of every field, by its logical path, both with `element`, `key` and `value`."""
    physical: dict[FieldPath, FieldPath] = {(): ()}
    fields: dict[FieldPath, FieldPath] = {}
    for path, field in walk(schema):
        parent = next(path[:length] for length in range(len(path) - 1, -1, -1) if path[:length] in physical)
        physical[path] = (*physical[parent], *path[len(parent) : -1], physical_name(field, mode))
        fields[path] = physical[path]
    return fields


def physical_path(schema: StructType, path: FieldPath, mode: ColumnMappingMode) -> FieldPath:
    """The physical path of the field at the logical `path`. Raises ColumnNotFoundError."""
    steps: list[str] = []
    for length in range(1, len(path) + 1):
        parent, field = find(schema, path[: length - 1]), find(schema, path[:length])
        if field is None:
            raise ColumnNotFoundError(table="the table", column=quoted(path), available=tuple(schema.fieldNames()))
        # For elements, keys and values, `find` returns the field of the array or map: they have no physical name.
        steps.append(path[length - 1] if field is parent else physical_name(field, mode))
    return tuple(steps)


def logical_path(schema: StructType, path: FieldPath, mode: ColumnMappingMode) -> FieldPath | None:
    """The logical path of the field at the physical `path`; None if the table has no such field."""
    if not path:
        return ()
    inverse = {physical: logical for logical, physical in physical_paths(schema, mode).items()}
    return inverse.get(path)


def with_field_ids(schema: StructType) -> StructType:
    """`schema` with the ids where Spark's Parquet writer and reader look for them."""

    def add(_path: FieldPath, field: StructField) -> StructField:
        metadata: dict[str, Any] = dict(field.metadata)
        number = field_id(field)
        if number is not None:
            metadata[PARQUET_ID] = number
        if nested := nested_ids(field):
            metadata[PARQUET_NESTED_IDS] = dict(nested)
        return StructField(field.name, field.dataType, field.nullable, metadata)

    return transform(schema, add)


def strip_mapping(schema: StructType) -> StructType:
    """`schema` as users see it: no ids, no physical names."""

    def strip(_path: FieldPath, field: StructField) -> StructField:
        metadata = {key: value for key, value in field.metadata.items() if key not in MAPPING_KEYS}
        return StructField(field.name, field.dataType, field.nullable, metadata)

    return transform(schema, strip)


def has_mapping(schema: StructType) -> bool:
    """Whether any field carries metadata reserved for column mapping."""
    return any(MAPPING_KEYS & field.metadata.keys() for _, field in walk(schema))


# Assigning ids and physical names, and checking them.
#
# Implements "Writer Requirements for Column Mapping" and the ids of "Writer Requirements for
# IcebergCompatV2" of PROTOCOL.md.


def random_names(source: random.Random) -> Callable[[], str]:
    """Physical names as Delta makes them, `col-<uuid>`, drawn from `source`."""
    return lambda: f"col-{random_uuid(source)}"


def max_column_id(schema: StructType) -> int:
    """The highest id in use, nested ones included; 0 if none is."""
    ids = [0]
    for _, field in walk(schema):
        ids.append(field_id(field) or 0)
        ids.extend(nested_ids(field).values())
    return max(ids)


def assign_ids_and_names(
    schema: StructType,
    max_id: int,
    *,
    keep_names: bool,
    new_name: Callable[[], str],
    with_nested_ids: bool = False,
) -> tuple[StructType, int]:
    """Complete the mapping of `schema`: (schema, the new `delta.columnMapping.maxColumnId`).

    Fields that have an id or a physical name keep it. `keep_names` is for turning mapping on for an existing
    table, whose files already use the logical names. Ids count up from `max_id`, parents before children;
    `with_nested_ids` numbers elements, keys and values too, after all fields.
    """
    counter = _Counter(max(max_id, max_column_id(schema)))
    numbered: dict[FieldPath, int] = {path: counter.next() for path, field in walk(schema) if field_id(field) is None}

    def complete(path: FieldPath, field: StructField) -> StructField:
        metadata = dict(field.metadata)
        if path in numbered:
            metadata[ID] = numbered[path]
        if not metadata.get(PHYSICAL_NAME):
            metadata[PHYSICAL_NAME] = field.name if keep_names else new_name()
        return StructField(field.name, field.dataType, field.nullable, metadata)

    mapped = transform(schema, complete)
    if with_nested_ids:
        mapped = _number_nested(mapped, counter)
    return mapped, counter.last


def reuse_mapping(schema: StructType, old_schema: StructType) -> StructType:
    """`schema`, which replaces `old_schema`, with the ids and physical names of unchanged columns.

    For `overwriteSchema`: a column of the same path and type keeps its identity, all others are new.
    """
    old = {tuple(map(fold, path)): field for path, field in walk(old_schema)}

    def reuse(path: FieldPath, field: StructField) -> StructField:
        before = old.get(tuple(map(fold, path)))
        if before is None or not same_type(before.dataType, field.dataType):
            return field
        mapping = {key: before.metadata[key] for key in (ID, PHYSICAL_NAME, NESTED_IDS) if key in before.metadata}
        return StructField(field.name, field.dataType, field.nullable, {**field.metadata, **mapping})

    return transform(schema, reuse)


def check_mapping(schema: StructType, mode: ColumnMappingMode, max_id: int | None, *, table: str) -> None:
    """Refuse a schema whose columns could be mixed up: the last check before a commit.

    Every field has an id and a physical name, no two share an id or a physical path, and `max_id`, the
    property `delta.columnMapping.maxColumnId`, is set and not below any id.
    """
    if not mode.maps:
        return
    seen: dict[int, str] = {}
    for path, field in walk(schema):
        number = field_id(field)
        if number is None:
            raise _invalid(table, quoted(path), "it has no id")
        physical_name(field, mode)
        for taken in (number, *nested_ids(field).values()):
            if taken in seen:
                raise _invalid(table, quoted(path), f"the id {taken} is also that of {seen[taken]}")
            seen[taken] = quoted(path)
    _check_paths(schema, mode, table)
    if max_id is None:
        raise _invalid(table, "", "delta.columnMapping.maxColumnId is not set")
    if seen and max(seen) > max_id:
        raise _invalid(table, seen[max(seen)], f"its id {max(seen)} is above delta.columnMapping.maxColumnId, {max_id}")


def _check_paths(schema: StructType, mode: ColumnMappingMode, table: str) -> None:
    seen: dict[FieldPath, FieldPath] = {}
    for logical, physical in physical_paths(schema, mode).items():
        if physical in seen:
            raise _invalid(
                table, quoted(logical), f"{quoted(seen[physical])} has the same physical name {physical[-1]}"
            )
        seen[physical] = logical


def _number_nested(schema: StructType, counter: _Counter) -> StructType:
    """Assign ids to elements, keys and values, in the order of their fields."""
    numbers: dict[FieldPath, dict[str, int]] = {}
    for path, field in walk(schema):
        ids = dict(nested_ids(field))
        for key in _nested_keys(field.dataType, field.metadata[PHYSICAL_NAME]):
            if key not in ids:
                ids[key] = counter.next()
        numbers[path] = ids

    def add(path: FieldPath, field: StructField) -> StructField:
        metadata = {**field.metadata, NESTED_IDS: numbers[path]} if numbers[path] else field.metadata
        return StructField(field.name, field.dataType, field.nullable, metadata)

    return transform(schema, add)


def _nested_keys(data_type: DataType, prefix: str) -> list[str]:
    """The keys of `delta.columnMapping.nested.ids`, down to the next struct."""
    if isinstance(data_type, ArrayType):
        key = f"{prefix}.{ELEMENT}"
        return [key, *_nested_keys(data_type.elementType, key)]
    if isinstance(data_type, MapType):
        key, value = f"{prefix}.{KEY}", f"{prefix}.{VALUE}"
        return [key, *_nested_keys(data_type.keyType, key), value, *_nested_keys(data_type.valueType, value)]
    return []


class _Counter:
    def __init__(self, last: int) -> None:
        self.last = last

    def next(self) -> int:
        self.last += 1
        return self.last


def _invalid(table: str, column: str, reason: str) -> InvalidColumnMappingError:
    return InvalidColumnMappingError(table=table, column=column, reason=reason)
