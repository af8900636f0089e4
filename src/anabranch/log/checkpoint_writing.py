"""Checkpoints written: classic V1, and V2 with sidecars. See "Checkpoints" and "Checkpoint Specs"."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from anabranch.log.checkpoint_columns import REMOVE, action_columns, add_type, adds_column, removes_column
from anabranch.log.file_columns import LIVE_FILE_SCHEMA, TOMBSTONE_SCHEMA
from anabranch.log.last_checkpoint import LastCheckpoint, read_last_checkpoint, write_last_checkpoint
from anabranch.protocol.actions import (
    Action,
    CheckpointMetadata,
    DomainMetadata,
    Metadata,
    Protocol,
    SetTransaction,
    Sidecar,
)
from anabranch.protocol.log_paths import checkpoint_path, sidecar_path, v2_checkpoint_path
from anabranch.storage.log_store import LogStore

ROW_GROUP_ROWS = 1_000_000
SIDECAR_FILES = 500_000
"""File actions a sidecar; large enough that few are read, small enough to be read in parallel."""
BATCH_ROWS = 131_072

ParsedColumns = Callable[[pa.RecordBatch], dict[str, pa.Array]]
"""The `…_parsed` columns of some files."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointContent:
    """What a checkpoint of one version has to say: all actions that count at that version."""

    version: int
    protocol: Protocol
    metadata: Metadata
    set_transactions: Sequence[SetTransaction]
    domain_metadata: Sequence[DomainMetadata]
    adds: pa.Table
    """`LIVE_FILE_SCHEMA`."""
    tombstones: pa.Table
    """`TOMBSTONE_SCHEMA`, those that have not expired."""
    with_stats_json: bool
    parsed_fields: Sequence[pa.Field] = ()
    """Types of `stats_parsed` and `partitionValues_parsed`, if they are to be written."""
    parse: ParsedColumns | None = None

    @property
    def actions(self) -> list[Action]:
        """All but file actions."""
        return [self.protocol, self.metadata, *self.set_transactions, *self.domain_metadata]


def write_classic_checkpoint(store: LogStore, content: CheckpointContent) -> LastCheckpoint:
    """Write the V1 checkpoint of a version, then the hint to it. Raises `StorageError`.

    Two writers may do this for one version: each file is whole, and says the same.
    """
    data = _encode(content, content.actions, content.adds, content.tombstones)
    store.put(checkpoint_path(content.version), data)
    return _note(store, content, actions=len(content.actions), size_bytes=len(data))


def write_v2_checkpoint(
    store: LogStore, content: CheckpointContent, *, new_uuid: Callable[[], str], now_ms: int
) -> LastCheckpoint:
    """Write a UUID-named checkpoint with its sidecars, then the hint to it.

    `new_uuid` gives another UUID, in lower case with dashes, at each call. Raises `StorageError`.
    """
    sidecars = []
    for adds, tombstones in _portions(content.adds, content.tombstones):
        data = _encode(content, [], adds, tombstones)
        name = f"{new_uuid()}.parquet"
        store.put(sidecar_path(name), data)
        sidecars.append(Sidecar(path=name, size_in_bytes=len(data), modification_time=now_ms))
    size_bytes = sum(sidecar.size_in_bytes for sidecar in sidecars)
    about = CheckpointMetadata(
        version=content.version,
        tags={
            "sidecarNumActions": str(content.adds.num_rows + content.tombstones.num_rows),
            "sidecarSizeInBytes": str(size_bytes),
            "numOfAddFiles": str(content.adds.num_rows),
        },
    )
    actions = [about, *content.actions, *sidecars]
    data = _encode(content, actions, LIVE_FILE_SCHEMA.empty_table(), TOMBSTONE_SCHEMA.empty_table())
    store.put(v2_checkpoint_path(content.version, new_uuid(), "parquet"), data)
    return _note(store, content, actions=len(actions), size_bytes=size_bytes + len(data))


def _note(store: LogStore, content: CheckpointContent, *, actions: int, size_bytes: int) -> LastCheckpoint:
    hint = LastCheckpoint(
        version=content.version,
        size=actions + content.adds.num_rows + content.tombstones.num_rows,
        size_bytes=size_bytes,
        num_of_add_files=content.adds.num_rows,
    )
    known = read_last_checkpoint(store)
    # Another writer may be ahead of us. Pointing readers back would do no harm but cost them time.
    if known is None or known.version <= hint.version:
        write_last_checkpoint(store, hint)
    return hint


def _portions(adds: pa.Table, tombstones: pa.Table) -> Iterator[tuple[pa.Table, pa.Table]]:
    """Adds and tombstones in runs of at most `SIDECAR_FILES`."""
    no_adds, no_tombstones = adds.slice(0, 0), tombstones.slice(0, 0)
    for start in range(0, adds.num_rows, SIDECAR_FILES):
        yield adds.slice(start, SIDECAR_FILES), no_tombstones
    for start in range(0, tombstones.num_rows, SIDECAR_FILES):
        yield no_adds, tombstones.slice(start, SIDECAR_FILES)


def _encode(content: CheckpointContent, actions: Sequence[Action], adds: pa.Table, tombstones: pa.Table) -> bytes:
    """A Parquet file of these actions. What is no file comes first, in a row group of its own."""
    add = add_type(with_json=content.with_stats_json, parsed=content.parsed_fields)
    few = action_columns(actions) if actions else {}
    fields = [pa.field(name, column.type) for name, column in few.items()]
    schema = pa.schema([*fields, pa.field("add", add), pa.field("remove", REMOVE)])
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, schema, compression="snappy", write_statistics=_told_by_statistics(schema)) as writer:
        if few:
            writer.write_table(_padded(schema, few, len(actions)))
        for group in _groups(adds):
            chunks = [adds_column(batch, add, content.parse(batch) if content.parse else {}) for batch in group]
            writer.write_table(_padded(schema, {"add": pa.chunked_array(chunks, add)}, sum(map(len, chunks))))
        for group in _groups(tombstones):
            chunks = [removes_column(batch) for batch in group]
            writer.write_table(_padded(schema, {"remove": pa.chunked_array(chunks, REMOVE)}, sum(map(len, chunks))))
    return bytes(sink.getvalue())


def _groups(table: pa.Table) -> Iterator[list[pa.RecordBatch]]:
    """The rows, as lists of batches that become one row group each."""
    for start in range(0, table.num_rows, ROW_GROUP_ROWS):
        yield table.slice(start, ROW_GROUP_ROWS).to_batches(max_chunksize=BATCH_ROWS)


def _padded(schema: pa.Schema, columns: dict[str, pa.Array | pa.ChunkedArray], rows: int) -> pa.Table:
    """The columns that are there, and nulls for the others."""
    padded = [columns[field.name] if field.name in columns else pa.nulls(rows, field.type) for field in schema]
    return pa.Table.from_arrays(padded, schema=schema)


def _told_by_statistics(schema: pa.Schema) -> list[str]:
    """The leaves by which a reader tells row groups apart; the least and greatest of the others help nobody."""
    leaves = {
        "add": "add.path",
        "remove": "remove.path",
        "protocol": "protocol.minReaderVersion",
        "metaData": "metaData.id",
        "txn": "txn.appId",
        "domainMetadata": "domainMetadata.domain",
        "sidecar": "sidecar.path",
        "checkpointMetadata": "checkpointMetadata.version",
    }
    return [leaf for name, leaf in leaves.items() if name in schema.names]
