"""What two schemas have in common, for decisions and for messages."""

from __future__ import annotations

from collections.abc import Iterator

from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from anabranch.schema.paths import ELEMENT, KEY, VALUE, FieldPath, fold, positions, quoted


def same_type(left: DataType, right: DataType) -> bool:
    """Whether values of both look alike in a file: same types and names, in the same order.

    Nullability, metadata and the case of names do not count.
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


def same_data_layout(left: StructType, right: StructType) -> bool:
    """Whether files of one schema are files of the other; see `same_type`."""
    return same_type(left, right)


def same_columns(left: StructType, right: StructType) -> bool:
    """Whether both have the same columns with the same types, nullability and metadata, in any case and order."""
    return next(_differences(left, right, ()), None) is None


def differences(before: StructType, after: StructType) -> list[str]:
    """What changed from `before` to `after`, one phrase a difference, such as `b.c is new (long)`."""
    return list(_differences(before, after, ()))


def as_nullable(schema: StructType) -> StructType:
    """`schema` with nulls allowed everywhere: what a DataFrame says of nulls is no promise."""
    return StructType([StructField(f.name, _nullable(f.dataType), True, f.metadata) for f in schema.fields])


def contains_type(data_type: DataType, kind: type[DataType]) -> bool:
    """Whether `kind` is found at any level."""
    if isinstance(data_type, StructType):
        return any(contains_type(field.dataType, kind) for field in data_type.fields)
    if isinstance(data_type, ArrayType):
        return contains_type(data_type.elementType, kind)
    if isinstance(data_type, MapType):
        return contains_type(data_type.keyType, kind) or contains_type(data_type.valueType, kind)
    return isinstance(data_type, kind)


def _nullable(data_type: DataType) -> DataType:
    if isinstance(data_type, StructType):
        return as_nullable(data_type)
    if isinstance(data_type, ArrayType):
        return ArrayType(_nullable(data_type.elementType), True)
    if isinstance(data_type, MapType):
        return MapType(_nullable(data_type.keyType), _nullable(data_type.valueType), True)
    return data_type


def _differences(before: StructType, after: StructType, path: FieldPath) -> Iterator[str]:
    old, new = positions(before), positions(after)
    for field in before.fields:
        here, index = (*path, field.name), new.get(fold(field.name))
        if index is None:
            yield f"{quoted(here)} is gone ({field.dataType.simpleString()})"
        else:
            yield from _field_differences(field, after.fields[index], here)
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
