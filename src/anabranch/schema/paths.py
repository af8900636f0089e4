"""Walking a schema: every field with its path.

Implements "Field Path" of PROTOCOL.md: names of struct fields, joined by `element`, `key` and `value`
where the path goes through an array or a map.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

FieldPath: TypeAlias = tuple[str, ...]

_PLAIN = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")

ELEMENT = "element"
KEY = "key"
VALUE = "value"


def walk(schema: StructType) -> Iterator[tuple[FieldPath, StructField]]:
    """Every struct field, parents before children, in schema order."""
    yield from _walk(schema, ())


def transform(schema: StructType, change: Callable[[FieldPath, StructField], StructField]) -> StructType:
    """Replace every struct field by what `change` makes of it; `change` sees fields with the old path.

    A field's children are changed first, so `change` may keep or replace `dataType` as it likes.
    """
    return _transform_struct(schema, (), change)


def find(schema: StructType, path: FieldPath, *, case_sensitive: bool = False) -> StructField | None:
    """The field at `path`, or None. An exact match wins over one that differs in case."""
    field: StructField | None = None
    here: DataType | None = schema
    for part in path:
        here, field = _step(here, field, part, case_sensitive=case_sensitive)
        if here is None:
            return None
    return field if isinstance(here, DataType) else None


def child(struct: StructType, name: str, *, case_sensitive: bool = False) -> StructField | None:
    """The field of `struct` that `name` means, or None."""
    loose: StructField | None = None
    for field in struct.fields:
        if field.name == name:
            return field
        if loose is None and not case_sensitive and fold(field.name) == fold(name):
            loose = field
    return loose


def positions(struct: StructType) -> dict[str, int]:
    """The position of each field by its folded name, for looking up many; of duplicates the first counts."""
    return {fold(struct.names[index]): index for index in range(len(struct.names) - 1, -1, -1)}


def fold(name: str) -> str:
    """`name` as it compares when case does not matter (as Java's `toLowerCase(Locale.ROOT)`)."""
    return name.lower()


def quoted(path: Iterable[str]) -> str:
    """`path` as SQL would write it, with backticks only where Spark puts them."""
    return ".".join(part if _PLAIN.fullmatch(part) else f"`{part.replace('`', '``')}`" for part in path)


def _walk(here: DataType, path: FieldPath) -> Iterator[tuple[FieldPath, StructField]]:
    if isinstance(here, StructType):
        for field in here.fields:
            yield (*path, field.name), field
            yield from _walk(field.dataType, (*path, field.name))
    elif isinstance(here, ArrayType):
        yield from _walk(here.elementType, (*path, ELEMENT))
    elif isinstance(here, MapType):
        yield from _walk(here.keyType, (*path, KEY))
        yield from _walk(here.valueType, (*path, VALUE))


def _transform_struct(
    struct: StructType, path: FieldPath, change: Callable[[FieldPath, StructField], StructField]
) -> StructType:
    fields = []
    for field in struct.fields:
        here = (*path, field.name)
        inner = _transform(field.dataType, here, change)
        fields.append(change(here, StructField(field.name, inner, field.nullable, dict(field.metadata))))
    return StructType(fields)


def _transform(here: DataType, path: FieldPath, change: Callable[[FieldPath, StructField], StructField]) -> DataType:
    if isinstance(here, StructType):
        return _transform_struct(here, path, change)
    if isinstance(here, ArrayType):
        return ArrayType(_transform(here.elementType, (*path, ELEMENT), change), here.containsNull)
    if isinstance(here, MapType):
        key = _transform(here.keyType, (*path, KEY), change)
        value = _transform(here.valueType, (*path, VALUE), change)
        return MapType(key, value, here.valueContainsNull)
    return here


def _step(
    here: DataType | None, field: StructField | None, part: str, *, case_sensitive: bool
) -> tuple[DataType | None, StructField | None]:
    """One step down; behind an array or a map the field stays the one that holds it."""
    if isinstance(here, StructType):
        found = child(here, part, case_sensitive=case_sensitive)
        return (found.dataType, found) if found is not None else (None, None)
    if isinstance(here, ArrayType) and part == ELEMENT:
        return here.elementType, field
    if isinstance(here, MapType) and part in (KEY, VALUE):
        return (here.keyType if part == KEY else here.valueType), field
    return None, None
