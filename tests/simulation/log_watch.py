"""The judge that sees each change of the storage: the log that readers have, replayed naively, commit by commit.

The commits are kept here when they appear, so clean-up may take them from the storage. A commit that appears where the
log has gone on without it is in no version; whether its writer heard of that is judged in the end.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from typing import Protocol

from anabranch.deletion_vectors.vector_descriptors import vector_path
from anabranch.errors.base import DeltaError
from anabranch.log.file_columns import vector_ids
from anabranch.log.log_segment import find_segment
from anabranch.protocol.actions import DeletionVectorDescriptor
from anabranch.protocol.log_paths import commit_path
from anabranch.snapshot.snapshot import Snapshot
from anabranch.snapshot.snapshot_cache import SnapshotCache
from anabranch.storage.log_store import StoredFile, split_path
from anabranch.storage.memory_store import MemoryStore
from anabranch.transactions.commit.number_reservation import OPERATION as RESERVE_IDENTITY
from simulation.events import DAY_MS, duration
from simulation.scheduling import StorageClock
from simulation.simulated_store import Disk
from transactions.log_linter import COMMIT, ReplayedLog, judge_commit

Keys = frozenset[tuple[str, str | None]]
LOG_KEPT_MS = 30 * DAY_MS
FILES_KEPT_MS = 7 * DAY_MS


class Cause(Protocol):
    """An act of an actor."""

    versions: list[int]
    """The versions in the log that it has committed."""

    @property
    def keeps_removed_files(self) -> bool:
        """Whether it deletes removed files only after the retention of the table."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class KeptCommit:
    """A commit as it appeared, and the files that are live after it."""

    data: bytes
    cause: Cause
    live: Keys

    @property
    def only_reserves(self) -> bool:
        """Whether it only reserves numbers of identity columns, for a statement that is executed again."""
        return f'"operation":"{RESERVE_IDENTITY}"'.encode() in self.data


