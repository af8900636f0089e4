"""The statistics of a data file, as the JSON in `add.stats`, and which columns have them. See "Per-file Statistics"."""

from __future__ import annotations

import dataclasses
import decimal
import math
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

import msgspec
from pyspark.sql.types import (
    ByteType,
    CharType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    VarcharType,
)

from anabranch.errors.protocol import InvalidPropertyError, InvalidStatisticsError
from anabranch.protocol import value_text
from anabranch.protocol.properties import TableProperties
from anabranch.protocol.value_text import java_float_text

# Smallest and largest values of a column, as statistics write them. See "Per-file Statistics".
#
# A lower bound may be lower than the true minimum and an upper bound higher than the true maximum, never
# the other way round; where no such value can be written, there is no bound, and readers keep the file.


ASCII_MAX: Final = "\x7f"
CODE_POINT_MAX: Final = "\U0010ffff"
_INTEGERS: Final = (ByteType, ShortType, IntegerType, LongType)
_FLOATS: Final = (FloatType, DoubleType)
_TIMESTAMPS: Final = (TimestampType, TimestampNTZType)
_BINARY_COLLATION: Final = "UTF8_BINARY"
_FIRST_DAY: Final = value_text.parse_days("0001-01-01")
_LAST_DAY: Final = value_text.parse_days("9999-12-31")


def has_bounds(data_type: DataType) -> bool:
    """Whether statistics have minimum and maximum: for numbers, dates, timestamps, strings in byte order."""
    match data_type:
        case StringType():
            # A collation orders strings differently from their bytes, so bounds in bytes would be wrong.
            return getattr(data_type, "collation", _BINARY_COLLATION) == _BINARY_COLLATION
        case CharType() | VarcharType() | DateType() | DecimalType():
            return True
        case _:
            return isinstance(data_type, (*_INTEGERS, *_FLOATS, *_TIMESTAMPS))


def lower_bound(value: Any, data_type: DataType, *, prefix_length: int) -> Any:
    """`value` for JSON, cut so that it is no larger; None for no bound."""
    if isinstance(data_type, StringType | CharType | VarcharType):
        return _valid_text(value[:prefix_length])
    return _bound(value, data_type, upper=False)


def upper_bound(value: Any, data_type: DataType, *, prefix_length: int) -> Any:
    """`value` for JSON, cut so that it is no smaller; None for no bound."""
    if isinstance(data_type, StringType | CharType | VarcharType):
        return truncate_max(value, prefix_length)
    return _bound(value, data_type, upper=True)


def truncate_max(text: str, prefix_length: int) -> str | None:
    """A string of about `prefix_length` characters that is not smaller than `text` in UTF-8 bytes.

    A character above the next one is put behind the prefix. There is none above the highest code point,
    so that one is kept and the prefix grows, at most to twice its length; beyond that there is no bound.
    """
    if len(text) <= prefix_length:
        return _valid_text(text)
    if prefix_length == 0:
        return None
    for length in range(prefix_length, min(2 * prefix_length, len(text)) + 1):
        if length == len(text):
            return _valid_text(text)
        if text[length] < ASCII_MAX:
            return _valid_text(text[:length] + ASCII_MAX)
        if text[length] < CODE_POINT_MAX:
            return _valid_text(text[:length] + CODE_POINT_MAX)
    return None


def _bound(value: Any, data_type: DataType, *, upper: bool) -> Any:
    match data_type:
        case FloatType() | DoubleType():
            return _float_bound(float(value), single=isinstance(data_type, FloatType))
        case DecimalType():
            return decimal.Decimal(value)
        case DateType():
            days = value_text.date_to_days(value)
            return value_text.format_days(days) if _FIRST_DAY <= days <= _LAST_DAY else None
        case TimestampType() | TimestampNTZType():
            return _timestamp_bound(value_text.datetime_to_micros(value), data_type, upper=upper)
        case _:
            return int(value)


def _float_bound(value: float, *, single: bool) -> float | None:
    """`value` if it is finite, else None: JSON has no other numbers, and engines write and order them differently."""
    if not math.isfinite(value):
        return None
    # The shortest digits of a 32-bit float, since those of its 64-bit neighbour look like another number.
    return float(java_float_text(value, single=True)) if single else value


