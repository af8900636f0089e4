"""What VACUUM has planned, deleted: in batches, several at a time."""

from __future__ import annotations

import dataclasses
import logging
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor

import pyarrow as pa

from anabranch.clock import Clock
from anabranch.commands.vacuum_plan import VacuumPlan
from anabranch.errors.storage import StorageError
from anabranch.errors.vacuum import VacuumIncompleteError
from anabranch.storage.file_tree import FAILURES_MAX, Deletion
from anabranch.storage.log_store import LogStore

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
