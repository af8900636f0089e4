"""Conversions from one type to another, as values that the Spark layer turns into expressions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from pyspark.sql.types import ArrayType, DataType, MapType, NullType, StructField, StructType

from anabranch.errors.schema import ColumnCountError
from anabranch.schema.casts import can_up_cast
from anabranch.schema.paths import ELEMENT, KEY, VALUE, FieldPath, contains_type, fold, nullable_type, positions, quoted


@dataclass(frozen=True, slots=True)
class Keep:
    """The values fit as they are."""


@dataclass(frozen=True, slots=True)
class Cast:
    """One cast converts the values. Nested types match field by field, in order, and no value in them can fail."""

    to: DataType


@dataclass(frozen=True, slots=True)
class FieldSource:
    """Where the values of one field of a struct come from."""

    target: StructField
    source: str | None
    """The field's own name in the source; None for one that the source lacks, which is null."""
    source_index: int | None
    """Its position in the source."""
    conversion: Conversion


@dataclass(frozen=True, slots=True)
class RebuildStruct:
    """A new struct from these fields; a null struct stays null."""

    fields: tuple[FieldSource, ...]


@dataclass(frozen=True, slots=True)
class RebuildArray:
    """The same array with each element converted."""

    element: Conversion


@dataclass(frozen=True, slots=True)
class RebuildMap:
    """The same map with each key and value converted."""

    key: Conversion
    value: Conversion


Conversion: TypeAlias = Keep | Cast | RebuildStruct | RebuildArray | RebuildMap


def conversion(source: DataType, target: DataType, *, named: DataType | None = None) -> Conversion:
    """The conversion of `source` to `target`, with fields matched by name without regard to case.

    `named` is `source` with the names to match by, where they are not its own. Callers have checked that each
    cast is allowed. Void fields of `target` are left out: files never hold them.
    """
    names = source if named is None else named
    # Spark refuses casts that forbid nulls; those are checked row by row instead.
    if not contains_type(target, NullType) and _lines_up(names, target):
        if _spelled_alike(source, target):
            return Keep()
        if _casts_safely(source, target):
            return Cast(nullable_type(target))
    if isinstance(source, StructType) and isinstance(names, StructType) and isinstance(target, StructType):
        return RebuildStruct(tuple(_field_sources(source, names, target)))
    if isinstance(source, ArrayType) and isinstance(names, ArrayType) and isinstance(target, ArrayType):
        return RebuildArray(conversion(source.elementType, target.elementType, named=names.elementType))
    if isinstance(source, MapType) and isinstance(names, MapType) and isinstance(target, MapType):
        key = conversion(source.keyType, target.keyType, named=names.keyType)
        return RebuildMap(key, conversion(source.valueType, target.valueType, named=names.valueType))
    return Cast(nullable_type(target))


def fits_by_name(source: StructType, target: StructType, widens: Callable[[DataType, DataType], bool]) -> bool:
    """Whether both have the same columns in the same order; only fields of structs may be in another order.

    Delta then matches these fields by name, in a write by position too, and leaves new ones to schema evolution. Names
    and types must be equal; `widens` says whether a column of the first type may become the second, that of the data.
    """
    return source.names == target.names and _has_fields_of(target, source, widens)


def _has_fields_of(target: DataType, source: DataType, widens: Callable[[DataType, DataType], bool]) -> bool:
    """Whether the structs in `source` have all fields of those in `target`, with types that fit."""
    if isinstance(target, StructType) and isinstance(source, StructType):
        target_fields = {fold(field.name): field for field in target.fields}
        fields = {field.name: field for field in source.fields if fold(field.name) in target_fields}
        return set(target.names) == set(fields) and all(
            _has_fields_of(field.dataType, fields[field.name].dataType, widens) for field in target.fields
        )
    if isinstance(target, ArrayType) and isinstance(source, ArrayType):
        return _has_fields_of(target.elementType, source.elementType, widens)
    if isinstance(target, MapType) and isinstance(source, MapType):
        return _has_fields_of(target.keyType, source.keyType, widens) and _has_fields_of(
            target.valueType, source.valueType, widens
        )
    return isinstance(target, NullType) or source == target or widens(target, source)


