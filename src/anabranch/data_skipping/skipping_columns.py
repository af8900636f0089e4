"""Bounds of columns for all files of a snapshot, computed when a predicate first needs them, and cached.

See "Partition Value Serialization" and "Per-file Statistics" of PROTOCOL.md.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import DataType, StringType, StructField, StructType

from anabranch.arrow_pool import release_unused
from anabranch.data_skipping.column_bounds import ColumnBounds, unbounded
from anabranch.data_skipping.generated_bounds import GeneratedPartition, with_partition_bounds
from anabranch.data_skipping.partition_columns import partition_bounds
from anabranch.data_skipping.statistics_columns import (
    BATCH_ROWS_MAX,
    LeafStatistics,
    bounds_from_statistics,
    coalesced,
    extract,
    joined,
    json_type,
    read_num_records,
    statistics_batches,
    typed,
    whole_numbers,
)
from anabranch.predicates.expressions import ColumnPath
from anabranch.protocol.time_zones import TimeZone
from anabranch.schema.logical_types import length_limits

_WIDE_BOUNDS = r'"tightBounds"\s*:\s*false'


class SkippingColumns:
    """Bounds and counts of the columns of some files. Any number of threads may use it.

    `physical_schema` is the table's schema, partition columns included, under physical names. `time_zone` is that of
    partition timestamps that do not name theirs; None allows for every zone. `generated` says which partition columns
    were computed from other columns, and so bound them. `load_stats` returns the statistics as texts, those of some
    files at a time, where `files` has no column `stats`.
    """

    def __init__(
        self,
        files: pa.Table,
        *,
        physical_schema: StructType,
        partition_columns: Iterable[str],
        time_zone: TimeZone | None = None,
        generated: Sequence[GeneratedPartition] = (),
        load_stats: Callable[[], Iterable[pa.Array]] | None = None,
    ) -> None:
        self._load_stats = load_stats or (lambda: files["stats"].chunks)
        self._time_zone = time_zone
        self._files = files
        self._schema = physical_schema
        self._partition_columns = frozenset(partition_columns)
        self._padded = frozenset(limit.path for limit in length_limits(physical_schema) if limit.padded)
        self._generated = generated
        self._bounds: dict[ColumnPath, ColumnBounds] = {}
        self._num_records: pa.ChunkedArray | None = None
        self._lock = threading.Lock()

    @property
    def count(self) -> int:
        return len(self._files)

    def is_partition_column(self, path: ColumnPath) -> bool:
        return len(path) == 1 and path[0] in self._partition_columns

    def bounds(self, paths: Iterable[ColumnPath]) -> dict[ColumnPath, ColumnBounds]:
        """The bounds of these columns; those of columns without statistics, or not in the schema, exclude no value."""
        with self._lock:
            requested = list(dict.fromkeys(paths))
            missing = [path for path in requested if path not in self._bounds]
            fields = {path: field for path in missing if (field := _leaf(self._schema, path)) is not None}
            measured = {}
            for path, field in fields.items():
                if self.is_partition_column(path):
                    self._bounds[path] = self._partition_bounds(field)
                else:
                    measured[path] = field
            typed_statistics = self._statistics(measured)
            if self.count >= BATCH_ROWS_MAX:
                release_unused()
            for path, statistics in typed_statistics.items():
                bounds = bounds_from_statistics(statistics, measured[path], padded=path in self._padded)
                self._bounds[path] = self._with_partition_bounds(path, bounds)
            for path in missing:
                self._bounds.setdefault(path, unbounded(self.count, StringType()))
            return {path: self._bounds[path] for path in requested}

    def num_records(self) -> pa.ChunkedArray:
        """`numRecords` of each file, hidden rows included; null for files without it."""
        with self._lock:
            if self._num_records is None:
                self._num_records = self._read_num_records()
            return self._num_records

    def hidden_rows(self) -> npt.NDArray[np.int64]:
        """The number of rows of each file that its deletion vector hides."""
        vectors = self._files["deletion_vector"]
        if vectors.null_count == len(vectors):
            return np.zeros(self.count, dtype=np.int64)
        counts = pc.cast(pc.struct_field(vectors, "cardinality"), pa.int64())
        hidden: npt.NDArray[np.int64] = pc.fill_null(counts, 0).to_numpy()
        return hidden

    def is_exact(self, path: ColumnPath) -> bool:
        """Whether the bounds of a column of whole numbers or dates are values of rows, not only limits."""
        if self.is_partition_column(path):
            return True
        if any(partition.derivation.source == path for partition in self._generated):
            return False
        return self._files["deletion_vector"].null_count == self.count and not self._has_wide_bounds()

    def _has_wide_bounds(self) -> bool:
        if any(pc.any(pc.match_substring_regex(texts, _WIDE_BOUNDS)).as_py() for texts in self._load_stats()):
            return True
        parsed = self._parsed_statistics()
        if parsed is None or parsed.type.get_field_index("tightBounds") < 0:
            return False
        return bool(pc.any(pc.equal(pc.struct_field(parsed, "tightBounds"), False)).as_py())

    def _partition_bounds(self, field: StructField) -> ColumnBounds:
        values = self._files["partition_values"]
        padded = (field.name,) in self._padded
        return partition_bounds(values, field, padded=padded, time_zone=self._time_zone)

    def _with_partition_bounds(self, path: ColumnPath, bounds: ColumnBounds) -> ColumnBounds:
        """Bounds from statistics; missing ones from the values of partition columns generated from the column."""
        generated = [partition for partition in self._generated if partition.derivation.source == path]
        if not generated or path in self._padded or not bounds.lower.null_count + bounds.upper.null_count:
            return bounds
        columns = [partition.column for partition in generated]
        values = {column: self._partition_bounds(self._schema[column]) for column in columns}
        return with_partition_bounds(bounds, generated, values)

    def _statistics(self, fields: dict[ColumnPath, StructField]) -> dict[ColumnPath, LeafStatistics]:
        if not fields:
            return {}
        parsed = self._parsed_statistics()
        if parsed is None:
            return self._from_json(self._load_stats(), fields)
        from_struct = extract(_unnested(parsed), list(fields))
        statistics = {path: typed(from_struct[path], field.dataType) for path, field in fields.items()}
        strings = self._strings_without(parsed, from_struct.values())
        if strings is None:
            return statistics
        from_json = self._from_json(strings.chunks, fields)
        return {path: coalesced(statistics[path], from_json[path]) for path in fields}

    def _from_json(
        self, texts: Iterable[pa.Array], fields: dict[ColumnPath, StructField]
    ) -> dict[ColumnPath, LeafStatistics]:
        """Typed statistics. They are typed batch by batch, since most of them are texts before."""
        kinds = {path: json_type(field.dataType) for path, field in fields.items()}
        batches = [
            {path: typed(leaf, fields[path].dataType) for path, leaf in batch.items()}
            for batch in statistics_batches(texts, kinds)
        ]
        return {path: joined([batch[path] for batch in batches], field.dataType) for path, field in fields.items()}

    def _parsed_statistics(self) -> pa.ChunkedArray | None:
        if "stats_parsed" not in self._files.schema.names:
            return None
        parsed = self._files["stats_parsed"]
        return parsed if pa.types.is_struct(parsed.type) and parsed.null_count < len(parsed) else None

    def _strings_without(self, parsed: pa.ChunkedArray, leaves: Iterable[LeafStatistics]) -> pa.ChunkedArray | None:
        """The JSON of files whose statistics the struct lacks; None if there is none to read."""
        strings = self._files["stats"]
        if strings.null_count == len(strings):
            return None
        if any(pa.types.is_null(leaf.lower.type) and pa.types.is_null(leaf.null_count.type) for leaf in leaves):
            # The checkpoint was written before the column was added: only the strings have its statistics.
            return strings
        remaining = pc.if_else(pc.is_null(parsed), strings, None)
        return None if remaining.null_count == len(remaining) else remaining

    def _read_num_records(self) -> pa.ChunkedArray:
        parsed = self._parsed_statistics()
        if parsed is None or parsed.type.get_field_index("numRecords") < 0:
            return read_num_records(self._load_stats())
        counts = pc.cast(pc.struct_field(parsed, "numRecords"), pa.int64())
        strings = pc.if_else(pc.is_null(counts), self._files["stats"], None)
        if strings.null_count == len(strings):
            return counts
        return pa.chunked_array([pc.coalesce(whole_numbers(counts), whole_numbers(read_num_records(strings.chunks)))])


def _leaf(schema: StructType, path: ColumnPath) -> StructField | None:
    """The field at a path through structs; None for a struct, which has no statistics, and for no field."""
    data_type: DataType = schema
    field = None
    for part in path:
        if not isinstance(data_type, StructType) or part not in data_type.fieldNames():
            return None
        field = data_type[part]
        data_type = field.dataType
    return None if isinstance(data_type, StructType) else field


def _unnested(parsed: pa.ChunkedArray) -> pa.Table:
    names = [parsed.type.field(index).name for index in range(parsed.type.num_fields)]
    return pa.table([pc.struct_field(parsed, name) for name in names], names=names)
