"""Writing checkpoints: classic V1, and V2 with sidecars. See "Checkpoints" and "Checkpoint Specs"."""

from __future__ import annotations

import dataclasses
import io
import typing
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from anabranch.arrow_pool import release_unused
from anabranch.log.checkpoint_columns import REMOVE, action_columns, add_type, adds_column, removes_column
from anabranch.log.file_columns import TOMBSTONE_SCHEMA
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

ROW_GROUP_ROWS = 32_768
"""One row group is in memory at a time, with its statistics as text."""
DICTIONARY_BYTES_MAX = 64 << 10
"""Each path occurs once: a larger dictionary, as is the default, would be built in vain for every row group."""
SIDECAR_FILES = 500_000
"""File actions per sidecar: enough that few sidecars are read, few enough to read them in parallel."""

ParsedColumns = Callable[[pa.RecordBatch], dict[str, pa.Array]]
"""A function from rows of files to their `…_parsed` columns."""


class FilesToWrite(typing.Protocol):
    """The live files of a version."""

    @property
    def count(self) -> int:
        """The number of files."""

    def rows(self, positions: np.ndarray) -> pa.Table:
        """The files at these ascending positions, as in `LIVE_FILE_SCHEMA`."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointContent:
    """The content of a checkpoint: all actions in force at one version."""

    version: int
    protocol: Protocol
    metadata: Metadata
    set_transactions: Sequence[SetTransaction]
    domain_metadata: Sequence[DomainMetadata]
    files: FilesToWrite
    tombstones: pa.Table
    """Tombstones that have not expired, as in `TOMBSTONE_SCHEMA`."""
    with_stats_json: bool
    parsed_fields: Sequence[pa.Field] = ()
    """The types of `stats_parsed` and `partitionValues_parsed`, if they are to be written."""
    parse: ParsedColumns | None = None

    @property
    def actions(self) -> list[Action]:
        """All actions that are not files."""
        return [self.protocol, self.metadata, *self.set_transactions, *self.domain_metadata]


def write_classic_checkpoint(store: LogStore, content: CheckpointContent) -> LastCheckpoint:
    """Write the V1 checkpoint of a version, then the `_last_checkpoint` file. Raises `StorageError`.

    Two writers may do this for one version: each file is whole, with the same content.
    """
    data = _encode(content, content.actions, range(content.files.count), content.tombstones)
    store.put(checkpoint_path(content.version), data)
    return _write_hint(store, content, actions=len(content.actions), size_bytes=len(data))


def write_v2_checkpoint(
    store: LogStore, content: CheckpointContent, *, new_uuid: Callable[[], str], now_ms: int
) -> LastCheckpoint:
    """Write a UUID-named checkpoint with its sidecars, then the `_last_checkpoint` file.

    `new_uuid` returns a new UUID, in lower case with dashes, at each call. Raises `StorageError`.
    """
    sidecars = []
    for adds, tombstones in _slices(content):
        data = _encode(content, [], adds, tombstones)
        name = f"{new_uuid()}.parquet"
        store.put(sidecar_path(name), data)
        sidecars.append(Sidecar(path=name, size_in_bytes=len(data), modification_time=now_ms))
    size_bytes = sum(sidecar.size_in_bytes for sidecar in sidecars)
    checkpoint_metadata = CheckpointMetadata(
        version=content.version,
        tags={
            "sidecarNumActions": str(content.files.count + content.tombstones.num_rows),
            "sidecarSizeInBytes": str(size_bytes),
            "numOfAddFiles": str(content.files.count),
        },
    )
    actions = [checkpoint_metadata, *content.actions, *sidecars]
    data = _encode(content, actions, range(0), TOMBSTONE_SCHEMA.empty_table())
    store.put(v2_checkpoint_path(content.version, new_uuid(), "parquet"), data)
    return _write_hint(store, content, actions=len(actions), size_bytes=size_bytes + len(data))


def _write_hint(store: LogStore, content: CheckpointContent, *, actions: int, size_bytes: int) -> LastCheckpoint:
    hint = LastCheckpoint(
        version=content.version,
        size=actions + content.files.count + content.tombstones.num_rows,
        size_bytes=size_bytes,
        num_of_add_files=content.files.count,
    )
    existing = read_last_checkpoint(store)
    # Another writer may be ahead of us. An older hint would be correct, but slow readers down.
    if existing is None or existing.version <= hint.version:
        write_last_checkpoint(store, hint)
    return hint


def _slices(content: CheckpointContent) -> Iterator[tuple[range, pa.Table]]:
    """The positions of live files, and tombstones, in slices of at most `SIDECAR_FILES`."""
    for positions in _parts(range(content.files.count), SIDECAR_FILES):
        yield positions, content.tombstones.slice(0, 0)
    for start in range(0, content.tombstones.num_rows, SIDECAR_FILES):
        yield range(0), content.tombstones.slice(start, SIDECAR_FILES)


def _parts(positions: range, rows_max: int) -> Iterator[range]:
    return (positions[start : start + rows_max] for start in range(0, len(positions), rows_max))


def _encode(content: CheckpointContent, actions: Sequence[Action], adds: range, tombstones: pa.Table) -> bytes:
    """A Parquet file of these actions. Those that are not files are first, in a row group of their own.

    `adds` are positions in `content.files`.
    """
    add = add_type(with_json=content.with_stats_json, parsed=content.parsed_fields)
    non_files = action_columns(actions) if actions else {}
    fields = [pa.field(name, column.type) for name, column in non_files.items()]
    schema = pa.schema([*fields, pa.field("add", add), pa.field("remove", REMOVE)])
    sink = io.BytesIO()
    with pq.ParquetWriter(
        sink,
        schema,
        compression="snappy",
        dictionary_pagesize_limit=DICTIONARY_BYTES_MAX,
        write_statistics=_leaves_with_statistics(schema),
    ) as writer:
        if non_files:
            writer.write_table(_padded(schema, non_files, len(actions)))
        for positions in _parts(adds, ROW_GROUP_ROWS):
            writer.write_table(_adds(content, schema, positions))
            if len(positions) == ROW_GROUP_ROWS:
                release_unused()
        for positions in _parts(range(tombstones.num_rows), ROW_GROUP_ROWS):
            group = tombstones.slice(positions.start, len(positions))
            chunks = [removes_column(batch) for batch in group.to_batches()]
            writer.write_table(_padded(schema, {"remove": pa.chunked_array(chunks, REMOVE)}, len(positions)))
    return sink.getvalue()


def _adds(content: CheckpointContent, schema: pa.Schema, positions: range) -> pa.Table:
    kind = schema.field("add").type
    batches = content.files.rows(np.asarray(positions)).combine_chunks().to_batches()
    chunks = [adds_column(batch, kind, content.parse(batch) if content.parse else {}) for batch in batches]
    return _padded(schema, {"add": pa.chunked_array(chunks, kind)}, len(positions))


def _padded(schema: pa.Schema, columns: dict[str, pa.Array | pa.ChunkedArray], rows: int) -> pa.Table:
    """A table of these columns, with nulls in the other columns of the schema."""
    padded = [columns[field.name] if field.name in columns else pa.nulls(rows, field.type) for field in schema]
    return pa.Table.from_arrays(padded, schema=schema)


def _leaves_with_statistics(schema: pa.Schema) -> list[str]:
    """The leaves whose null counts show the kinds of actions in a row group. Statistics of others have no use."""
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
