"""Commits over a state make the next state. See "Action Reconciliation"."""

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
from anabranch.log.listing import CommitFile, CompactedFile, list_log
from anabranch.log.segment import LogSegment, find_segment
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
    """What replaying a log comes to. `protocol` and `metadata` are missing where the log is damaged."""

    protocol: Protocol | None
    metadata: Metadata | None
    files: LiveFiles
    tombstones: Tombstones
    set_transactions: Mapping[str, SetTransaction]
    domain_metadata: Mapping[str, DomainMetadata]
    info: CommitInfo | None = None
    """Of the last commit replayed, if that was a commit."""


EMPTY_STATE = TableState(
    protocol=None,
    metadata=None,
    files=LiveFiles(),
    tombstones=Tombstones(),
    set_transactions=MappingProxyType({}),
    domain_metadata=MappingProxyType({}),
)


class Replay:
    """Takes the actions of consecutive commits, in order, on top of a state."""

    def __init__(self, base: TableState) -> None:
        self._base = base
        self._protocol = base.protocol
        self._metadata = base.metadata
        self._set_transactions = dict(base.set_transactions)
        self._domain_metadata = dict(base.domain_metadata)
        self._files = FileReconciler()
        self._info: CommitInfo | None = None

    def begin_commit(self) -> None:
        """What follows belongs to the next version."""
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
                # Change data files are no part of a version, and the actions of V2 checkpoints take no
                # part in the replay of commits.
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


# From log files to the state of a version.


PASSED_OVER_MAX = 16
"""Damaged checkpoints and compactions passed over, one after the other, before the commits alone are tried."""


def load_newest(store: LogStore, *, upto: int | None = None) -> tuple[LogSegment, TableState]:
    """The segment of `upto`, or of the newest version, and the state it comes to.

    A checkpoint or a compaction that cannot be read is passed over where older files can stand in for
    it; the error about it is raised where they cannot.
    """
    unusable: frozenset[str] = frozenset()
    segment = find_segment(store, upto=upto)
    for passed_over in itertools.count(1):
        try:
            return segment, load(store, segment)
        except (CorruptCheckpointError, CorruptCommitError) as error:
            damaged = _damaged(segment, error)
            if not damaged or passed_over > PASSED_OVER_MAX:
                raise
            unusable |= damaged if passed_over < PASSED_OVER_MAX else _all_but_commits(store, upto=upto)
            segment = _segment_without(store, upto=upto, unusable=unusable, error=error)
    raise AssertionError("the count has no end")


def load(store: LogStore, segment: LogSegment) -> TableState:
    """The state that the files of `segment` come to."""
    base = EMPTY_STATE if segment.checkpoint is None else _state_of(read_checkpoint(store, segment.checkpoint))
    state = advance(store, base, segment.steps())
    if segment.compactions:
        _check_paths_live_once(state.files, segment, table=store.root)
    return state


def _check_paths_live_once(files: LiveFiles, segment: LogSegment, *, table: str) -> None:
    """A compaction that leaves out a removal brings a file to life under two vectors, and so rows that are gone.

    Raises `CorruptCommitError` for the newest compaction, so that it is passed over, and the next if need be.
    """
    columns = files.columns("path", "deletion_vector")
    vectors = columns["deletion_vector"]
    if vectors.null_count == len(vectors):
        return
    path = pc.value_counts(columns["path"].combine_chunks())
    doubled = path.field("values").filter(pc.greater(path.field("counts"), 1))
    if len(doubled):
        newest = segment.compactions[-1]
        reason = f"it leaves {doubled[0].as_py()} live under two deletion vectors"
        raise CorruptCommitError(table=table, version=newest.last, path=newest.file.path, reason=reason)


def advance(store: LogStore, base: TableState, steps: Iterable[CommitFile | CompactedFile]) -> TableState:
    """The state after `steps`, which follow upon `base`. Raises `CorruptCommitError`, `StorageError`."""
    replay = Replay(base)
    for _, actions in read_actions(store, steps):
        replay.begin_commit()
        for action in actions:
            replay.take(action)
    return replay.state()


def _damaged(segment: LogSegment, error: CorruptCheckpointError | CorruptCommitError) -> frozenset[str]:
    """The files that others may stand in for; none where a commit is damaged."""
    if isinstance(error, CorruptCheckpointError):
        return frozenset(file.path for file in segment.checkpoint.files) if segment.checkpoint else frozenset()
    return frozenset(one.file.path for one in segment.compactions if one.file.path == error.path)


def _all_but_commits(store: LogStore, *, upto: int | None) -> frozenset[str]:
    listing = list_log(store, first=0, upto=upto)
    checkpoints = {file.path for checkpoint in listing.checkpoints for file in checkpoint.files}
    return frozenset(checkpoints | {one.file.path for one in listing.compactions})


def _segment_without(
    store: LogStore, *, upto: int | None, unusable: frozenset[str], error: CorruptCheckpointError | CorruptCommitError
) -> LogSegment:
    try:
        return find_segment(store, upto=upto, unusable=unusable)
    except DeltaError:
        # What is damaged is the thing to tell; that nothing older is there follows from it.
        raise error from None


def _state_of(checkpoint: Checkpoint) -> TableState:
    rows = FileRows(checkpoint.adds, checkpoint.load_stats)
    # Parts of two writers that wrote the same checkpoint may name a file twice. Reconciliation leaves it there once.
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