def named_by_position(source: StructType, target: StructType, *, table: str, path: FieldPath = ()) -> StructType:
    """`source` with the names that its fields have in `target`, position by position.

    Fields beyond those of `target` keep their names. Fields of nested structs are renamed in the same way.
    Raises ColumnCountError where `source` has too few fields.
    """
    if len(source.fields) < len(target.fields):
        raise ColumnCountError(table=table, column=quoted(path), expected=len(target.fields), given=len(source.fields))
    pairs = list(zip(source.fields, target.fields, strict=False))
    extra = source.fields[len(pairs) :]
    return StructType([_renamed(field, counterpart, table, path) for field, counterpart in pairs] + extra)


def _renamed(field: StructField, target: StructField, table: str, path: FieldPath) -> StructField:
    inner = _renamed_type(field.dataType, target.dataType, table, (*path, target.name))
    return StructField(target.name, inner, field.nullable, field.metadata)


def _renamed_type(source: DataType, target: DataType, table: str, path: FieldPath) -> DataType:
    if isinstance(source, StructType) and isinstance(target, StructType):
        return named_by_position(source, target, table=table, path=path)
    if isinstance(source, ArrayType) and isinstance(target, ArrayType):
        element = _renamed_type(source.elementType, target.elementType, table, (*path, ELEMENT))
        return ArrayType(element, source.containsNull)
    if isinstance(source, MapType) and isinstance(target, MapType):
        key = _renamed_type(source.keyType, target.keyType, table, (*path, KEY))
        value = _renamed_type(source.valueType, target.valueType, table, (*path, VALUE))
        return MapType(key, value, source.valueContainsNull)
    return source


def _field_sources(source: StructType, names: StructType, target: StructType) -> Iterator[FieldSource]:
    indices = positions(names)
    for field in target.fields:
        if isinstance(field.dataType, NullType):
            continue
        index = indices.get(fold(field.name))
        if index is None:
            yield FieldSource(target=field, source=None, source_index=None, conversion=Keep())
            continue
        source_field = source.fields[index]
        field_conversion = conversion(source_field.dataType, field.dataType, named=names.fields[index].dataType)
        yield FieldSource(target=field, source=source_field.name, source_index=index, conversion=field_conversion)


def _lines_up(source: DataType, target: DataType) -> bool:
    """Whether both nest alike and fields have the same names, ignoring case, in the same order."""
    if isinstance(source, StructType) and isinstance(target, StructType):
        return [fold(name) for name in source.names] == [fold(name) for name in target.names] and all(
            _lines_up(a.dataType, b.dataType) for a, b in zip(source.fields, target.fields, strict=True)
        )
    if isinstance(source, ArrayType) and isinstance(target, ArrayType):
        return _lines_up(source.elementType, target.elementType)
    if isinstance(source, MapType) and isinstance(target, MapType):
        return _lines_up(source.keyType, target.keyType) and _lines_up(source.valueType, target.valueType)
    return not isinstance(source, _NESTED) and not isinstance(target, _NESTED)


def _casts_safely(source: DataType, target: DataType) -> bool:
    """Whether no value can fail its cast, for types that line up. A cast that can fail is checked by itself."""
    if isinstance(source, StructType) and isinstance(target, StructType):
        return all(_casts_safely(a.dataType, b.dataType) for a, b in zip(source.fields, target.fields, strict=True))
    if isinstance(source, ArrayType) and isinstance(target, ArrayType):
        return _casts_safely(source.elementType, target.elementType)
    if isinstance(source, MapType) and isinstance(target, MapType):
        return _casts_safely(source.keyType, target.keyType) and _casts_safely(source.valueType, target.valueType)
    return source == target or can_up_cast(source, target)


def _spelled_alike(source: DataType, target: DataType) -> bool:
    """Whether names, with their case, and types are equal, for types that line up."""
    if isinstance(source, StructType) and isinstance(target, StructType):
        return source.names == target.names and all(
            _spelled_alike(a.dataType, b.dataType) for a, b in zip(source.fields, target.fields, strict=True)
        )
    if isinstance(source, ArrayType) and isinstance(target, ArrayType):
        return _spelled_alike(source.elementType, target.elementType)
    if isinstance(source, MapType) and isinstance(target, MapType):
        return _spelled_alike(source.keyType, target.keyType) and _spelled_alike(source.valueType, target.valueType)
    return source == target


_NESTED = (StructType, ArrayType, MapType)
