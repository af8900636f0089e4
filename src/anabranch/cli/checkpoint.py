"""`anabranch checkpoint`: writes a checkpoint of the newest version."""

from __future__ import annotations

import dataclasses
import time
import uuid
from typing import Any

from anabranch.cli.output import console, count, plain, size
from anabranch.clock import SystemClock
from anabranch.log.listing import list_log
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


def print_checkpoint(written: WrittenCheckpoint) -> None:
    """For people."""
    paths = ", ".join(plain(path) for path in written.paths)
    console().print(
        f"Wrote the checkpoint of version {written.version}: {paths}, {size(written.size_bytes)}, "
        f"{count(written.num_files, 'live file')}, in {written.seconds:.2f} s."
    )
