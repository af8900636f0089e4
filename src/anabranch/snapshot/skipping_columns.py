"""Bounds of columns for all files of a snapshot, worked out when a predicate first asks for them and kept.

Reads "Partition Value Serialization" and "Per-file Statistics" of PROTOCOL.md with the doubts that they leave: text cut
short, timestamps cut to milliseconds, numbers written through a double, types widened since, padded text.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    CharType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from anabranch.predicates.expressions import ColumnPath
from anabranch.schema.char_varchar import length_limits
from anabranch.schema.widening import TYPE_CHANGES
from anabranch.snapshot.column_bounds import ColumnBounds, bound_type, is_plain_text, nothing_known
from anabranch.snapshot.partition_columns import padded_bounds, partition_bounds
from anabranch.snapshot.statistics_columns import LeafStatistics, extract, read_num_records, read_statistics
from anabranch.snapshot.timestamp_text import days_of, micros_of

CUT_TEXT_CHARACTERS = 32
"""Texts of this length may have been cut, as the protocol allows; the upper one then stands for all that it begins."""
MILLISECOND_US = 1000
DECIMAL_DOUBT = 1e-15
"""Some writers put decimals through a double; a bound may be off by this part of itself."""


class SkippingColumns:
    """What is known of the columns of some files. Any number of threads may ask.

    `physical_schema` is the table's schema, partition columns included, under physical names. `time_zone` is that of
    partition timestamps that do not name theirs; None allows for every zone.
    """

    def __init__(
        self,
        files: pa.Table,
        *,
        physical_schema: StructType,
        partition_columns: Iterable[str],
        time_zone: str | None = None,
    ) -> None:
        self._time_zone = time_zone
        self._files = files
        self._schema = physical_schema
        self._partition_columns = frozenset(partition_columns)
        self._padded = frozenset(limit.path for limit in length_limits(physical_schema) if limit.padded)
        self._known: dict[ColumnPath, ColumnBounds] = {}
        self._num_records: pa.ChunkedArray | None = None
        self._lock = threading.Lock()

    @property
    def count(self) -> int:
        return len(self._files)

    def is_partition_column(self, path: ColumnPath) -> bool:
        return len(path) == 1 and path[0] in self._partition_columns

    def bounds(self, paths: Iterable[ColumnPath]) -> dict[ColumnPath, ColumnBounds]:
        """The bounds of these columns; columns that have none, or are not in the schema, let everything pass."""
        with self._lock:
            asked = list(dict.fromkeys(paths))
            missing = [path for path in asked if path not in self._known]
            fields = {path: field for path in missing if (field := _leaf(self._schema, path)) is not None}
            measured = {}
            for path, field in fields.items():
                if self.is_partition_column(path):
                    values = self._files["partition_values"]
                    self._known[path] = partition_bounds(
                        values, field, padded=path in self._padded, time_zone=self._time_zone
                    )
                else:
                    measured[path] = field
            for path, statistics in self._statistics(measured).items():
                self._known[path] = _bounds(statistics, measured[path], padded=path in self._padded)
            for path in missing:
                self._known.setdefault(path, nothing_known(self.count, StringType()))
            return {path: self._known[path] for path in asked}

    def num_records(self) -> pa.ChunkedArray:
        """`numRecords` of each file, hidden rows included; null where it is not said."""
        with self._lock:
            if self._num_records is None:
                self._num_records = self._read_num_records()
            return self._num_records

    def hidden_rows(self) -> npt.NDArray[np.int64]:
        """How many rows of each file its deletion vector hides."""
        vectors = self._files["deletion_vector"]
        if vectors.null_count == len(vectors):
            return np.zeros(self.count, dtype=np.int64)
        counts = pc.cast(pc.struct_field(vectors, "cardinality"), pa.int64())
        hidden: npt.NDArray[np.int64] = pc.fill_null(counts, 0).to_numpy()
        return hidden

    def _statistics(self, fields: dict[ColumnPath, StructField]) -> dict[ColumnPath, LeafStatistics]:
        if not fields:
            return {}
        kinds = {path: _json_type(field.dataType) for path, field in fields.items()}
        parsed = self._parsed_statistics()
        if parsed is None:
            return read_statistics(self._files["stats"], kinds)
        from_struct = extract(_unnested(parsed), list(fields))
        left = self._strings_without(parsed, from_struct.values())
        if left is None:
            return from_struct
        from_text = read_statistics(left, kinds)
        return {path: _either(from_struct[path], from_text[path], fields[path].dataType) for path in fields}

    def _parsed_statistics(self) -> pa.ChunkedArray | None:
        if "stats_parsed" not in self._files.schema.names:
            return None
        parsed = self._files["stats_parsed"]
        return parsed if pa.types.is_struct(parsed.type) and parsed.null_count < len(parsed) else None

    def _strings_without(self, parsed: pa.ChunkedArray, found: Iterable[LeafStatistics]) -> pa.ChunkedArray | None:
        """The strings that say what the struct does not; None if there is none to read."""
        strings = self._files["stats"]
        if strings.null_count == len(strings):
            return None
        if any(pa.types.is_null(leaf.lower.type) and pa.types.is_null(leaf.null_count.type) for leaf in found):
            # The checkpoint was written before the column was: all that is known stands in the strings.
            return strings
        left = pc.if_else(pc.is_null(parsed), strings, None)
        return None if left.null_count == len(left) else left

    def _read_num_records(self) -> pa.ChunkedArray:
        parsed = self._parsed_statistics()
        if parsed is None or parsed.type.get_field_index("numRecords") < 0:
            return read_num_records(self._files["stats"])
        known = pc.cast(pc.struct_field(parsed, "numRecords"), pa.int64())
        left = pc.if_else(pc.is_null(known), self._files["stats"], None)
        if left.null_count == len(left):
            return known
        return pa.chunked_array([pc.coalesce(_whole(known), _whole(read_num_records(left)))])


def _leaf(schema: StructType, path: ColumnPath) -> StructField | None:
    """The field a path leads to through structs; a struct as such has no statistics."""
    below: DataType = schema
    field = None
    for part in path:
        if not isinstance(below, StructType) or part not in below.fieldNames():
            return None
        field = below[part]
        below = field.dataType
    return None if isinstance(below, StructType) else field


def _json_type(data_type: DataType) -> pa.DataType:
    """How the JSON of statistics writes a bound; bounds of types that have none are never looked at."""
    kind = bound_type(data_type)
    if isinstance(data_type, DecimalType | FloatType | DoubleType):
        return pa.float64()
    if kind == pa.int64() and not isinstance(data_type, DateType | TimestampType | TimestampNTZType):
        return pa.int64()
    return pa.bool_() if isinstance(data_type, BooleanType) else pa.string()


def _bounds(statistics: LeafStatistics, field: StructField, *, padded: bool) -> ColumnBounds:
    data_type = field.dataType
    count = len(statistics.num_records)
    null_count, num_records = _whole(statistics.null_count), _whole(statistics.num_records)
    # Any count between these two may have been taken before rows were hidden, and says nothing; these two still hold.
    null_free = _known(pc.equal(null_count, 0))
    all_null = _known(pc.equal(null_count, num_records))
    unsure = nothing_known(count, data_type)
    lower, upper, upper_open = unsure.lower, unsure.upper, None
    if bound_type(data_type) is not None and not isinstance(data_type, BooleanType | BinaryType):
        lower, upper = _values(statistics.lower, data_type), _values(statistics.upper, data_type)
        lower, upper = _loosened(lower, upper, field)
        if is_plain_text(data_type):
            lower, upper, upper_open = text_bounds(lower, upper, padded=padded or isinstance(data_type, CharType))
    return ColumnBounds(
        data_type=data_type,
        lower=lower,
        upper=upper,
        upper_open=upper_open,
        may_be_nan=isinstance(data_type, FloatType | DoubleType),
        null_free=null_free,
        all_null=all_null,
    )


def _values(column: pa.ChunkedArray, data_type: DataType) -> pa.Array:
    """Bounds as they are compared, from JSON's types or from those of a struct; null for what cannot be read."""
    whole = _one_array(column)
    kind = pa.float64() if isinstance(data_type, DecimalType) else bound_type(data_type)
    if pa.types.is_dictionary(whole.type):
        whole = whole.dictionary_decode()
    if isinstance(data_type, DateType):
        return days_of(whole)
    if isinstance(data_type, TimestampType | TimestampNTZType):
        return micros_of(whole, zoned=isinstance(data_type, TimestampType))
    if pa.types.is_string(whole.type) is not (kind == pa.string()) and not pa.types.is_large_string(whole.type):
        return pa.nulls(len(whole), kind)
    try:
        return pc.cast(whole, kind)
    except pa.ArrowInvalid:
        return pa.nulls(len(whole), kind)


