"""`anabranch checkpoint`: writes a checkpoint of the newest version, or what stands for several commits."""

from __future__ import annotations

import dataclasses
import time
import uuid
from typing import Any

from anabranch.cli.output import console, count, plain, size
from anabranch.clock import SystemClock
from anabranch.errors.arguments import InvalidArgumentError
from anabranch.log.listing import list_log
from anabranch.log.log_compaction import LogCompaction, write_log_compaction
from anabranch.protocol.features import check_writable
from anabranch.snapshot.checkpointing import write_checkpoint
from anabranch.snapshot.snapshot_cache import SnapshotCache


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class WrittenCheckpoint:
    """What was written."""

    version: int
    paths: tuple[str, ...]
    size_bytes: int
    """Sidecars included."""
    num_actions: int
    num_files: int
    """Live files of the version."""
    seconds: float

    def document(self, table: str) -> dict[str, Any]:
        """For programs."""
        return {
            "table": table,
            "version": self.version,
            "paths": list(self.paths),
            "sizeInBytes": self.size_bytes,
            "numActions": self.num_actions,
            "numFiles": self.num_files,
            "seconds": round(self.seconds, 3),
        }


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class WrittenCompaction:
    """A log compaction."""

    compaction: LogCompaction

    def document(self, table: str) -> dict[str, Any]:
        """For programs."""
        return {
            "table": table,
            "first": self.compaction.first,
            "last": self.compaction.last,
            "path": self.compaction.path,
            "sizeInBytes": self.compaction.size_bytes,
            "numActions": self.compaction.num_actions,
            "wasThere": self.compaction.existed,
        }


def compact_log(snapshots: SnapshotCache, versions: str) -> WrittenCompaction:
    """Write a log compaction of the commits `FIRST..LAST`.

    Raises `InvalidArgumentError`, `UnsupportedFeatureError`, `FileMissingError`, `StorageError`.
    """
    first, _, last = versions.partition("..")
    if not (first.isdecimal() and last.isdecimal() and int(first) < int(last)):
        problem = "it names the first and the last of two commits or more, as in 4..6"
        raise InvalidArgumentError(argument="--log-compaction", value=versions, problem=problem)
    snapshot = snapshots.latest()
    check_writable(snapshot.protocol, table=snapshot.table_root)
    return WrittenCompaction(compaction=write_log_compaction(snapshots.store, first=int(first), last=int(last)))


def checkpoint_newest(snapshots: SnapshotCache) -> WrittenCheckpoint:
    """Write the checkpoint and the hint to it. Raises `UnsupportedFeatureError`, `StorageError`."""
    snapshot, store = snapshots.latest(), snapshots.store
    check_writable(snapshot.protocol, table=snapshot.table_root)
    started = time.perf_counter()
    hint = write_checkpoint(store, snapshot, clock=SystemClock(), new_uuid=lambda: str(uuid.uuid4()))
    seconds = time.perf_counter() - started
    listing = list_log(store, first=snapshot.version, upto=snapshot.version)
    newest = max(listing.checkpoints, key=lambda one: max(file.modified_ms for file in one.files))
    return WrittenCheckpoint(
        version=snapshot.version,
        paths=tuple(file.path for file in newest.files),
        size_bytes=hint.size_bytes or sum(file.size_bytes for file in newest.files),
        num_actions=hint.size,
        num_files=snapshot.files.count,
        seconds=seconds,
    )


def print_written(written: WrittenCheckpoint | WrittenCompaction) -> None:
    """For people."""
    if isinstance(written, WrittenCompaction):
        made = written.compaction
        told = "There is already" if made.existed else "Wrote"
        console().print(
            f"{told} {plain(made.path)}: {count(made.num_actions, 'action')} in the place of the commits of versions "
            f"{made.first} to {made.last}, {size(made.size_bytes)}."
        )
        return
    paths = ", ".join(plain(path) for path in written.paths)
    console().print(
        f"Wrote the checkpoint of version {written.version}: {paths}, {size(written.size_bytes)}, "
        f"{count(written.num_files, 'live file')}, in {written.seconds:.2f} s."
    )
