"""What goes: files that are old and that nobody needs, and directories that are empty then."""

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
from anabranch.storage.file_tree import FAILURES_MAX, Deletion
from anabranch.storage.log_store import LogStore
from anabranch.storage.storage_paths import split_path


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class VacuumPlan:
    """What VACUUM deletes."""

    files: pa.Table
    """`TREE_SCHEMA`, by path."""
    empty_directories: tuple[str, ...] = ()
    """Nothing was in them when they were listed. Deepest first."""
    emptied_directories: tuple[str, ...] = ()
    """Nothing is in them once the files are gone. Deepest first."""
    num_directories: int = 0
    """Of all that were listed, the table's own counted in."""

    @property
    def paths(self) -> list[str]:
        """What a dry run names."""
        return [*self.files["path"].to_pylist(), *reversed(self.empty_directories)]

    @property
    def size_bytes(self) -> int:
        return int(pc.sum(self.files["size_bytes"]).as_py() or 0)


def plan_vacuum(listed: pa.Table, needed: NeededFiles, *, cutoff_ms: int) -> VacuumPlan:
    """Of what is listed (`TREE_SCHEMA`), all that is older than `cutoff_ms` and not needed.

    A young file may belong to a commit that has yet to land, and a young directory to a file that has yet to come.
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
    known = frozenset(empty)
    return VacuumPlan(
        files=listed.filter(goes).sort_by("path"),
        empty_directories=tuple(empty),
        emptied_directories=tuple(path for path in emptied if path not in known),
        num_directories=len(ages) + 1,
    )


def _directories_of(paths: pa.ChunkedArray) -> set[str]:
    """Those in which the files lie, and all above these."""
    found = set[str]()
    for directory in pc.unique(pc.replace_substring_regex(paths, "/?[^/]*$", "")).to_pylist():
        above = directory
        while above and above not in found:
            found.add(above)
            above = split_path(above)[0]
    return found


def _without_content(directories: Iterable[str], removable: set[str], with_files: set[str]) -> list[str]:
    """The removable directories that hold no file and no directory that stays, deepest first."""
    stay, found = set(with_files), list[str]()
    for path in sorted(directories, key=lambda path: (path.count("/"), path), reverse=True):
        if path in removable and path not in stay:
            found.append(path)
        else:
            stay.add(split_path(path)[0])
    return found


# What VACUUM has planned, deleted: in batches, several at a time.


LOGGER = logging.getLogger("anabranch.vacuum")
BATCH_FILES = 1000
"""As many as object stores take in one request."""
PROGRESS_MS = 10_000


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Cleared:
    """What is gone."""

    num_files: int
    """Directories that were empty to begin with are counted in, as Delta does."""
    num_emptied_directories: int


def clear(store: LogStore, plan: VacuumPlan, *, clock: Clock, threads: int, table: str) -> Cleared:
    """Delete as planned. One failure does not keep it from the other files; many do.

    Raises `VacuumIncompleteError`. Stopped anywhere, it has deleted nothing but what was to go, and may begin anew.
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
    """Delete files, telling from time to time how far it has come."""
    done, told_ms = Deletion(), clock.now_ms()
    running: deque[Future[Deletion]] = deque()
    with ThreadPoolExecutor(max_workers=threads, thread_name_prefix="anabranch-vacuum") as pool:
        try:
            for start in range(0, len(paths), BATCH_FILES):
                running.append(pool.submit(store.delete_many, paths.slice(start, BATCH_FILES).to_pylist()))
                if len(running) >= 2 * threads:
                    done += running.popleft().result()
                if len(done.failures) >= FAILURES_MAX:
                    break
                if clock.now_ms() - told_ms >= PROGRESS_MS:
                    told_ms = clock.now_ms()
                    LOGGER.info("%s: VACUUM has deleted %d of %d files", table, done.count, len(paths))
            while running:
                done += running.popleft().result()
        finally:
            for waiting in running:
                waiting.cancel()
    return done


def _remove(store: LogStore, directory: str) -> bool:
    """A directory that cannot be removed is in nobody's way."""
    try:
        return store.remove_directory(directory)
    except StorageError:
        LOGGER.warning("an empty directory stays", exc_info=True)
        return False
