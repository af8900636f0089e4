"""What one version gives a stream to read, file by file, in an order that never changes.

Positions in checkpoints count these files, so the order is the same as in delta-spark.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import pyarrow as pa

from anabranch.log.commits import Commit
from anabranch.log.file_columns import table_of_adds
from anabranch.protocol.actions import Action, AddCDCFile, AddFile, CommitInfo, RemoveFile
from anabranch.streaming.admission import Sizes
from anabranch.streaming.source_offset import BASE_INDEX


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class VersionFiles:
    """The files of one version, by index."""

    version: int
    is_snapshot: bool
    """Whether they are all files of the version, with which a stream begins, not those of its commit."""
    sizes: Sizes
    adds: pa.Table | None = None
    """`LIVE_FILE_SCHEMA`; None where changes are read from a commit."""
    changes: tuple[Action, ...] = ()
    """Of a commit whose changes are read."""
    info: CommitInfo | None = None
    timestamp_ms: int = 0
    """When the version was committed."""
    describes_anew: bool = False
    """Whether a stream that keeps a schema log has to stop before these files."""
    is_whole: bool = False
    """Whether its files make sense together only, as those that name the rows that went and came."""

    @property
    def size_bytes(self) -> int:
        return int(self.sizes.sum())

    def first_after(self, version: int, index: int) -> int:
        """The index of the first file behind a position."""
        if self.version > version or index == BASE_INDEX:
            return 0
        return min(max(index + 1, 0), len(self.sizes))

    def count_upto(self, version: int, index: int) -> int:
        """How many files lie at a position or before it."""
        if self.version < version:
            return len(self.sizes)
        return 0 if self.version > version else self.first_after(version, index)


def snapshot_files(version: int, files: pa.Table, *, timestamp_ms: int) -> VersionFiles:
    """All files of a version, the oldest first; those of one age by path."""
    order = [("modification_time", "ascending"), ("path", "ascending")]
    keys = pa.table({"modification_time": files["modification_time"], "path": files["path"].cast(pa.string())})
    ordered = files.take(pa.compute.sort_indices(keys, sort_keys=order)) if len(files) else files
    sizes = np.asarray(ordered["size"].to_numpy(), dtype=np.int64)
    return VersionFiles(version=version, is_snapshot=True, sizes=sizes, adds=ordered, timestamp_ms=timestamp_ms)


def added_files(commit: Commit, *, skipped: bool) -> VersionFiles:
    """The files with rows that a commit added; none of a commit that is skipped."""
    adds = [] if skipped else [each for each in commit.actions if isinstance(each, AddFile) and each.data_change]
    return VersionFiles(
        version=commit.version,
        is_snapshot=False,
        sizes=np.array([add.size for add in adds], dtype=np.int64),
        adds=table_of_adds(adds),
        timestamp_ms=commit.timestamp_ms,
    )


def changed_files(commit: Commit) -> VersionFiles:
    """The files that tell what a commit changed. See "Reader Requirements for AddCDCFile"."""
    told: list[Action] = [each for each in commit.actions if isinstance(each, AddCDCFile)]
    changes = told or [each for each in commit.actions if isinstance(each, AddFile | RemoveFile) and each.data_change]
    has_vectors = any(getattr(each, "deletion_vector", None) is not None for each in changes)
    return VersionFiles(
        version=commit.version,
        is_snapshot=False,
        sizes=np.array([getattr(each, "size", None) or 0 for each in changes], dtype=np.int64),
        changes=tuple(changes),
        info=commit.info,
        timestamp_ms=commit.timestamp_ms,
        is_whole=bool(told) or has_vectors,
    )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BatchPart:
    """Files of one version that a batch reads: those with an index from `first` on, `end` not among them."""

    files: VersionFiles
    first: int
    end: int
