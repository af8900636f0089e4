"""Walking a schema: every field with its path.

Implements "Field Path" of PROTOCOL.md: names of struct fields, joined by `element`, `key` and `value`
where the path goes through an array or a map.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeAlias

from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

FieldPath: TypeAlias = tuple[str, ...]

fold: Final = str.lower
"""The function for names as they compare when case does not matter (as Java's `toLowerCase(Locale.ROOT)`)."""

_PLAIN = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")

ELEMENT = "element"
KEY = "key"
VALUE = "value"
_NESTED = (StructType, ArrayType, MapType)


def walk(schema: StructType) -> Iterator[tuple[FieldPath, StructField]]:
    """Every struct field, parents before children, in schema order."""
    fields: list[tuple[FieldPath, StructField]] = []
    _add_fields(schema, (), fields)
    return iter(fields)


def transform(schema: StructType, change: Callable[[FieldPath, StructField], StructField]) -> StructType:
    """Replace every struct field by what `change` makes of it; `change` sees fields with the old path.

    A field's children are changed first, so `change` may keep or replace `dataType`.
    """
    return _transform_struct(schema, (), change)


def find(schema: StructType, path: FieldPath, *, case_sensitive: bool = False) -> StructField | None:
    """The field at `path`, or None. An exact match wins over one that differs in case."""
    field: StructField | None = None
    data_type: DataType | None = schema
    for part in path:
        data_type, field = _step(data_type, field, part, case_sensitive=case_sensitive)
        if data_type is None:
            return None
    return field if isinstance(data_type, DataType) else None


def find_field_or_part(schema: StructType, path: FieldPath) -> StructField | None:
    """The field at `path`, or None.

    The element of an array is returned as a field called `element`, key and value of a map as `key` and `value`.
    """
    field: StructField | None = None
    data_type: DataType | None = schema
    holder: DataType | None = None
    for part in path:
        holder = data_type
        data_type, field = _step(data_type, field, part, case_sensitive=False)
    if data_type is None or isinstance(holder, StructType):
        return field
    if isinstance(holder, ArrayType):
        return StructField(ELEMENT, data_type, holder.containsNull)
    assert isinstance(holder, MapType), "only structs, arrays and maps have parts"
    return StructField(path[-1], data_type, path[-1] == VALUE and holder.valueContainsNull)


def child(struct: StructType, name: str, *, case_sensitive: bool = False) -> StructField | None:
    """The field of `struct` called `name`, or None. An exact match wins over one that differs in case."""
    folded_match: StructField | None = None
    for field in struct.fields:
        if field.name == name:
            return field
        if folded_match is None and not case_sensitive and fold(field.name) == fold(name):
            folded_match = field
    return folded_match


def positions(struct: StructType) -> dict[str, int]:
    """The position of each field by its folded name. Of duplicates, the first."""
    return {fold(struct.names[index]): index for index in range(len(struct.names) - 1, -1, -1)}


def not_null_paths(schema: StructType) -> tuple[FieldPath, ...]:
    """The fields that allow no nulls, those of structs included, but none inside arrays and maps."""
    return tuple(_not_null(schema, ()))


def not_null_paths_inside(schema: StructType) -> tuple[FieldPath, ...]:
    """The values inside arrays and maps that allow no nulls. Only other writers create such tables."""
    return tuple(path for field in schema.fields for path in _not_null_inside(field.dataType, (field.name,)))


def quoted(path: Iterable[str]) -> str:
    """`path` as SQL writes it, with backticks only where Spark puts them."""
    return ".".join(part if _PLAIN.fullmatch(part) else f"`{part.replace('`', '``')}`" for part in path)


def _add_fields(data_type: DataType, path: FieldPath, fields: list[tuple[FieldPath, StructField]]) -> None:
    if isinstance(data_type, StructType):
        for field in data_type.fields:
            field_path = (*path, field.name)
            fields.append((field_path, field))
            if isinstance(field.dataType, _NESTED):
                _add_fields(field.dataType, field_path, fields)
    elif isinstance(data_type, ArrayType):
        _add_fields(data_type.elementType, (*path, ELEMENT), fields)
    elif isinstance(data_type, MapType):
        _add_fields(data_type.keyType, (*path, KEY), fields)
        _add_fields(data_type.valueType, (*path, VALUE), fields)


def _transform_struct(
    struct: StructType, path: FieldPath, change: Callable[[FieldPath, StructField], StructField]
) -> StructType:
    fields = []
    for field in struct.fields:
        field_path = (*path, field.name)
        inner = field.dataType
        if isinstance(inner, _NESTED):
            inner = _transform(inner, field_path, change)
        fields.append(change(field_path, StructField(field.name, inner, field.nullable, dict(field.metadata))))
    return StructType(fields)


def _transform(
    data_type: DataType, path: FieldPath, change: Callable[[FieldPath, StructField], StructField]
) -> DataType:
    if isinstance(data_type, StructType):
        return _transform_struct(data_type, path, change)
    if isinstance(data_type, ArrayType):
        return ArrayType(_transform(data_type.elementType, (*path, ELEMENT), change), data_type.containsNull)
    if isinstance(data_type, MapType):
        key = _transform(data_type.keyType, (*path, KEY), change)
        value = _transform(data_type.valueType, (*path, VALUE), change)
        return MapType(key, value, data_type.valueContainsNull)
    return data_type


def _not_null(struct: StructType, path: FieldPath) -> Iterator[FieldPath]:
    for field in struct.fields:
        field_path = (*path, field.name)
        if not field.nullable:
            yield field_path
        if isinstance(field.dataType, StructType):
            yield from _not_null(field.dataType, field_path)


def _not_null_inside(kind: DataType, path: FieldPath, *, inside: bool = False) -> Iterator[FieldPath]:
    if isinstance(kind, StructType):
        for field in kind.fields:
            field_path = (*path, field.name)
            if inside and not field.nullable:
                yield field_path
            yield from _not_null_inside(field.dataType, field_path, inside=inside)
    elif isinstance(kind, ArrayType):
        if not kind.containsNull:
            yield (*path, ELEMENT)
        yield from _not_null_inside(kind.elementType, (*path, ELEMENT), inside=True)
    elif isinstance(kind, MapType):
        if not kind.valueContainsNull:
            yield (*path, VALUE)
        yield from _not_null_inside(kind.keyType, (*path, KEY), inside=True)
        yield from _not_null_inside(kind.valueType, (*path, VALUE), inside=True)


def _step(
    data_type: DataType | None, field: StructField | None, part: str, *, case_sensitive: bool
) -> tuple[DataType | None, StructField | None]:
    """Type and field one step below `data_type`. Elements, keys and values belong to the field of their collection."""
    if isinstance(data_type, StructType):
        child_field = child(data_type, part, case_sensitive=case_sensitive)
        return (child_field.dataType, child_field) if child_field is not None else (None, None)
    if isinstance(data_type, ArrayType) and part == ELEMENT:
        return data_type.elementType, field
    if isinstance(data_type, MapType) and part in (KEY, VALUE):
        return (data_type.keyType if part == KEY else data_type.valueType), field
    return None, None


# Schemas compared, and with nulls allowed.


def same_type(left: DataType, right: DataType) -> bool:
    """Whether values of both are stored alike in files: same types and names, in the same order.

    Nullability, metadata and the case of names are ignored.
    """
    if isinstance(left, StructType) and isinstance(right, StructType):
        return len(left.fields) == len(right.fields) and all(
            fold(a.name) == fold(b.name) and same_type(a.dataType, b.dataType)
            for a, b in zip(left.fields, right.fields, strict=True)
        )
    if isinstance(left, ArrayType) and isinstance(right, ArrayType):
        return same_type(left.elementType, right.elementType)
    if isinstance(left, MapType) and isinstance(right, MapType):
        return same_type(left.keyType, right.keyType) and same_type(left.valueType, right.valueType)
    return left == right


def schema_differences(before: StructType, after: StructType) -> list[str]:
    """The changes from `before` to `after`, one phrase for each difference, such as `b.c is new (long)`."""
    return list(_differences(before, after, ()))


def as_nullable(schema: StructType) -> StructType:
    """`schema` with nulls allowed everywhere, since a DataFrame does not guarantee its nullability."""
    return StructType([StructField(f.name, nullable_type(f.dataType), True, f.metadata) for f in schema.fields])


def with_comments_only(schema: StructType) -> StructType:
    """`schema` with nulls allowed everywhere, and without metadata except comments."""

    def comment_only(_path: FieldPath, field: StructField) -> StructField:
        kept = {"comment": field.metadata["comment"]} if "comment" in field.metadata else {}
        return StructField(field.name, field.dataType, field.nullable, kept)

    return as_nullable(transform(schema, comment_only))


def contains_type(data_type: DataType, kind: type[DataType] | tuple[type[DataType], ...]) -> bool:
    """Whether `data_type` is of a `kind`, or contains one that is, at any level."""
    if isinstance(data_type, StructType):
        return any(contains_type(field.dataType, kind) for field in data_type.fields)
    if isinstance(data_type, ArrayType):
        return contains_type(data_type.elementType, kind)
    if isinstance(data_type, MapType):
        return contains_type(data_type.keyType, kind) or contains_type(data_type.valueType, kind)
    return isinstance(data_type, kind)


def nullable_type(data_type: DataType) -> DataType:
    """`data_type` with nulls allowed everywhere inside it."""
    if isinstance(data_type, StructType):
        return as_nullable(data_type)
    if isinstance(data_type, ArrayType):
        return ArrayType(nullable_type(data_type.elementType), True)
    if isinstance(data_type, MapType):
        return MapType(nullable_type(data_type.keyType), nullable_type(data_type.valueType), True)
    return data_type


def with_nullable_elements(schema: StructType) -> StructType:
    """`schema` with nulls allowed inside arrays and maps, where Delta does not enforce NOT NULL."""
    return StructType([StructField(f.name, _open(f.dataType), f.nullable, f.metadata) for f in schema.fields])


def _open(data_type: DataType) -> DataType:
    return with_nullable_elements(data_type) if isinstance(data_type, StructType) else nullable_type(data_type)


def _differences(before: StructType, after: StructType, path: FieldPath) -> Iterator[str]:
    old, new = positions(before), positions(after)
    for field in before.fields:
        field_path, index = (*path, field.name), new.get(fold(field.name))
        if index is None:
            yield f"{quoted(field_path)} is gone ({field.dataType.simpleString()})"
        else:
            yield from _field_differences(field, after.fields[index], field_path)
    for field in after.fields:
        if fold(field.name) not in old:
            yield f"{quoted((*path, field.name))} is new ({field.dataType.simpleString()})"


def _field_differences(before: StructField, after: StructField, path: FieldPath) -> Iterator[str]:
    yield from _type_differences(before.dataType, after.dataType, path)
    if before.nullable != after.nullable:
        yield f"{quoted(path)} {'now allows' if after.nullable else 'no longer allows'} nulls"
    if before.metadata != after.metadata:
        keys = sorted(before.metadata.keys() | after.metadata.keys())
        changed = [key for key in keys if before.metadata.get(key) != after.metadata.get(key)]
        yield f"{quoted(path)} has other metadata ({', '.join(changed)})"


def _type_differences(before: DataType, after: DataType, path: FieldPath) -> Iterator[str]:
    if isinstance(before, StructType) and isinstance(after, StructType):
        yield from _differences(before, after, path)
    elif isinstance(before, ArrayType) and isinstance(after, ArrayType):
        yield from _type_differences(before.elementType, after.elementType, (*path, ELEMENT))
        if before.containsNull != after.containsNull:
            yield f"{quoted(path)} {'now allows' if after.containsNull else 'no longer allows'} null elements"
    elif isinstance(before, MapType) and isinstance(after, MapType):
        yield from _type_differences(before.keyType, after.keyType, (*path, KEY))
        yield from _type_differences(before.valueType, after.valueType, (*path, VALUE))
        if before.valueContainsNull != after.valueContainsNull:
            yield f"{quoted(path)} {'now allows' if after.valueContainsNull else 'no longer allows'} null values"
    elif before != after:
        yield f"{quoted(path)} is {after.simpleString()}, was {before.simpleString()}"


def quote(name: str) -> str:
    """A single name in backticks, whatever characters it has; backticks inside are doubled."""
    return "`" + name.replace("`", "``") + "`"
