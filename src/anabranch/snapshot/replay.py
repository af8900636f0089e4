"""Replaying commits on the state of a version gives the next state; of a logical file the newest action counts.

See "Action Reconciliation".
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.cached_property import cached_property
from anabranch.errors.base import DeltaError
from anabranch.errors.log import CorruptCheckpointError, CorruptCommitError
from anabranch.log.checkpoint_reading import Checkpoint, read_checkpoint
from anabranch.log.commit_files import read_actions
from anabranch.log.file_columns import (
    TOMBSTONE_SCHEMA,
    logical_keys,
    logical_keys_of,
    table_of_adds,
    table_of_removes,
)
from anabranch.log.log_segment import CommitFile, CompactedFile, LogSegment, find_segment, list_log
from anabranch.protocol.actions import (
    Action,
    AddFile,
    CommitInfo,
    DomainMetadata,
    Metadata,
    Protocol,
    RemoveFile,
    SetTransaction,
)
from anabranch.snapshot.live_files import FileBlock, FileRows, LiveFiles
from anabranch.storage.log_store import LogStore

PENDING_MAX = 50_000
"""File actions that are objects before they are converted to columns; a commit may have millions."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FileChanges:
    """The changes of consecutive commits to the files of a table. No logical file occurs twice."""

    adds: pa.Table
    """Files added and still live, with the columns of `LIVE_FILE_SCHEMA`."""
    removes: pa.Table
    """Files removed and not added again, with the columns of `TOMBSTONE_SCHEMA`."""

    @property
    def count(self) -> int:
        return int(self.adds.num_rows + self.removes.num_rows)


class FileReconciler:
    """Receives the file actions of consecutive commits in order and keeps the newest of each logical file.

    At most `PENDING_MAX` actions are objects at a time, so that most of the memory needed is that of the columns.
    """

    def __init__(self) -> None:
        self._pending: dict[tuple[str, str | None], AddFile | RemoveFile] = {}
        self._flushed: list[FileChanges] = []

    def take(self, action: AddFile | RemoveFile) -> None:
        key = action.key
        self._pending.pop(key, None)
        self._pending[key] = action
        if len(self._pending) >= PENDING_MAX:
            self._flush()

    def changes(self) -> FileChanges:
        """The net changes of all actions received so far."""
        if self._pending or not self._flushed:
            self._flush()
        if len(self._flushed) > 1:
            self._flushed = [_newest_of(self._flushed)]
        return self._flushed[0]

    def _flush(self) -> None:
        actions = self._pending.values()
        self._flushed.append(
            FileChanges(
                adds=table_of_adds([action for action in actions if isinstance(action, AddFile)]),
                removes=table_of_removes([action for action in actions if isinstance(action, RemoveFile)]),
            )
        )
        self._pending = {}


def _newest_of(batches: list[FileChanges]) -> FileChanges:
    """The net changes of batches, oldest first, each without a logical file that occurs twice."""
    adds = pa.concat_tables([batch.adds for batch in batches])
    removes = pa.concat_tables([batch.removes for batch in batches])
    generations = np.concatenate(
        [np.full(batch.adds.num_rows, number) for number, batch in enumerate(batches)]
        + [np.full(batch.removes.num_rows, number) for number, batch in enumerate(batches)]
    )
    keys = logical_keys_of(adds, removes)
    # A key occurs once in a batch, so that (key, generation) is unique, and the newest row of a key is
    # the one with its largest generation.
    codes = keys.combine_chunks().dictionary_encode().indices.to_numpy(zero_copy_only=False)
    newest = np.full(int(codes.max()) + 1, -1, dtype=np.int64)
    np.maximum.at(newest, codes, generations)
    kept = newest[codes] == generations
    if kept.all():
        return FileChanges(adds=adds, removes=removes)
    return FileChanges(
        adds=adds.filter(pa.array(kept[: adds.num_rows])), removes=removes.filter(pa.array(kept[adds.num_rows :]))
    )


def no_tombstones() -> pa.Table:
    """An empty table of tombstones."""
    return TOMBSTONE_SCHEMA.empty_table()


def without_keys(table: pa.Table, keys: pa.ChunkedArray | pa.Array) -> pa.Table:
    """The rows whose logical key is not in `keys`."""
    if len(keys) == 0 or table.num_rows == 0:
        return table
    matches = pc.is_in(logical_keys(table), value_set=keys)
    return table.filter(pc.invert(matches))