def _timestamp_bound(micros: int, data_type: DataType, *, upper: bool) -> str | None:
    """Whole milliseconds: a minimum is floored, a maximum rounded up.

    Delta floors both and adds a millisecond to every maximum it reads. Rounding up is right for such a
    reader, and also for one that uses the maximum as it is.
    """
    millis = -(-micros // 1000) if upper else micros // 1000
    if not _FIRST_DAY <= millis // 86_400_000 <= _LAST_DAY:
        return None
    zone = "Z" if isinstance(data_type, TimestampType) else ""
    return value_text.format_millis(millis * 1000) + zone


def _valid_text(text: str) -> str | None:
    """`text`, or None if UTF-8 cannot encode it."""
    return None if any("\ud800" <= character <= "\udfff" for character in text) else text


LeafPath = tuple[str, ...]
"""The physical names of a leaf column and of the structs around it, outermost first."""
LeafValues = tuple[Any, Any, int | None]
"""Minimum, maximum, number of nulls; None for a value that is not known."""

DEPTH_MAX: Final = 200
_NAMES: Final = frozenset({"numRecords", "minValues", "maxValues", "nullCount", "tightBounds"})
_DECODER: Final = msgspec.json.Decoder(float_hook=decimal.Decimal)
_ENCODER: Final = msgspec.json.Encoder(decimal_format="number")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FileStatistics:
    """The statistics of the rows of one data file.

    `min_values`, `max_values` and `null_count` mirror the physical schema; their leaves are as in JSON:
    numbers (`Decimal` for those with a fraction, where they were read), strings for dates, timestamps and
    text. A missing leaf is not known.
    """

    num_records: int | None
    """The number of rows in the file, hidden ones included."""
    min_values: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    max_values: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    null_count: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    tight_bounds: bool | None = None
    """None for files of tables without deletion vectors; it counts as True."""
    unknown: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Statistics that the protocol did not define when this was written."""

    @classmethod
    def of_leaves(
        cls,
        num_records: int,
        leaves: Mapping[LeafPath, LeafValues],
        *,
        types: Mapping[LeafPath, DataType],
        string_prefix_length: int = 32,
        tight_bounds: bool | None = True,
    ) -> FileStatistics:
        """Statistics from the exact minimum and maximum of each leaf column; leaves without a type are left out.

        Timestamps may be aware datetimes or microseconds, dates also days since 1970. `types` is best the value
        of `stats_columns.indexed_columns`. A maximum of None means "not known": a column of floats must have it
        when NaN may be among them and was not counted as the largest value.
        """
        lows: dict[str, Any] = {}
        highs: dict[str, Any] = {}
        nulls: dict[str, Any] = {}
        for path, data_type in types.items():
            low, high, null_count = leaves.get(path, (None, None, None))
            if null_count is not None:
                _put(nulls, path, int(null_count))
            if not has_bounds(data_type):
                continue
            if low is not None:
                _put(lows, path, lower_bound(low, data_type, prefix_length=string_prefix_length))
            if high is not None:
                _put(highs, path, upper_bound(high, data_type, prefix_length=string_prefix_length))
        return cls(
            num_records=num_records, min_values=lows, max_values=highs, null_count=nulls, tight_bounds=tight_bounds
        )

    @classmethod
    def from_json(cls, text: str) -> FileStatistics:
        """The statistics in `add.stats`. Raises `InvalidStatisticsError`."""
        try:
            fields = _DECODER.decode(text)
        except (msgspec.MsgspecError, UnicodeEncodeError, decimal.InvalidOperation, RecursionError) as error:
            raise InvalidStatisticsError(reason=f"they are not JSON ({error})") from error
        if not isinstance(fields, dict):
            raise InvalidStatisticsError(reason="they are not a JSON object")
        return cls(
            num_records=_whole_number(fields.get("numRecords")),
            min_values=_tree(fields, "minValues"),
            max_values=_tree(fields, "maxValues"),
            null_count=_tree(fields, "nullCount"),
            tight_bounds=_boolean(fields.get("tightBounds")),
            unknown={name: value for name, value in fields.items() if name not in _NAMES},
        )

    def to_json(self) -> str:
        """The value of `add.stats`; a floating-point number keeps the digits it was read with."""
        fields: dict[str, Any] = {} if self.num_records is None else {"numRecords": self.num_records}
        fields |= {"minValues": self.min_values, "maxValues": self.max_values, "nullCount": self.null_count}
        if self.tight_bounds is not None:
            fields["tightBounds"] = self.tight_bounds
        return _ENCODER.encode({**fields, **self.unknown}).decode()

    def with_wide_bounds(self, *, hidden_rows: int = 0) -> FileStatistics:
        """The statistics of the file once it gets a deletion vector: they hold for more rows than remain.

        `hidden_rows` is how many rows the file's present vector hides. A tight count of nulls counts
        visible rows; where all of them are null, the count becomes that of all rows in the file, since with
        wide bounds only "none" and "all" have a meaning.
        """
        if self.tight_bounds is False or self.num_records is None:
            return dataclasses.replace(self, tight_bounds=False)
        counts = _all_null(self.null_count, visible=self.num_records - hidden_rows, physical=self.num_records)
        return dataclasses.replace(self, null_count=counts, tight_bounds=False)


def _put(tree: dict[str, Any], path: LeafPath, value: Any) -> None:
    if value is None:
        return
    for name in path[:-1]:
        tree = tree.setdefault(name, {})
    tree[path[-1]] = value


def _all_null(counts: Mapping[str, Any], *, visible: int, physical: int) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for name, value in counts.items():
        if isinstance(value, Mapping):
            result[name] = _all_null(value, visible=visible, physical=physical)
        else:
            result[name] = physical if value == visible else value
    return result


def _tree(fields: Mapping[str, Any], name: str) -> dict[str, Any]:
    value = fields.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise InvalidStatisticsError(reason=f"`{name}` is not a JSON object")
    return _without_nulls(value, depth=0)


def _without_nulls(tree: Mapping[str, Any], *, depth: int) -> dict[str, Any]:
    if depth > DEPTH_MAX:
        raise InvalidStatisticsError(reason="they are nested too deeply")
    return {
        name: _without_nulls(value, depth=depth + 1) if isinstance(value, dict) else value
        for name, value in tree.items()
        if value is not None
    }


def _whole_number(value: Any) -> int | None:
    match value:
        case None:
            return None
        case bool():
            pass
        case int() if 0 <= value < 2**63:
            return value
        case decimal.Decimal() if value == value.to_integral_value() and 0 <= value < 2**63:
            return int(value)
    raise InvalidStatisticsError(reason=f"`numRecords` is {value!r}")


def _boolean(value: Any) -> bool | None:
    if value is None or isinstance(value, bool):
        return value
    raise InvalidStatisticsError(reason=f"`tightBounds` is {value!r}")


PHYSICAL_NAME_KEY = "delta.columnMapping.physicalName"
"""The key of the physical name in the metadata of a field. See "Column Mapping"."""

IDENTITY_START_KEY = "delta.identity.start"
"""The key of the first number in the metadata of an identity column. See "Identity Columns"."""

Path = tuple[str, ...]


def indexed_columns(
    schema: StructType, properties: TableProperties, *, partition_columns: Collection[str] = ()
) -> dict[Path, DataType]:
    """Physical paths and types of the leaf columns that get statistics, in the order of the schema.

    `schema` and `partition_columns` have logical names, as the properties do. Arrays and maps are leaves
    of which only nulls are counted. Identity columns always have statistics, from which the high-water mark is updated.
    The columns of row tracking, which are in files but not in the schema, have none.
    """
    mapped = properties.column_mapping_mode != "none"
    partitions = {name.lower() for name in partition_columns}
    row_tracking_columns = {properties.materialized_row_id_column, properties.materialized_row_commit_version_column}
    stored = [
        field
        for field in schema.fields
        if field.name.lower() not in partitions and field.name not in row_tracking_columns
    ]
    leaves = [leaf for field in stored for leaf in _leaves(field, (), (), mapped)]
    if (named := properties.stats_columns) is not None:
        prefixes = {tuple(part.lower() for part in path) for path in named}
        indexed = {physical for logical, physical, _ in leaves if _is_named(logical, prefixes)}
    else:
        count = properties.num_indexed_columns
        indexed = {physical for _, physical, _ in (leaves if count < 0 else leaves[:count])}
    identity_columns = [field for field in stored if IDENTITY_START_KEY in (field.metadata or {})]
    indexed |= {physical for field in identity_columns for _, physical, _ in _leaves(field, (), (), mapped)}
    return {physical: kind for _, physical, kind in leaves if physical in indexed}


def check_stats_columns(
    schema: StructType, properties: TableProperties, *, partition_columns: Collection[str] = ()
) -> None:
    """Check `delta.dataSkippingStatsColumns` against the table.

    Raises `InvalidPropertyError` where it names a column that does not exist, partitions the table, is named
    twice or has no minimum and maximum.
    """
    partitions = {name.lower() for name in partition_columns}
    seen: set[Path] = set()
    for path in properties.stats_columns or ():
        lower = tuple(part.lower() for part in path)
        data_type = _type_at(schema, lower)
        if data_type is None:
            raise _refused(properties, f"a list of existing columns; there is no {'.'.join(path)}")
        if len(path) == 1 and lower[0] in partitions:
            raise _refused(properties, f"a list of columns that do not partition the table, as {path[0]} does")
        if lower in seen:
            raise _refused(properties, f"a list without repetitions; {'.'.join(path)} is named twice")
        if len(path) == 1 and not isinstance(data_type, StructType) and not has_bounds(data_type):
            expected = f"a list of columns that have an order; {path[0]} is {data_type.simpleString()}"
            raise _refused(properties, expected)
        seen.add(lower)


def _leaves(
    field: StructField,
    logical: Path,
    physical: Path,
    mapped: bool,
) -> Iterator[tuple[Path, Path, DataType]]:
    logical = (*logical, field.name)
    physical = (*physical, (field.metadata or {}).get(PHYSICAL_NAME_KEY, field.name) if mapped else field.name)
    if isinstance(field.dataType, StructType):
        for child in field.dataType.fields:
            yield from _leaves(child, logical, physical, mapped)
    else:
        yield logical, physical, field.dataType


def _is_named(logical: Path, prefixes: set[Path]) -> bool:
    lower = tuple(part.lower() for part in logical)
    return any(lower[:length] in prefixes for length in range(1, len(lower) + 1))


def _type_at(schema: StructType, path: Path) -> DataType | None:
    data_type: DataType = schema
    for name in path:
        if not isinstance(data_type, StructType):
            return None
        match = next((field for field in data_type.fields if field.name.lower() == name), None)
        if match is None:
            return None
        data_type = match.dataType
    return data_type


def _refused(properties: TableProperties, expected: str) -> InvalidPropertyError:
    name = "delta.dataSkippingStatsColumns"
    return InvalidPropertyError(name=name, value=properties.configuration.get(name), expected=expected)
