"""The files of one version that a stream reads, in an order that never changes.

Positions in checkpoints count these files, so the order is the same as in delta-spark.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.log.commit_files import Commit
from anabranch.log.file_columns import LIVE_FILE_SCHEMA, adds_of_table, table_of_adds
from anabranch.log.log_segment import list_log
from anabranch.log.time_travel import monotonic_times
from anabranch.protocol.actions import Action, AddCDCFile, AddFile, CommitInfo, RemoveFile
from anabranch.snapshot.live_files import LiveFiles
from anabranch.storage.log_store import LogStore
from anabranch.streaming.admission import Sizes
from anabranch.streaming.source_offset import BASE_INDEX
from anabranch.streaming.source_options import SourceOptions


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class VersionFiles:
    """The files of one version, by index."""

    version: int
    is_snapshot: bool
    """Whether they are all files of the version, with which a stream begins, instead of those of its commit."""
    sizes: Sizes
    adds: pa.Table | None = None
    """`LIVE_FILE_SCHEMA`; None where changes are read from a commit."""
    changes: tuple[Action, ...] = ()
    """The actions of a commit whose changes are read."""
    info: CommitInfo | None = None
    timestamp_ms: int = 0
    """When the version was committed."""
    changes_metadata: bool = False
    """Whether a stream with a schema log has to stop before these files."""
    is_whole: bool = False
    """Whether one batch has to read all its files, since only together they show the changes."""

    @property
    def size_bytes(self) -> int:
        return int(self.sizes.sum())

    def first_after(self, version: int, index: int) -> int:
        """The index of the first file after a position."""
        if self.version > version or index == BASE_INDEX:
            return 0
        return min(max(index + 1, 0), len(self.sizes))

    def count_upto(self, version: int, index: int) -> int:
        """How many files are before or at a position."""
        if self.version < version:
            return len(self.sizes)
        return 0 if self.version > version else self.first_after(version, index)


def snapshot_files(version: int, files: LiveFiles, *, timestamp_ms: int) -> VersionFiles:
    """All files of a version, the oldest first; those of one age by path."""
    order = [("modification_time", "ascending"), ("path", "ascending")]
    keys = files.columns("modification_time", "path")
    ordered = files.rows(pa.compute.sort_indices(keys, sort_keys=order).to_numpy())
    sizes = np.asarray(ordered["size"].to_numpy(), dtype=np.int64)
    return VersionFiles(version=version, is_snapshot=True, sizes=sizes, adds=ordered, timestamp_ms=timestamp_ms)


def added_files(commit: Commit, *, skipped: bool) -> VersionFiles:
    """The files with rows that a commit added; none of a commit that is skipped."""
    adds = [] if skipped else [add for add in commit.actions if isinstance(add, AddFile) and add.data_change]
    return VersionFiles(
        version=commit.version,
        is_snapshot=False,
        sizes=np.array([add.size for add in adds], dtype=np.int64),
        adds=table_of_adds(adds),
        timestamp_ms=commit.timestamp_ms,
    )


def changed_files(commit: Commit) -> VersionFiles:
    """The files that show the changes of a commit. See "Reader Requirements for AddCDCFile"."""
    cdc_files: list[Action] = [action for action in commit.actions if isinstance(action, AddCDCFile)]
    changes = cdc_files or [
        action for action in commit.actions if isinstance(action, AddFile | RemoveFile) and action.data_change
    ]
    has_vectors = any(getattr(action, "deletion_vector", None) is not None for action in changes)
    return VersionFiles(
        version=commit.version,
        is_snapshot=False,
        sizes=np.array([getattr(action, "size", None) or 0 for action in changes], dtype=np.int64),
        changes=tuple(changes),
        info=commit.info,
        timestamp_ms=commit.timestamp_ms,
        is_whole=bool(cdc_files) or has_vectors,
    )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BatchPart:
    """The files of one version that a batch reads: those with an index from `first` to before `end`."""

    files: VersionFiles
    first: int
    end: int


# The files of a batch, for a scan or for the change data feed.


def live_files(parts: Sequence[BatchPart], options: SourceOptions) -> pa.Table:
    """The files of a batch of added rows, in order. `LIVE_FILE_SCHEMA`."""
    tables = [_sliced(part) for part in parts]
    files = pa.concat_tables(tables) if tables else LIVE_FILE_SCHEMA.empty_table()
    return files if options.exclude is None else _kept(files, options)


def timed_commits(store: LogStore, parts: Sequence[BatchPart], options: SourceOptions) -> Iterator[tuple[Commit, int]]:
    """Commits with the actions that a batch of changes reads, and their times in the history, in milliseconds.

    Files that existed at the start are added by the first version.
    """
    if not parts:
        return
    listing = list_log(store, first=0, upto=parts[-1].files.version)
    times = {time.version: time.timestamp_ms for time in monotonic_times(listing.commits)}
    for part in parts:
        files = part.files
        if files.adds is None:
            actions = files.changes[part.first : part.end]
        else:
            rows = adds_of_table(_sliced(part), data_change=True)
            actions = tuple(msgspec.structs.replace(add, stats=None) for add in rows)
        if options.exclude is not None:
            exclude = options.exclude
            actions = tuple(action for action in actions if exclude.search(getattr(action, "path", "")) is None)
        own = None if files.info is None else files.info.in_commit_timestamp
        at_ms = times.get(files.version, files.timestamp_ms) if own is None else own
        commit = Commit(
            version=files.version,
            actions=actions,
            info=files.info,
            timestamp_ms=files.timestamp_ms,
            modified_ms=files.timestamp_ms,
        )
        yield commit, at_ms


def _sliced(part: BatchPart) -> pa.Table:
    assert part.files.adds is not None
    return part.files.adds.slice(part.first, part.end - part.first)


def _kept(files: pa.Table, options: SourceOptions) -> pa.Table:
    assert options.exclude is not None
    mask = [options.exclude.search(path) is None for path in pc.cast(files["path"], pa.string()).to_pylist()]
    return files.filter(pa.array(mask, pa.bool_()))
