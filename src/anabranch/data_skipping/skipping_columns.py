"""Bounds of columns for all files of a snapshot, worked out when a predicate first asks for them and kept.

See "Partition Value Serialization" and "Per-file Statistics" of PROTOCOL.md.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import (
    DataType,
    StringType,
    StructField,
    StructType,
)

from anabranch.data_skipping.column_bounds import ColumnBounds, nothing_known
from anabranch.data_skipping.generated_bounds import GeneratedPartition, completed
from anabranch.data_skipping.partition_columns import partition_bounds
from anabranch.data_skipping.statistics_bounds import bounds_of, either, json_type, typed, whole_numbers
from anabranch.data_skipping.statistics_columns import LeafStatistics, extract, read_num_records, read_statistics
from anabranch.predicates.expressions import ColumnPath
from anabranch.protocol.time_zones import TimeZone
from anabranch.schema.logical_types import length_limits


class SkippingColumns:
    """What is known of the columns of some files. Any number of threads may ask.

    `physical_schema` is the table's schema, partition columns included, under physical names. `time_zone` is that of
    partition timestamps that do not name theirs; None allows for every zone. `generated` says which partition columns
    were computed from other columns, and so bound them.
    """

    def __init__(
        self,
        files: pa.Table,
        *,
        physical_schema: StructType,
        partition_columns: Iterable[str],
        time_zone: TimeZone | None = None,
        generated: Sequence[GeneratedPartition] = (),
    ) -> None:
        self._time_zone = time_zone
        self._files = files
        self._schema = physical_schema
        self._partition_columns = frozenset(partition_columns)
        self._padded = frozenset(limit.path for limit in length_limits(physical_schema) if limit.padded)
        self._generated = generated
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
                    self._known[path] = self._of_partitions(field)
                else:
                    measured[path] = field
            for path, statistics in self._statistics(measured).items():
                told = bounds_of(statistics, measured[path], padded=path in self._padded)
                self._known[path] = self._completed(path, told)
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

    def is_exact(self, path: ColumnPath) -> bool:
        """Whether the bounds of a column of whole numbers or dates are values that rows have, not only limits."""
        if self.is_partition_column(path):
            return True
        if any(each.derivation.source == path for each in self._generated):
            return False
        return self._files["deletion_vector"].null_count == self.count and not self._says_wide_bounds()

    def _says_wide_bounds(self) -> bool:
        said = pc.match_substring_regex(pc.cast(self._files["stats"], pa.large_string()), r'"tightBounds"\s*:\s*false')
        if pc.any(said).as_py():
            return True
        parsed = self._parsed_statistics()
        if parsed is None or parsed.type.get_field_index("tightBounds") < 0:
            return False
        return bool(pc.any(pc.equal(pc.struct_field(parsed, "tightBounds"), False)).as_py())

    def _of_partitions(self, field: StructField) -> ColumnBounds:
        values = self._files["partition_values"]
        padded = (field.name,) in self._padded
        return partition_bounds(values, field, padded=padded, time_zone=self._time_zone)

    def _completed(self, path: ColumnPath, told: ColumnBounds) -> ColumnBounds:
        """With what partition values say, where statistics leave a bound open."""
        generated = [each for each in self._generated if each.derivation.source == path]
        if not generated or path in self._padded or not told.lower.null_count + told.upper.null_count:
            return told
        values = {each.column: self._of_partitions(self._schema[each.column]) for each in generated}
        return completed(told, generated, values)

    def _statistics(self, fields: dict[ColumnPath, StructField]) -> dict[ColumnPath, LeafStatistics]:
        if not fields:
            return {}
        kinds = {path: json_type(field.dataType) for path, field in fields.items()}
        parsed = self._parsed_statistics()
        if parsed is None:
            told = read_statistics(self._files["stats"], kinds)
            return {path: typed(told[path], field.dataType) for path, field in fields.items()}
        told = extract(_unnested(parsed), list(fields))
        found = {path: typed(told[path], field.dataType) for path, field in fields.items()}
        left = self._strings_without(parsed, told.values())
        if left is None:
            return found
        told = read_statistics(left, kinds)
        return {path: either(found[path], typed(told[path], field.dataType)) for path, field in fields.items()}

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
        return pa.chunked_array([pc.coalesce(whole_numbers(known), whole_numbers(read_num_records(left)))])


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


def _unnested(parsed: pa.ChunkedArray) -> pa.Table:
    names = [parsed.type.field(index).name for index in range(parsed.type.num_fields)]
    return pa.table([pc.struct_field(parsed, name) for name in names], names=names)
