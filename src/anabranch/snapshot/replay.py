"""Replaying commits on the state of a version gives the next state. See "Action Reconciliation"."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Mapping
from types import MappingProxyType

import pyarrow.compute as pc

from anabranch.errors.base import DeltaError
from anabranch.errors.log import CorruptCheckpointError, CorruptCommitError
from anabranch.log.checkpoint_reading import Checkpoint, read_checkpoint
from anabranch.log.commit_files import read_actions
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
from anabranch.snapshot.reconciliation import FileReconciler, Tombstones
from anabranch.storage.log_store import LogStore


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
            files=self._base.files.apply(changes),
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
