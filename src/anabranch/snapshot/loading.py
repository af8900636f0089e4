"""From log files to the state of a version."""

from __future__ import annotations

from collections.abc import Iterable
from types import MappingProxyType

from anabranch.errors.base import DeltaError
from anabranch.errors.log import CorruptCheckpointError, CorruptCommitError
from anabranch.log.checkpoint_reading import Checkpoint, read_checkpoint
from anabranch.log.commits import read_actions
from anabranch.log.listing import CommitFile, CompactedFile
from anabranch.log.segment import LogSegment, find_segment
from anabranch.snapshot.file_block import FileBlock, FileRows
from anabranch.snapshot.live_files import LiveFiles
from anabranch.snapshot.replay import EMPTY_STATE, Replay, TableState
from anabranch.snapshot.tombstones import Tombstones
from anabranch.storage.log_store import LogStore

UNUSABLE_MAX = 16
"""Damaged checkpoints and compactions passed over before giving up."""


def load_newest(store: LogStore, *, upto: int | None = None) -> tuple[LogSegment, TableState]:
    """The segment of `upto`, or of the newest version, and the state it comes to.

    A checkpoint or a compaction that cannot be read is passed over where older files can stand in for
    it; the error about it is raised where they cannot.
    """
    unusable: frozenset[str] = frozenset()
    segment = find_segment(store, upto=upto)
    while True:
        try:
            return segment, load(store, segment)
        except CorruptCheckpointError as error:
            unusable |= {file.path for file in segment.checkpoint.files} if segment.checkpoint else {error.path}
            segment = _segment_without(store, upto=upto, unusable=unusable, error=error)
        except CorruptCommitError as error:
            if error.path not in {compaction.file.path for compaction in segment.compactions}:
                raise
            unusable |= {error.path}
            segment = _segment_without(store, upto=upto, unusable=unusable, error=error)


def load(store: LogStore, segment: LogSegment) -> TableState:
    """The state that the files of `segment` come to."""
    base = EMPTY_STATE if segment.checkpoint is None else _state_of(read_checkpoint(store, segment.checkpoint))
    return advance(store, base, segment.steps())


def advance(store: LogStore, base: TableState, steps: Iterable[CommitFile | CompactedFile]) -> TableState:
    """The state after `steps`, which follow upon `base`. Raises `CorruptCommitError`, `StorageError`."""
    replay = Replay(base)
    for _, actions in read_actions(store, steps):
        replay.begin_commit()
        for action in actions:
            replay.take(action)
    return replay.state()


def _segment_without(
    store: LogStore, *, upto: int | None, unusable: frozenset[str], error: CorruptCheckpointError | CorruptCommitError
) -> LogSegment:
    if len(unusable) > UNUSABLE_MAX:
        raise error
    try:
        return find_segment(store, upto=upto, unusable=unusable)
    except DeltaError:
        # What is damaged is the thing to tell; that nothing older is there follows from it.
        raise error from None


def _state_of(checkpoint: Checkpoint) -> TableState:
    rows = FileRows(checkpoint.adds, checkpoint.load_stats)
    return TableState(
        protocol=checkpoint.protocol,
        metadata=checkpoint.metadata,
        files=LiveFiles([FileBlock(rows)]),
        tombstones=Tombstones(checkpoint.load_tombstones),
        set_transactions=MappingProxyType({action.app_id: action for action in checkpoint.set_transactions}),
        domain_metadata=MappingProxyType(
            {action.domain: action for action in checkpoint.domain_metadata if not action.removed}
        ),
    )