# Removed files, which VACUUM and checkpoints need. See "Action Reconciliation".


LAYERS_MAX = 64
"""Commits that are kept apart before they are merged, which bounds the memory of a table open for long."""


class Tombstones:
    """The tombstones of one version. Immutable; computed at first use, since reading needs none."""

    def __init__(self, load: Callable[[], pa.Table] = no_tombstones, layers: tuple[FileChanges, ...] = ()) -> None:
        self._load = load
        self._layers = layers

    @cached_property
    def table(self) -> pa.Table:
        """One row per logical file, with the columns of `TOMBSTONE_SCHEMA`."""
        if not self._layers:
            return self._load()
        # Keys of all tombstones are compared once, not once per commit: a table may have many.
        changes = _newest_of(list(self._layers))
        keys = logical_keys_of(changes.adds, changes.removes)
        return pa.concat_tables([without_keys(self._load(), keys), changes.removes]).combine_chunks()

    def apply(self, changes: FileChanges) -> Tombstones:
        """The tombstones after these changes."""
        if not changes.count:
            return self
        if len(self._layers) >= LAYERS_MAX or "table" in vars(self):
            merged = self.table
            return Tombstones(lambda: merged, (changes,))
        return Tombstones(self._load, (*self._layers, changes))

    def retained(self, *, after_ms: int) -> pa.Table:
        """The tombstones removed after `after_ms`; one without a time counts as removed at the epoch, as in Delta."""
        table = self.table
        removed_at = pc.fill_null(table["deletion_timestamp"], 0)
        return table.filter(pc.greater(removed_at, after_ms))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TableState:
    """The state after replaying a log. `protocol` and `metadata` are None only where the log is damaged."""

    protocol: Protocol | None
    metadata: Metadata | None
    files: LiveFiles
    tombstones: Tombstones
    set_transactions: Mapping[str, SetTransaction]
    domain_metadata: Mapping[str, DomainMetadata]
    info: CommitInfo | None = None
    """The `commitInfo` of the last file replayed, if it was a commit."""


EMPTY_STATE = TableState(
    protocol=None,
    metadata=None,
    files=LiveFiles(),
    tombstones=Tombstones(),
    set_transactions=MappingProxyType({}),
    domain_metadata=MappingProxyType({}),
)


class Replay:
    """Applies the actions of consecutive commits, in order, to a state."""

    def __init__(self, base: TableState) -> None:
        self._base = base
        self._protocol = base.protocol
        self._metadata = base.metadata
        self._set_transactions = dict(base.set_transactions)
        self._domain_metadata = dict(base.domain_metadata)
        self._files = FileReconciler()
        self._info: CommitInfo | None = None

    def begin_commit(self) -> None:
        """Start the next version, to which the following actions belong."""
        self._info = None

    def take(self, action: Action) -> None:
        match action:
            case AddFile() | RemoveFile():
                self._files.take(action)
            case CommitInfo():
                self._info = self._info or action
            case SetTransaction():
                self._set_transactions[action.app_id] = action
            case DomainMetadata(removed=True):
                self._domain_metadata.pop(action.domain, None)
            case DomainMetadata():
                self._domain_metadata[action.domain] = action
            case Metadata():
                self._metadata = action
            case Protocol():
                self._protocol = action
            case _:
                # Change data files are not part of a version, and the actions of V2 checkpoints are not
                # part of commits.
                pass

    def state(self) -> TableState:
        changes = self._files.changes()
        return TableState(
            protocol=self._protocol,
            metadata=self._metadata,
            files=self._base.files.apply(changes.adds, changes.removes),
            tombstones=self._base.tombstones.apply(changes),
            set_transactions=MappingProxyType(self._set_transactions),
            domain_metadata=MappingProxyType(self._domain_metadata),
            info=self._info,
        )


# Reading the state of a version from log files.


SKIPPED_MAX = 16
"""Damaged checkpoints and compactions that are skipped one by one, before only commits are read."""


