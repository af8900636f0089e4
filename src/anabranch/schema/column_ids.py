"""Giving columns their ids and physical names, and checking those they have.

Implements "Writer Requirements for Column Mapping" and the ids of "Writer Requirements for
IcebergCompatV2" of PROTOCOL.md.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable

from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from anabranch.errors.schema import InvalidColumnMappingError
from anabranch.schema.column_mapping import (
    ID,
    NESTED_IDS,
    PHYSICAL_NAME,
    ColumnMappingMode,
    field_id,
    nested_ids,
    physical_name,
    physical_paths,
)
from anabranch.schema.comparison import same_type
from anabranch.schema.paths import ELEMENT, KEY, VALUE, FieldPath, fold, quoted, transform, walk


def random_names(source: random.Random) -> Callable[[], str]:
    """Physical names as Delta makes them, `col-<uuid>`, drawn from `source`."""
    return lambda: f"col-{uuid.UUID(int=source.getrandbits(128), version=4)}"


def max_column_id(schema: StructType) -> int:
    """The highest id in use, nested ones included; 0 if none is."""
    found = [0]
    for _, field in walk(schema):
        found.append(field_id(field) or 0)
        found.extend(nested_ids(field).values())
    return max(found)


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
    """`schema`, which replaces `old_schema`, with the ids and names of columns that stay what they were.

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
    """Number what lies between fields, in the order in which the fields come."""
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
