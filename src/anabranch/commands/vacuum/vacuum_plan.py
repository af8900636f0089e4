"""The plan of a VACUUM, and its deletion: old files that are not needed, and directories that are empty then."""

from __future__ import annotations

import dataclasses
import logging
from collections import deque
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor

import pyarrow as pa
import pyarrow.compute as pc

from anabranch.clock import Clock
from anabranch.commands.vacuum.needed_files import NeededFiles
from anabranch.errors.environment import StorageError
from anabranch.errors.maintenance import VacuumIncompleteError
from anabranch.progress.progress_events import add_done, begin_phase
from anabranch.storage.file_tree import FAILURES_MAX, Deletion
from anabranch.storage.log_store import LogStore, split_path


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class VacuumPlan:
    """The files and directories that VACUUM deletes."""

    files: pa.Table
    """`TREE_SCHEMA`, by path."""
    empty_directories: tuple[str, ...] = ()
    """Directories that were empty when they were listed. Deepest first."""
    emptied_directories: tuple[str, ...] = ()
    """Directories that are empty once the files are deleted. Deepest first."""
    num_directories: int = 0
    """The number of all directories, including that of the table."""

    @property
    def paths(self) -> list[str]:
        """The paths that a dry run lists."""
        return [*self.files["path"].to_pylist(), *reversed(self.empty_directories)]

    @property
    def size_bytes(self) -> int:
        return int(pc.sum(self.files["size_bytes"]).as_py() or 0)


def plan_vacuum(listed: pa.Table, needed: NeededFiles, *, cutoff_ms: int) -> VacuumPlan:
    """Plan the deletion of all listed files (`TREE_SCHEMA`) that are older than `cutoff_ms` and not needed.

    A younger file may be part of a commit that is still being made, and a younger directory may be about to get a file.
    """
    is_old = pc.less(listed["modified_ms"], cutoff_ms)
    is_file = pc.invert(listed["is_directory"])
    goes = pc.and_(pc.and_(is_old, is_file), pc.invert(needed.among(listed["path"])))
    directories = listed.filter(listed["is_directory"])
    ages = dict(zip(directories["path"].to_pylist(), directories["modified_ms"].to_pylist(), strict=True))
    removable = {path for path, modified_ms in ages.items() if modified_ms < cutoff_ms}
    empty = _without_content(ages, removable, _directories_of(listed.filter(is_file)["path"]))
    stay = _directories_of(listed.filter(pc.and_(is_file, pc.invert(goes)))["path"]) if ages else set()
    emptied = _without_content(ages, removable, stay)
    empty_before = frozenset(empty)
    return VacuumPlan(
        files=listed.filter(goes).sort_by("path"),
        empty_directories=tuple(empty),
        emptied_directories=tuple(path for path in emptied if path not in empty_before),
        num_directories=len(ages) + 1,
    )


def _directories_of(paths: pa.ChunkedArray) -> set[str]:
    """The directories of the files, and all directories above these."""
    directories = set[str]()
    for directory in pc.unique(pc.replace_substring_regex(paths, "/?[^/]*$", "")).to_pylist():
        above = directory
        while above and above not in directories:
            directories.add(above)
            above = split_path(above)[0]
    return directories


def _without_content(directories: Iterable[str], removable: set[str], with_files: set[str]) -> list[str]:
    """The removable directories that hold no file and no directory that stays, deepest first."""
    stay, empty = set(with_files), list[str]()
    for path in sorted(directories, key=lambda path: (path.count("/"), path), reverse=True):
        if path in removable and path not in stay:
            empty.append(path)
        else:
            stay.add(split_path(path)[0])
    return empty


# The deletion: in batches, several at once.


LOGGER = logging.getLogger("anabranch.vacuum")
BATCH_FILES = 1000
"""The limit of object stores for one request."""
PROGRESS_MS = 10_000


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Cleared:
    """The numbers of deleted files and directories."""

    num_files: int
    """Deleted files and directories that were empty before, which Delta counts as files."""
    num_emptied_directories: int


def clear(store: LogStore, plan: VacuumPlan, *, clock: Clock, threads: int, table: str) -> Cleared:
    """Delete as planned. After a failure it continues with other files; after many it stops.

    Raises `VacuumIncompleteError`. If it is stopped, VACUUM can be run again: only planned files are deleted.
    """
    deletion = delete_files(store, plan.files["path"], clock=clock, threads=threads, table=table)
    if deletion.failures:
        first = deletion.failures[0]
        raise VacuumIncompleteError(
            table=table, deleted=deletion.count, planned=len(plan.files), path=first.path, cause=first.cause
        )
    were_empty = sum(_remove(store, path) for path in plan.empty_directories)
    emptied = sum(_remove(store, path) for path in plan.emptied_directories)
    return Cleared(num_files=deletion.count + were_empty, num_emptied_directories=emptied)


def delete_files(store: LogStore, paths: pa.ChunkedArray, *, clock: Clock, threads: int, table: str) -> Deletion:
    """Delete files and log the progress from time to time."""
    done, logged_ms = Deletion(), clock.now_ms()
    running: deque[Future[Deletion]] = deque()
    with ThreadPoolExecutor(max_workers=threads, thread_name_prefix="anabranch-vacuum") as pool:
        try:
            begin_phase("delete files", files=len(paths))
            for start in range(0, len(paths), BATCH_FILES):
                running.append(pool.submit(store.delete_many, paths.slice(start, BATCH_FILES).to_pylist()))
                if len(running) >= 2 * threads:
                    done += _ended(running)
                if len(done.failures) >= FAILURES_MAX:
                    break
                if clock.now_ms() - logged_ms >= PROGRESS_MS:
                    logged_ms = clock.now_ms()
                    LOGGER.info("%s: VACUUM has deleted %d of %d files", table, done.count, len(paths))
            while running:
                done += _ended(running)
        finally:
            for waiting in running:
                waiting.cancel()
    return done


def _ended(running: deque[Future[Deletion]]) -> Deletion:
    """The result of the oldest request, which the progress counts."""
    deletion = running.popleft().result()
    add_done(files=deletion.count)
    return deletion


def _remove(store: LogStore, directory: str) -> bool:
    """Remove an empty directory. One that cannot be removed does no harm."""
    try:
        return store.remove_directory(directory)
    except StorageError:
        LOGGER.warning("an empty directory stays", exc_info=True)
        return False