def load_newest(store: LogStore, segment: LogSegment, *, upto: int | None = None) -> tuple[LogSegment, TableState]:
    """The state of `segment`, which `find_segment` returned for `upto`, with the segment that was replayed.

    A checkpoint or a compaction that cannot be read is skipped where older files can replace it; where they
    cannot, its error is raised.
    """
    unusable: frozenset[str] = frozenset()
    for skipped in itertools.count(1):
        try:
            return segment, load_segment(store, segment)
        except (CorruptCheckpointError, CorruptCommitError) as error:
            damaged = _damaged(segment, error)
            if not damaged or skipped > SKIPPED_MAX:
                raise
            unusable |= damaged if skipped < SKIPPED_MAX else _all_but_commits(store, upto=upto)
            segment = _segment_without(store, upto=upto, unusable=unusable, error=error)
    raise AssertionError("the count has no end")


def load_segment(store: LogStore, segment: LogSegment) -> TableState:
    """The state after replaying the files of `segment`."""
    base = EMPTY_STATE if segment.checkpoint is None else _state_of(read_checkpoint(store, segment.checkpoint))
    state = advance(store, base, segment.steps())
    if segment.compactions:
        _check_paths_live_once(state.files, segment, table=store.root)
    return state


def _check_paths_live_once(files: LiveFiles, segment: LogSegment, *, table: str) -> None:
    """Check that no path is live twice: a compaction that lacks a removal would bring back deleted rows.

    Raises `CorruptCommitError` for the newest compaction, so that it is skipped, and then the next one if needed.
    """
    columns = files.columns("path", "deletion_vector")
    vectors = columns["deletion_vector"]
    if vectors.null_count == len(vectors):
        return
    paths = pc.value_counts(columns["path"].combine_chunks())
    repeated = paths.field("values").filter(pc.greater(paths.field("counts"), 1))
    if len(repeated):
        newest = segment.compactions[-1]
        reason = f"it leaves {repeated[0].as_py()} live under two deletion vectors"
        raise CorruptCommitError(table=table, version=newest.last, path=newest.file.path, reason=reason)


def advance(store: LogStore, base: TableState, steps: Iterable[CommitFile | CompactedFile]) -> TableState:
    """The state after `steps`, which continue `base`. Raises `CorruptCommitError`, `StorageError`."""
    return state_after(base, read_actions(store, steps))


def state_after(base: TableState, steps: Iterable[tuple[object, Iterable[Action]]]) -> TableState:
    """The state after the actions of these steps, which continue `base`."""
    replay = Replay(base)
    for _, actions in steps:
        replay.begin_commit()
        for action in actions:
            replay.take(action)
    return replay.state()


def _damaged(segment: LogSegment, error: CorruptCheckpointError | CorruptCommitError) -> frozenset[str]:
    """The damaged files that others may replace; none where a commit is damaged."""
    if isinstance(error, CorruptCheckpointError):
        return frozenset(file.path for file in segment.checkpoint.files) if segment.checkpoint else frozenset()
    return frozenset(compaction.file.path for compaction in segment.compactions if compaction.file.path == error.path)


def _all_but_commits(store: LogStore, *, upto: int | None) -> frozenset[str]:
    listing = list_log(store, first=0, upto=upto)
    checkpoints = {file.path for checkpoint in listing.checkpoints for file in checkpoint.files}
    return frozenset(checkpoints | {compaction.file.path for compaction in listing.compactions})


def _segment_without(
    store: LogStore, *, upto: int | None, unusable: frozenset[str], error: CorruptCheckpointError | CorruptCommitError
) -> LogSegment:
    try:
        return find_segment(store, upto=upto, unusable=unusable)
    except DeltaError:
        # The damaged file is the cause, and the missing older files only its consequence.
        raise error from None


def _state_of(checkpoint: Checkpoint) -> TableState:
    rows = FileRows(checkpoint.adds, checkpoint.load_stats)
    # If two writers wrote parts of the same checkpoint, these may have a file twice; reconciliation keeps it once.
    files = FileBlock(rows).without(rows.repeated())
    return TableState(
        protocol=checkpoint.protocol,
        metadata=checkpoint.metadata,
        files=LiveFiles([files]),
        tombstones=Tombstones(checkpoint.load_tombstones),
        set_transactions=MappingProxyType({action.app_id: action for action in checkpoint.set_transactions}),
        domain_metadata=MappingProxyType(
            {action.domain: action for action in checkpoint.domain_metadata if not action.removed}
        ),
    )