def _loosened(lower: pa.Array, upper: pa.Array, field: StructField) -> tuple[pa.Array, pa.Array]:
    """Bounds moved apart by as much as a writer may have been off."""
    data_type = field.dataType
    if isinstance(data_type, TimestampType | TimestampNTZType):
        # Cut to milliseconds, by some writers towards the epoch.
        before_epoch = pc.less(lower, 0)
        lower = pc.if_else(before_epoch, pc.subtract(lower, MILLISECOND_US), lower)
        return lower, pc.add(upper, MILLISECOND_US)
    if isinstance(data_type, DecimalType):
        doubt = (pc.multiply(pc.abs(side), DECIMAL_DOUBT) for side in (lower, upper))
        return pc.subtract(lower, next(doubt)), pc.add(upper, next(doubt))
    if isinstance(data_type, FloatType):
        return _rounded_to_float(lower), _rounded_to_float(upper)
    if isinstance(data_type, DoubleType) and TYPE_CHANGES in field.metadata:
        # Written when the column was a float: 1.1 then stands for the float nearest to it, as a double another one.
        return _next_float(lower, -np.inf), _next_float(upper, np.inf)
    return lower, upper


def _rounded_to_float(bound: pa.Array) -> pa.Array:
    """The float that a decimal text stands for, as a double."""
    values = pc.fill_null(bound, 0.0).to_numpy(zero_copy_only=False)
    with np.errstate(over="ignore"):
        rounded = values.astype(np.float32).astype(np.float64)
    return pc.if_else(pc.is_valid(bound), pa.array(rounded), None)


