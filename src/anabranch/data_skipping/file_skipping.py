"""Data skipping: the files that can hold a row for which a condition is true, by bounds of their columns.

A file is skipped only if no row of it can make the condition true; a file without statistics is read. Bounds are
computed when a predicate first needs them, and cached. See "Per-file Statistics" and "Partition Value Serialization" of
PROTOCOL.md.
"""

from __future__ import annotations

import functools
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
from anabranch.log.file_columns import FileMask, table_of_adds
from anabranch.predicates.expressions import (
    And,
    Column,
    ColumnPath,
    Comparison,
    In,
    IsNotNull,
    IsNull,
    Literal,
    Not,
    Or,
    Predicate,
    StartsWith,
    Truth,
    Unknown,
    columns_named_by,
    nodes_of,
    normalise,
    references,
)
from anabranch.protocol.actions import AddFile
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


def files_to_read(
    files: pa.Table,
    predicate: Predicate,
    *,
    physical_schema: StructType,
    partition_columns: Iterable[str],
) -> FileMask:
    """One entry a file: whether `predicate`, in physical names, can be true for a row of it."""
    columns = SkippingColumns(files, physical_schema=physical_schema, partition_columns=partition_columns)
    return can_be_true(predicate, columns)


def files_wholly_true(
    files: pa.Table,
    predicate: Predicate,
    *,
    physical_schema: StructType,
    partition_columns: Iterable[str],
    columns: SkippingColumns | None = None,
) -> FileMask:
    """One entry a file: whether `predicate` is true for every row of it, by partition values alone.

    Statistics are not used: if another writer's were wrong, rows would be kept or dropped wrongly.
    """
    columns = columns or SkippingColumns(files, physical_schema=physical_schema, partition_columns=partition_columns)
    return _certainly_true(normalise(predicate), columns)


def added_files_to_read(
    predicate: Predicate, adds: Sequence[AddFile], *, physical_schema: StructType, partition_columns: Iterable[str]
) -> FileMask:
    """`files_to_read` for files that commits added: one entry an action."""
    return files_to_read(
        table_of_adds(adds), predicate, physical_schema=physical_schema, partition_columns=partition_columns
    )


def can_be_true(predicate: Predicate, columns: SkippingColumns) -> FileMask:
    """One entry a file: whether the predicate can be true for a row of it."""
    normal = normalise(predicate)
    return _possible(normal, columns.bounds(_informative_columns(normal)), columns.count)


def live_row_count(columns: SkippingColumns, files: FileMask | None = None) -> int | None:
    """The number of rows that are not hidden; None if a file lacks its number of rows."""
    total = columns.num_records()
    hidden = columns.hidden_rows()
    if files is not None:
        total, hidden = total.filter(pa.array(files)), hidden[files]
    if total.null_count:
        return None
    return int(pc.sum(total).as_py() or 0) - int(hidden.sum())


def _informative_columns(predicate: Predicate) -> list[ColumnPath]:
    """The columns whose bounds can exclude files: all but those of `Unknown` parts."""
    return [
        column.path
        for node in nodes_of(predicate)
        if not isinstance(node, Unknown)
        for column in columns_named_by(node)
    ]


def _possible(predicate: Predicate, columns: dict[ColumnPath, ColumnBounds], count: int) -> FileMask:
    """Whether a normal predicate can be true. It is monotone, so its parts are evaluated one by one."""
    if isinstance(predicate, And | Or):
        mask = _possible(predicate.operands[0], columns, count)
        for operand in predicate.operands[1:]:
            if isinstance(predicate, And):
                mask = mask & _possible(operand, columns, count)
            else:
                mask = mask | _possible(operand, columns, count)
        return mask
    if isinstance(predicate, Truth):
        return np.full(count, predicate.value is True, dtype=np.bool_)
    leaf = _possible_leaf(predicate, columns)
    return np.ones(count, dtype=np.bool_) if leaf is None else leaf


def _possible_leaf(predicate: Predicate, columns: dict[ColumnPath, ColumnBounds]) -> FileMask | None:
    """Whether a condition on columns can be true; None where bounds do not help."""
    if isinstance(predicate, Comparison):
        bounds = columns[predicate.left.path]
        if isinstance(predicate.right, Literal):
            return bounds.can_compare(predicate.operator, predicate.right)
        return (
            bounds.can_relate(predicate.operator, columns[predicate.right.path]) if _both_present(predicate) else None
        )
    if isinstance(predicate, IsNull):
        return columns[predicate.column.path].can_be_null()
    if isinstance(predicate, IsNotNull):
        return columns[predicate.column.path].can_be_present()
    if isinstance(predicate, In):
        return columns[predicate.column.path].can_be_in(predicate.values)
    if isinstance(predicate, StartsWith):
        return columns[predicate.column.path].can_start_with(predicate.prefix)
    if isinstance(predicate, Not) and isinstance(predicate.operand, In):
        return columns[predicate.operand.column.path].can_differ_from_all(predicate.operand.values)
    if isinstance(predicate, Not) and isinstance(predicate.operand, StartsWith):
        return columns[predicate.operand.column.path].can_start_otherwise(predicate.operand.prefix)
    return None


def _both_present(comparison: Comparison) -> bool:
    # `<=>` is true of two NULLs; every other comparison needs two values.
    return comparison.operator.negated is not None


def _certainly_true(predicate: Predicate, columns: SkippingColumns) -> FileMask:
    """Whether a normal predicate is true for every row of a file."""
    if isinstance(predicate, And):
        return ~_any(~_certainly_true(operand, columns) for operand in predicate.operands)
    if isinstance(predicate, Or):
        return _any(_certainly_true(operand, columns) for operand in predicate.operands)
    if isinstance(predicate, Truth):
        return np.full(columns.count, predicate.value is True, dtype=np.bool_)
    named = references(predicate)
    if isinstance(predicate, Unknown) or not all(map(columns.is_partition_column, named)):
        return np.zeros(columns.count, dtype=np.bool_)
    # It is true for every row if it is false for none and NULL for none.
    not_true = Or((Not(predicate), *_null_cases(predicate, named)))
    return ~can_be_true(not_true, columns)


def _any(masks: Iterable[FileMask]) -> FileMask:
    return functools.reduce(np.bitwise_or, masks)


def _null_cases(predicate: Predicate, named: Iterable[ColumnPath]) -> Iterable[Predicate]:
    never_null = isinstance(predicate, IsNull | IsNotNull)
    return [] if never_null else [IsNull(Column(path)) for path in named]