class LogWatch:
    """Watches one disk, and complains as soon as something is wrong."""

    def __init__(self, disk: Disk, clock: StorageClock, complain: Callable[[list[str]], None]) -> None:
        self.archive = MemoryStore(clock=clock)
        """Every commit of the log and every file that ever was."""
        self.commits: list[KeptCommit] = []
        self.reads = 0
        self.is_dropped = False
        self.expired_upto = -1
        """The newest version whose commit clean-up has deleted. Older ones may be left where a deletion failed."""
        self._removed_ms: dict[str, int] = {}
        """When files left the newest version."""
        self._appeared_ms: list[int] = []
        """When versions appeared."""
        self._disk = disk
        self._clock = clock
        self._complain = complain
        self._replayed = ReplayedLog(store=self.archive)
        self._checked: set[tuple[StoredFile, ...]] = set()
        """Checkpoints that have been read."""

    @property
    def newest_version(self) -> int:
        return len(self.commits) - 1

    def drop(self) -> None:
        """Delete everything, also behind a power loss. What is put from now on is in no table."""
        self.is_dropped = True
        for file in list(self._disk.list_tree()):
            self._disk.delete(file.path)
            self._disk.sync(split_path(file.path)[0])

    def created(self, path: str, data: bytes, cause: object) -> None:
        if self.is_dropped:
            return
        match = COMMIT.fullmatch(path)
        if match is None:
            if not path.startswith("_delta_log/"):
                self.archive.put(path, data)
            elif path.endswith(".compacted.json"):
                self._read_again(path)
            return
        if int(match[1]) != len(self.commits):
            return
        self._append(data, cause)  # type: ignore[arg-type]
        self._read_again(path)

    def replaced(self, path: str, cause: object) -> None:
        if self.is_dropped:
            return
        if not path.startswith("_delta_log/"):
            self.archive.put(path, self._disk.read(path))
        elif not path.endswith((".crc", ".clock")):
            self._read_again(path)

    def deleted(self, path: str, cause: object) -> None:
        if self.is_dropped:
            return
        match = COMMIT.fullmatch(path)
        if match is not None and int(match[1]) == self.newest_version:
            self._pop()
        elif match is not None:
            self.expired_upto = max(self.expired_upto, int(match[1]))
        self._complain(self._deleted_early(path, match, cause))
        if path.startswith("_delta_log/") and not path.endswith((".crc", ".clock")):
            self._read_again(path)
        else:
            self._check_files(f"without {path}")

    def lost_power(self) -> None:
        """The newest commits may be gone; whether one of them was acknowledged is judged in the end."""
        if self.is_dropped:
            return
        while self.commits and not self._is_on_disk(self.newest_version):
            self._pop()
        self._read_again("the power loss")

    def problems_of_snapshot(self, snapshot: Snapshot) -> list[str]:
        """What is wrong with a version as an actor read it."""
        if snapshot.version > self.newest_version:
            return [f"a reader has version {snapshot.version}, the newest is {self.newest_version}"]
        expected, read = self.commits[snapshot.version].live, keys_of(snapshot)
        if read == expected:
            return []
        return [f"a reader of version {snapshot.version} lacks {expected - read} and has {read - expected}"]

    def _append(self, data: bytes, cause: Cause) -> None:
        version = len(self.commits)
        self.archive.put(commit_path(version), data)
        before = {path for path, _ in self._replayed.live}
        problems = judge_commit(self._replayed, version, data)
        now_ms = self._clock.now_ms()
        self._appeared_ms = [*self._appeared_ms[:version], now_ms]
        self._removed_ms |= dict.fromkeys(before - {path for path, _ in self._replayed.live}, now_ms)
        cause.versions.append(version)
        self.commits.append(KeptCommit(data=data, cause=cause, live=frozenset(self._replayed.live)))
        self._complain([f"version {version}: {problem}" for problem in problems])
        self._check_files(f"after version {version}")

    def _deleted_early(self, path: str, commit: re.Match[str] | None, cause: Cause) -> list[str]:
        """Whether VACUUM and clean-up, by the retention of the table, delete what a reader may still want."""
        now_ms = self._clock.now_ms()
        if commit is not None and int(commit[1]) < self.newest_version:
            kept_ms = now_ms - self._appeared_ms[int(commit[1]) + 1]
            configuration = self._replayed.metadata["configuration"]  # type: ignore[index]
            # A commit that stalls before its put has an in-commit timestamp of before, and by that the log is kept.
            by_storage = configuration.get("delta.enableInCommitTimestamps") != "true"
            if by_storage and configuration.get("delta.logRetentionDuration") is None and kept_ms < LOG_KEPT_MS:
                return [f"{path} is deleted {duration(kept_ms)} after the next version"]
        if path in self._removed_ms and cause.keeps_removed_files:
            kept_ms = now_ms - self._removed_ms[path]
            if kept_ms < FILES_KEPT_MS:
                return [f"{path} is deleted {duration(kept_ms)} after it left the table"]
        return []

    def _pop(self) -> None:
        commit = self.commits.pop()
        commit.cause.versions.remove(len(self.commits))
        self.archive.delete(commit_path(len(self.commits)))
        self._replayed = ReplayedLog(store=self.archive)
        for version, kept in enumerate(self.commits):
            judge_commit(self._replayed, version, kept.data)

    def _is_on_disk(self, version: int) -> bool:
        path = commit_path(version)
        return self._disk.head(path) is not None and self._disk.read(path) == self.commits[version].data

    def _read_again(self, path: str) -> None:
        """A reader that comes now has the newest version. A checkpoint is read once, and again behind a deletion in it."""
        self.reads += 1
        try:
            segment = find_segment(self._disk)
            newest = f"readers have version {segment.version}, the newest is {self.newest_version}"
            problems = [] if segment.version == self.newest_version else [newest]
            checkpoint = None if segment.checkpoint is None else segment.checkpoint.files
            if "_sidecars" in path:
                self._checked.clear()
            if not problems and (checkpoint is None or checkpoint not in self._checked):
                problems = self.problems_of_snapshot(SnapshotCache(self._disk, self._clock).latest())
                self._checked |= set() if checkpoint is None else {checkpoint}
        except DeltaError as error:
            problems = [f"no reader can read the table: {type(error).__name__}: {error}"]
        self._complain([f"after {path}: {problem}" for problem in problems])

    def _check_files(self, when: str) -> None:
        """Every file of the newest version exists."""
        missing = [path for path in self._paths() if self._disk.head(path) is None]
        self._complain([f"{when}, version {self.newest_version} has {path}, which is gone" for path in missing])

    def _paths(self) -> list[str]:
        paths = []
        for (path, _), action in self._replayed.live.items():
            paths.append(path)
            vector = action.get("deletionVector")
            if vector is not None and vector["storageType"] == "u":
                descriptor = DeletionVectorDescriptor(
                    storage_type="u",
                    path_or_inline_dv=vector["pathOrInlineDv"],
                    offset=vector.get("offset"),
                    size_in_bytes=vector["sizeInBytes"],
                    cardinality=vector["cardinality"],
                )
                paths.append(vector_path(descriptor, table_root=self._disk.root))
        return paths


def keys_of(snapshot: Snapshot) -> Keys:
    """The live files of a version, by path and vector."""
    files = snapshot.files.columns("path", "deletion_vector")
    return frozenset(zip(files["path"].to_pylist(), vector_ids(files["deletion_vector"]).to_pylist(), strict=True))