def _next_float(bound: pa.Array, direction: float) -> pa.Array:
    values = pc.fill_null(bound, 0.0).to_numpy(zero_copy_only=False)
    with np.errstate(over="ignore", invalid="ignore"):
        moved = np.nextafter(values.astype(np.float32), np.float32(direction)).astype(np.float64)
    # Beyond the floats the value was a double from the start.
    moved = np.where(np.isfinite(moved), moved, values)
    return pc.if_else(pc.is_valid(bound), pa.array(moved), None)


def text_bounds(lower: pa.Array, upper: pa.Array, *, padded: bool) -> tuple[pa.Array, pa.Array, pa.Array]:
    """Bounds of text, and where the upper one stands for all that it begins."""
    if not padded:
        return lower, upper, pc.greater_equal(pc.utf8_length(upper), CUT_TEXT_CHARACTERS)
    return padded_bounds(lower, upper)


def _either(first: LeafStatistics, second: LeafStatistics, data_type: DataType) -> LeafStatistics:
    """What the first says, or the second where the first says nothing."""

    def bound(one: pa.ChunkedArray, other: pa.ChunkedArray) -> pa.ChunkedArray:
        if bound_type(data_type) is None:
            return pa.chunked_array([pa.nulls(len(one))])
        return pa.chunked_array([pc.coalesce(_values(one, data_type), _values(other, data_type))])

    def count(one: pa.ChunkedArray, other: pa.ChunkedArray) -> pa.ChunkedArray:
        return pa.chunked_array([pc.coalesce(_whole(one), _whole(other))])

    return LeafStatistics(
        lower=bound(first.lower, second.lower),
        upper=bound(first.upper, second.upper),
        null_count=count(first.null_count, second.null_count),
        num_records=count(first.num_records, second.num_records),
    )


def _unnested(parsed: pa.ChunkedArray) -> pa.Table:
    names = [parsed.type.field(index).name for index in range(parsed.type.num_fields)]
    return pa.table([pc.struct_field(parsed, name) for name in names], names=names)


def _whole(column: pa.ChunkedArray) -> pa.Array:
    whole = _one_array(column)
    try:
        return pc.cast(whole, pa.int64())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return pa.nulls(len(whole), pa.int64())


def _one_array(column: pa.ChunkedArray) -> pa.Array:
    whole = column.combine_chunks()
    return whole if isinstance(whole, pa.Array) else pa.concat_arrays(whole.chunks)


def _known(truth: pa.Array) -> npt.NDArray[np.bool_]:
    mask: npt.NDArray[np.bool_] = pc.fill_null(truth, False).to_numpy(zero_copy_only=False)
    return mask
