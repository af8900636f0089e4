"""Which types a write may convert into which.

A table's writers follow Spark's `spark.sql.storeAssignmentPolicy`; the three policies are Spark's, type by
type. Only types that Delta tables hold appear here.
"""

from __future__ import annotations

import enum

from pyspark.sql.types import (
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
    NullType,
    NumericType,
    ShortType,
    StringType,
    TimestampNTZType,
    TimestampType,
    UserDefinedType,
    VariantType,
)

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

    @classmethod
    def parse(cls, policy: str) -> Casting:
        """The casting that a value of `spark.sql.storeAssignmentPolicy` selects."""
        return cls(policy.lower())

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
