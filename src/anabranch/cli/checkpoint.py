"""`anabranch checkpoint`: writes a checkpoint of the newest version, or a log compaction of several commits."""

from __future__ import annotations

import dataclasses
import time
import uuid
from typing import TYPE_CHECKING, Any

from anabranch.clock import SystemClock
from anabranch.errors.arguments import InvalidArgumentError
from anabranch.errors.log import VersionNotFoundError
from anabranch.log.log_compaction import LogCompaction, write_log_compaction
from anabranch.log.log_segment import list_log
from anabranch.progress.progress_events import begin_phase, reporting
from anabranch.protocol.features import check_writable
from anabranch.snapshot.checkpointing import write_checkpoint
from anabranch.snapshot.snapshot_cache import SnapshotCache
from anabranch.text_format import count, plain, size

if TYPE_CHECKING:
    from rich.console import Console


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class WrittenCheckpoint:
    """A checkpoint that was written."""

    table: str
    version: int
    paths: tuple[str, ...]
    size_bytes: int
    """Sidecars included."""
    num_actions: int
    num_files: int
    """Live files of the version."""
    seconds: float

    def document(self) -> dict[str, Any]:
        return {
            "table": self.table,
            "version": self.version,
            "paths": list(self.paths),
            "sizeInBytes": self.size_bytes,
            "numActions": self.num_actions,
            "numFiles": self.num_files,
            "seconds": round(self.seconds, 3),
        }

    def print_to(self, out: Console) -> None:
        paths = ", ".join(plain(path) for path in self.paths)
        out.print(
            f"Wrote the checkpoint of version {self.version}: {paths}, {size(self.size_bytes)}, "
            f"{count(self.num_files, 'live file')}, in {self.seconds:.2f} s."
        )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class WrittenCompaction:
    """A log compaction that was written, or that had been written before."""

    table: str
    compaction: LogCompaction

    def document(self) -> dict[str, Any]:
        return {
            "table": self.table,
            "first": self.compaction.first,
            "last": self.compaction.last,
            "path": self.compaction.path,
            "sizeInBytes": self.compaction.size_bytes,
            "numActions": self.compaction.num_actions,
            "wasThere": self.compaction.existed,
        }

    def print_to(self, out: Console) -> None:
        compaction = self.compaction
        verb = "There is already" if compaction.existed else "Wrote"
        out.print(
            f"{verb} {plain(compaction.path)}: {count(compaction.num_actions, 'action')} that replace the commits of "
            f"versions {compaction.first} to {compaction.last}, {size(compaction.size_bytes)}."
        )


def compact_log(snapshots: SnapshotCache, versions: str) -> WrittenCompaction:
    """Write a log compaction of the commits `FIRST..LAST`.

    Raises `InvalidArgumentError`, `VersionNotFoundError`, `UnsupportedFeatureError`, `StorageError`.
    """
    first, _, last = versions.partition("..")
    if not (first.isdecimal() and last.isdecimal() and int(first) < int(last)):
        problem = "it must name the first and the last of two or more commits, as in 4..6"
        raise InvalidArgumentError(argument="--log-compaction", value=versions, problem=problem)
    with reporting("checkpoint", snapshots.store.root):
        return _compact_log(snapshots, int(first), int(last))


def _compact_log(snapshots: SnapshotCache, first: int, last: int) -> WrittenCompaction:
    begin_phase("read the log")
    snapshot = snapshots.latest()
    check_writable(snapshot.protocol, table=snapshot.table_root)
    latest = snapshot.version
    commits = list_log(snapshots.store, first=0, upto=latest).commits
    earliest = commits[0].version if commits else latest
    for version in (first, last):
        if not earliest <= version <= latest:
            raise VersionNotFoundError(table=snapshot.table_root, version=version, earliest=earliest, latest=latest)
    begin_phase("compact commits", files=last - first + 1)
    compaction = write_log_compaction(snapshots.store, first=first, last=last)
    return WrittenCompaction(table=snapshots.store.root, compaction=compaction)


def checkpoint_newest(snapshots: SnapshotCache) -> WrittenCheckpoint:
    """Write the checkpoint and `_last_checkpoint`. Raises `UnsupportedFeatureError`, `StorageError`."""
    with reporting("checkpoint", snapshots.store.root):
        return _checkpoint_newest(snapshots)


def _checkpoint_newest(snapshots: SnapshotCache) -> WrittenCheckpoint:
    begin_phase("read the log")
    snapshot, store = snapshots.latest(), snapshots.store
    check_writable(snapshot.protocol, table=snapshot.table_root)
    begin_phase("write the checkpoint", files=snapshot.files.count)
    started = time.perf_counter()
    hint = write_checkpoint(store, snapshot, clock=SystemClock(), new_uuid=lambda: str(uuid.uuid4()))
    seconds = time.perf_counter() - started
    listing = list_log(store, first=snapshot.version, upto=snapshot.version)
    newest = max(listing.checkpoints, key=lambda checkpoint: max(file.modified_ms for file in checkpoint.files))
    return WrittenCheckpoint(
        table=store.root,
        version=snapshot.version,
        paths=tuple(file.path for file in newest.files),
        size_bytes=hint.size_bytes or sum(file.size_bytes for file in newest.files),
        num_actions=hint.size,
        num_files=snapshot.files.count,
        seconds=seconds,
    )
