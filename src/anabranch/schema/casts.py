"""Which types a write may convert into which, and the conversions, as values that the Spark layer makes expressions of.

A table's writers follow Spark's `spark.sql.storeAssignmentPolicy`; the three policies are Spark's, type by type. Only
types that Delta tables hold appear here.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    NumericType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    UserDefinedType,
    VariantType,
)

from anabranch.errors.schema import ColumnCountError
from anabranch.schema.paths import ELEMENT, KEY, VALUE, FieldPath, contains_type, fold, nullable_type, positions, quoted

_PRECEDENCE = (ByteType, ShortType, IntegerType, LongType, FloatType, DoubleType)
_INTEGRAL_DIGITS: dict[type[DataType], int] = {ByteType: 3, ShortType: 5, IntegerType: 10, LongType: 20}
_LOSSLESS_TIMES = {
    (DateType, TimestampType),
    (DateType, TimestampNTZType),
    (TimestampType, TimestampNTZType),
    (TimestampNTZType, TimestampType),
    # Spark counts these two as lossless, though seconds lose their fraction.
    (LongType, TimestampType),
    (TimestampType, LongType),
}
_DATETIME = (DateType, TimestampType, TimestampNTZType)


class Casting(enum.Enum):
    """How far a write may go to make values fit the table."""

    NONE = "none"
    """Types must agree as Parquet files require: `df.write.save()`, and `saveAsTable` that overwrites."""
    STRICT = "strict"
    """Only casts that lose nothing."""
    ANSI = "ansi"
    """What ANSI casts allow; a value that does not fit fails the write. Spark's default."""
    LEGACY = "legacy"
    """Any cast that Spark has, as before ANSI: numbers that do not fit wrap around, text becomes null."""

    def allows(self, source: DataType, target: DataType) -> bool:
        """Whether a write may turn primitive `source` values into `target` ones."""
        if source == target or isinstance(source, NullType):
            return True
        if isinstance(source, UserDefinedType) or isinstance(target, UserDefinedType):
            return False
        if self is Casting.STRICT:
            return can_up_cast(source, target)
        if self is Casting.ANSI:
            return can_ansi_cast(source, target)
        return self is Casting.LEGACY and can_legacy_cast(source, target)


def is_wider_decimal(target: DecimalType, source: DecimalType) -> bool:
    """Whether `target` holds every value of `source`."""
    return target.precision - target.scale >= source.precision - source.scale and target.scale >= source.scale


def can_up_cast(source: DataType, target: DataType) -> bool:
    """Whether the cast can neither lose digits nor fail."""
    if isinstance(target, StringType):
        return isinstance(source, (NumericType, BooleanType, BinaryType, StringType, *_DATETIME))
    if isinstance(target, DecimalType) and isinstance(source, NumericType):
        return _fits_decimal(source, target)
    if isinstance(source, DecimalType):
        return _decimal_fits(source, target)
    if type(source) in _PRECEDENCE and type(target) in _PRECEDENCE:
        return _PRECEDENCE.index(type(source)) <= _PRECEDENCE.index(type(target))
    return (type(source), type(target)) in _LOSSLESS_TIMES


def can_ansi_cast(source: DataType, target: DataType) -> bool:
    """Whether ANSI SQL allows the cast, even if single values fail it."""
    if isinstance(source, VariantType) or isinstance(target, VariantType):
        return _is_scalar(source) or _is_scalar(target)
    if isinstance(target, StringType):
        return True
    if isinstance(source, StringType):
        return _is_scalar(target)
    if isinstance(source, NumericType | BooleanType):
        numeric = isinstance(target, NumericType | BooleanType)
        return numeric or (isinstance(source, NumericType) and isinstance(target, TimestampType))
    if isinstance(source, TimestampType):
        return isinstance(target, (NumericType, *_DATETIME))
    return isinstance(source, DateType | TimestampNTZType) and isinstance(target, _DATETIME)


def can_legacy_cast(source: DataType, target: DataType) -> bool:
    """Whether Spark has the cast at all."""
    if can_ansi_cast(source, target):
        return True
    if isinstance(target, BinaryType):
        return type(source) in _INTEGRAL_DIGITS
    if isinstance(target, TimestampType):
        return isinstance(source, BooleanType)
    if isinstance(target, BooleanType):
        return isinstance(source, DateType | TimestampType)
    return isinstance(source, DateType) and isinstance(target, NumericType)


def _fits_decimal(source: NumericType, target: DecimalType) -> bool:
    if isinstance(source, DecimalType):
        return is_wider_decimal(target, source)
    digits = _INTEGRAL_DIGITS.get(type(source))
    return digits is not None and target.precision - target.scale >= digits


def _decimal_fits(source: DecimalType, target: DataType) -> bool:
    # One digit short of the type's own count: not every number of that many digits fits.
    digits = _INTEGRAL_DIGITS.get(type(target))
    return digits is not None and source.scale == 0 and source.precision < digits


def _is_scalar(data_type: DataType) -> bool:
    return isinstance(data_type, (NumericType, BooleanType, BinaryType, StringType, *_DATETIME))


@dataclass(frozen=True, slots=True)
class Keep:
    """The values fit as they are."""


@dataclass(frozen=True, slots=True)
class Cast:
    """One cast converts the values. Nested types match field by field, in order."""

    to: DataType
    may_fail: bool = False
    """Whether a value may not fit. No value in a nested type can fail: a cast that may is a conversion by itself."""


@dataclass(frozen=True, slots=True)
class FieldSource:
    """Where the values of one field of a struct come from."""

    target: StructField
    source_index: int | None
    """The position of the field in the source; None for one that the source lacks, which is null."""
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
    return Cast(nullable_type(target), may_fail=not isinstance(source, _NESTED))


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
            yield FieldSource(target=field, source_index=None, conversion=Keep())
            continue
        source_field = source.fields[index]
        field_conversion = conversion(source_field.dataType, field.dataType, named=names.fields[index].dataType)
        yield FieldSource(target=field, source_index=index, conversion=field_conversion)


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
