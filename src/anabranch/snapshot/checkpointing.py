"""The checkpoint of a snapshot. See "Checkpoints"."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import (
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    TimestampNTZType,
    TimestampType,
)

from anabranch.clock import Clock
from anabranch.data_skipping.statistics_columns import LeafStatistics, read_statistics
from anabranch.data_skipping.statistics_times import days_of, micros_of
from anabranch.errors.log import TableNotFoundError
from anabranch.log.checkpoint_writing import CheckpointContent, write_classic_checkpoint, write_v2_checkpoint
from anabranch.log.last_checkpoint import LastCheckpoint
from anabranch.log.log_segment import LogListing, list_log
from anabranch.predicates.expressions import ColumnPath
from anabranch.protocol.features import supported
from anabranch.protocol.log_paths import commit_path
from anabranch.protocol.partition_values import arrow_type, parse_column
from anabranch.protocol.statistics import indexed_columns
from anabranch.schema.column_mapping import to_physical
from anabranch.snapshot.snapshot import Snapshot
from anabranch.storage.log_store import LogStore

# Statistics and partition values as typed columns of a checkpoint. See "Checkpoints" and "Checkpoint Schema".


_WHOLE_BITS: dict[type[DataType], int] = {ByteType: 8, ShortType: 16, IntegerType: 32, LongType: 64}
_TIGHT_BOUNDS = r'"tightBounds"\s*:\s*(?P<bounds>true|false)'


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointStructs:
    """The columns `stats_parsed` and `partitionValues_parsed` of one table."""

    fields: tuple[pa.Field, ...]
    leaves: Mapping[ColumnPath, DataType]
    """The types of the columns that have statistics, by physical path."""
    partition_types: Mapping[str, DataType]
    """The types of the partition columns, by physical name."""

    @classmethod
    def of(cls, snapshot: Snapshot) -> CheckpointStructs:
        leaves = indexed_columns(snapshot.schema, snapshot.properties, partition_columns=snapshot.partition_columns)
        physical = to_physical(snapshot.schema, snapshot.column_mapping_mode)
        types = {name: physical[name].dataType for name in snapshot.physical_partition_columns}
        bounded = {path: kind for path, kind in leaves.items() if _bound_type(kind) is not None}
        bounds = _tree_type({path: _bound_type(kind) for path, kind in bounded.items()})
        statistics = [
            pa.field("numRecords", pa.int64()),
            *([pa.field("minValues", bounds), pa.field("maxValues", bounds)] if bounded else []),
            *([pa.field("nullCount", _tree_type(dict.fromkeys(leaves, pa.int64())))] if leaves else []),
            pa.field("tightBounds", pa.bool_()),
        ]
        fields = [pa.field("stats_parsed", pa.struct(statistics))]
        if types:
            parsed = pa.struct([(name, arrow_type(kind)) for name, kind in types.items()])
            fields.append(pa.field("partitionValues_parsed", parsed))
        return cls(fields=tuple(fields), leaves=leaves, partition_types=types)

    @property
    def holds_all_bounds(self) -> bool:
        """Whether the struct has all bounds of the JSON. It lacks those of decimals, which may have been rounded."""
        return not any(isinstance(kind, DecimalType) for kind in self.leaves.values())

    def parse(self, files: pa.RecordBatch) -> dict[str, pa.Array]:
        """The columns for rows of `LIVE_FILE_SCHEMA`, by name."""
        columns = {"stats_parsed": self._statistics(files["stats"])}
        if self.partition_types:
            columns["partitionValues_parsed"] = self._partition_values(files["partition_values"])
        return columns

    def _statistics(self, stats: pa.Array) -> pa.StructArray:
        kind = self.fields[0].type
        kinds = {path: _json_type(data_type) for path, data_type in self.leaves.items()}
        # Statistics of any column include `numRecords`, so at least one column is read.
        leaves = read_statistics([stats], kinds or {("numRecords",): pa.int64()})
        any_leaf = next(iter(leaves.values()))
        children = {
            "numRecords": lambda: _single_array(any_leaf.num_records),
            "minValues": lambda: self._bounds(kind.field("minValues").type, leaves, lambda leaf: leaf.lower),
            "maxValues": lambda: self._bounds(kind.field("maxValues").type, leaves, lambda leaf: leaf.upper),
            "nullCount": lambda: _tree(
                kind.field("nullCount").type, (), lambda path: _single_array(leaves[path].null_count).cast(pa.int64())
            ),
            "tightBounds": lambda: _tight_bounds(stats),
        }
        fields = [kind.field(position) for position in range(kind.num_fields)]
        arrays = [children[field.name]() for field in fields]
        return pa.StructArray.from_arrays(arrays, fields=fields, mask=stats.is_null())

    def _bounds(
        self,
        kind: pa.StructType,
        leaves: Mapping[ColumnPath, LeafStatistics],
        side: Callable[[LeafStatistics], pa.ChunkedArray],
    ) -> pa.StructArray:
        return _tree(kind, (), lambda path: _typed(_single_array(side(leaves[path])), self.leaves[path]))

    def _partition_values(self, values: pa.MapArray) -> pa.StructArray:
        arrays = [
            parse_column(pc.map_lookup(values, name, "last"), data_type)
            for name, data_type in self.partition_types.items()
        ]
        return pa.StructArray.from_arrays(arrays, fields=list(self.fields[1].type))


def _bound_type(data_type: DataType) -> pa.DataType | None:
    """The type of minimum and maximum; None for columns that have none, or whose bounds may be inexact."""
    whole = isinstance(data_type, ByteType | ShortType | IntegerType | LongType)
    ordered = isinstance(data_type, FloatType | DoubleType | StringType | DateType | TimestampType | TimestampNTZType)
    return arrow_type(data_type) if whole or ordered else None


def _json_type(data_type: DataType) -> pa.DataType:
    if isinstance(data_type, ByteType | ShortType | IntegerType | LongType):
        return pa.int64()
    return pa.float64() if isinstance(data_type, FloatType | DoubleType | DecimalType) else pa.string()


def _typed(column: pa.Array, data_type: DataType) -> pa.Array:
    """Bounds from JSON as values of the column; null for a bound that its type cannot represent."""
    target = arrow_type(data_type)
    if isinstance(data_type, DateType):
        return days_of(column).cast(pa.int32()).cast(target)
    if isinstance(data_type, TimestampType | TimestampNTZType):
        return micros_of(column, zoned=isinstance(data_type, TimestampType)).cast(target)
    for kind, bits in _WHOLE_BITS.items():
        if isinstance(data_type, kind):
            fits = pc.and_(pc.greater_equal(column, -(1 << bits - 1)), pc.less_equal(column, (1 << bits - 1) - 1))
            return pc.if_else(fits, column, None).cast(target)
    return column.cast(target)


def _tight_bounds(stats: pa.Array) -> pa.Array:
    # Quotes in string values are escaped, so that no value can match this field.
    texts = pc.struct_field(pc.extract_regex(stats, _TIGHT_BOUNDS), "bounds")
    return pc.if_else(pc.equal(texts, ""), None, pc.equal(texts, "true"))


def _tree_type(leaves: Mapping[ColumnPath, pa.DataType]) -> pa.StructType:
    children: dict[str, dict[ColumnPath, pa.DataType]] = {}
    for path, kind in leaves.items():
        children.setdefault(path[0], {})[path[1:]] = kind
    return pa.struct([(name, nested[()] if () in nested else _tree_type(nested)) for name, nested in children.items()])


def _tree(kind: pa.StructType, path: ColumnPath, leaf: Callable[[ColumnPath], pa.Array]) -> pa.StructArray:
    fields = [kind.field(position) for position in range(kind.num_fields)]
    arrays = []
    for field in fields:
        child = (*path, field.name)
        arrays.append(_tree(field.type, child, leaf) if pa.types.is_struct(field.type) else leaf(child))
    return pa.StructArray.from_arrays(arrays, fields=fields)


def _single_array(column: pa.ChunkedArray) -> pa.Array:
    joined = column.combine_chunks()
    return pa.concat_arrays(joined.chunks) if isinstance(joined, pa.ChunkedArray) else joined


def write_checkpoint(
    store: LogStore, snapshot: Snapshot, *, clock: Clock, new_uuid: Callable[[], str]
) -> LastCheckpoint:
    """Write a checkpoint of the kind in `delta.checkpointPolicy`, and the `_last_checkpoint` file.

    `new_uuid` returns a new UUID at each call, for names that no other writer chooses.

    Raises `StorageError`, `TableNotFoundError` where the table was dropped meanwhile, and `CorruptCheckpointError`
    where the tombstones or statistics in the checkpoint from which the snapshot was read are damaged.
    """
    if _log_of_dropped(store, snapshot) is not None:
        raise TableNotFoundError(table=store.root)
    # The storage's clock, by the newest commit: with one that is ahead, tombstones would be left out that VACUUM needs.
    content = checkpoint_content(snapshot, now_ms=min(clock.now_ms(), snapshot.segment.modified_ms))
    if snapshot.properties.checkpoint_policy == "v2" and supported(snapshot.protocol, "v2Checkpoint"):
        written = write_v2_checkpoint(store, content, new_uuid=new_uuid, now_ms=clock.now_ms())
    else:
        written = write_classic_checkpoint(store, content)
    rest = _log_of_dropped(store, snapshot)
    if rest is None:
        return written
    # A checkpoint alone is a table, which the program that dropped this one does not expect.
    for checkpoint in rest.checkpoints:
        if checkpoint.version == snapshot.version:
            for file in checkpoint.files:
                store.delete(file.path)
    raise TableNotFoundError(table=store.root)


def _log_of_dropped(store: LogStore, snapshot: Snapshot) -> LogListing | None:
    """What is in the log where the table was dropped since the snapshot was read; None where it was not.

    Clean-up of the log may delete the commit of the version, too, but not without a later one.
    """
    if snapshot.segment.version_file is None or store.head(commit_path(snapshot.version)) is not None:
        return None
    listing = list_log(store, first=0, upto=None)
    return None if any(commit.version >= snapshot.version for commit in listing.commits) else listing


def checkpoint_content(snapshot: Snapshot, *, now_ms: int) -> CheckpointContent:
    """The content of a checkpoint of `snapshot`, written now."""
    structs = CheckpointStructs.of(snapshot) if wants_structs(snapshot) else None
    as_json = snapshot.properties.checkpoint_stats_as_json or structs is None or not structs.holds_all_bounds
    expired_ms = snapshot.tombstone_retention_start_ms(now_ms=now_ms)
    return CheckpointContent(
        version=snapshot.version,
        protocol=snapshot.protocol,
        metadata=snapshot.metadata,
        set_transactions=tuple(snapshot.set_transactions.values()),
        domain_metadata=tuple(snapshot.domain_metadata.values()),
        files=snapshot.files,
        tombstones=snapshot.tombstones(after_ms=expired_ms),
        with_stats_json=as_json,
        parsed_fields=() if structs is None else structs.fields,
        parse=None if structs is None else structs.parse,
    )


def wants_structs(snapshot: Snapshot) -> bool:
    """Whether checkpoints have statistics as columns. See `delta.checkpoint.writeStatsAsStruct` under "Checkpoints".

    The default is false in the protocol, and true in Delta's own configuration. For a large table the columns double
    the work of a checkpoint, so they are written only if the property is set.
    """
    return snapshot.properties.checkpoint_stats_as_struct


# The version checksum of a snapshot. See "Version Checksum File" and "State Validation".
