"""Rewrites bins, one after another or several at once: their files are read, and their rows written to new files."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import logging
from collections.abc import Callable, Sequence

import msgspec
from py4j.protocol import Py4JError
from pyspark import inheritable_thread_target
from pyspark.errors import PySparkException

from anabranch.commands.optimize.bin_packing import PlannedBin
from anabranch.commands.optimize.cluster_cubes import in_cube_of
from anabranch.commands.optimize.optimize_plan import Plan
from anabranch.commands.read.read_table import scan_request
from anabranch.commands.table_access import TableRef
from anabranch.errors.base import DeltaError
from anabranch.log.file_columns import adds_of_table
from anabranch.progress.progress_events import add_done, begin_phase
from anabranch.protocol.actions import INSERTION_TIME, AddFile, RemoveFile
from anabranch.snapshot.snapshot import Snapshot
from anabranch.spark.engine import RewriteRequest
from anabranch.spark.gateway.callback_endpoint import as_part_of_callback
from anabranch.spark.rows.row_tracking import with_tracking
from anabranch.spark.session.session_settings import default_parallelism
from anabranch.transactions.proposed_commit import Bin
from anabranch.transactions.rows.deletion_vector_actions import removal
from anabranch.transactions.rows.row_map import Run, moved_to_tags, runs_of

LOGGER = logging.getLogger("anabranch.optimize")
TARGET_SIZE_TAG = "OPTIMIZE_TARGET_SIZE"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RewrittenBin:
    """A bin whose rows are written. Nothing is committed."""

    planned: PlannedBin
    adds: tuple[AddFile, ...]
    removes: tuple[RemoveFile, ...]
    part: Bin
    """The bin as the commit needs it."""


RewriteBin = Callable[[Snapshot, Plan, PlannedBin], RewrittenBin]


def rewrite_bins(
    table: TableRef,
    snapshot: Snapshot,
    plan: Plan,
    bins: Sequence[PlannedBin],
    rewrite: RewriteBin,
    *,
    threads_max: int,
    what: str,
) -> tuple[list[RewrittenBin], list[PlannedBin]]:
    """Rewrite the bins. Returns those that were written, in order, and those whose files were removed meanwhile.

    An error of one bin is raised unless another writer has caused it, by removing files of the bin.
    """
    written: list[RewrittenBin] = []
    lost: list[PlannedBin] = []
    begin_phase("rewrite files", files=sum(len(planned.files) for planned in bins))
    table.session.describe_jobs(f"{what} {table.label}")
    done_bytes, all_bytes = 0, sum(planned.size_bytes for planned in bins)
    with concurrent.futures.ThreadPoolExecutor(max(1, min(threads_max, len(bins))), "anabranch-bins") as pool:
        futures = [pool.submit(_with_job_group(table, rewrite, snapshot, plan, planned)) for planned in bins]
        for planned, future in zip(bins, futures, strict=True):
            try:
                written.append(future.result())
            except (DeltaError, PySparkException, Py4JError, OSError):
                if _are_live(table, source_files(snapshot, planned)):
                    pool.shutdown(wait=False, cancel_futures=True)
                    raise
                lost.append(planned)
            except BaseException:
                # The user has interrupted the statement: bins that are still waiting are not begun.
                pool.shutdown(wait=False, cancel_futures=True)
                raise
            done_bytes += planned.size_bytes
            add_done(files=len(planned.files), size_bytes=planned.size_bytes)
            number = len(written) + len(lost)
            LOGGER.info(
                "%s: %s: bin %d of %d, %d of %d bytes", table.label, what, number, len(bins), done_bytes, all_bytes
            )
    return written, lost


def _with_job_group(
    table: TableRef, rewrite: RewriteBin, snapshot: Snapshot, plan: Plan, planned: PlannedBin
) -> Callable[[], RewrittenBin]:
    """A function for another thread, whose Spark jobs are cancelled and shown with those of this thread.

    Each bin needs its own, because threads must not share the properties of their jobs.
    """
    run: Callable[[], RewrittenBin] = inheritable_thread_target(table.session.spark)(
        lambda: rewrite(snapshot, plan, planned)
    )
    return as_part_of_callback(table.session.spark, run)


def compact_bin(table: TableRef, snapshot: Snapshot, plan: Plan, planned: PlannedBin, *, target: int) -> RewrittenBin:
    """Rewrite the bin as one file, and record on the removes where each file's rows were written."""
    adds = source_files(snapshot, planned)
    request = rewrite_request(table, snapshot, plan, planned)
    counts = request.row_counts
    result = table.session.engine.rewrite(request)
    outputs = tuple(in_cube_of(adds, output_file(add, adds, target=target)) for add in result.written.adds)
    runs: dict[int, list[Run]] = {}
    if counts is not None:
        shown = [counts[i] - adds[i].num_hidden_rows for i in result.order]
        moved = runs_of(shown, [(add.path, result.written.num_rows) for add in outputs])
        runs = dict(zip(result.order, moved, strict=True))
    now_ms = table.session.clock.now_ms()
    removes = tuple(_removed(add, runs.get(i), now_ms) for i, add in enumerate(adds))
    return rewritten_bin(planned, outputs, removes)


def rewritten_bin(planned: PlannedBin, adds: tuple[AddFile, ...], removes: tuple[RemoveFile, ...]) -> RewrittenBin:
    """The bin with its share of the commit's metrics."""
    part = Bin(
        sources=frozenset(remove.key for remove in removes),
        outputs=frozenset(add.path for add in adds),
        metrics={
            "numAddedFiles": len(adds),
            "numRemovedFiles": len(removes),
            "numAddedBytes": sum(add.size for add in adds),
            "numRemovedBytes": sum(remove.size or 0 for remove in removes),
            "numDeletionVectorsRemoved": sum(remove.deletion_vector is not None for remove in removes),
        },
    )
    return RewrittenBin(planned=planned, adds=adds, removes=removes, part=part)


def rewrite_request(table: TableRef, snapshot: Snapshot, plan: Plan, planned: PlannedBin) -> RewriteRequest:
    """The request to write the rows of the bin's files to others, with the row ids that they have."""
    files = snapshot.files.rows(planned.files)
    tracking = snapshot.row_tracking
    scan = dataclasses.replace(scan_request(table, snapshot), files=files, prune=None)
    return RewriteRequest(
        scan=with_tracking(scan, tracking),
        row_counts=plan.files.row_counts(planned.files),
        properties=snapshot.properties,
        row_tracking=tracking,
        options=table.storage,
        tasks_max=default_parallelism(table.session.spark) // len(plan.bins),
    )


def source_files(snapshot: Snapshot, planned: PlannedBin) -> list[AddFile]:
    """The files of the bin."""
    return adds_of_table(snapshot.files.rows(planned.files), data_change=False)


def output_file(add: AddFile, replaced: Sequence[AddFile], *, target: int) -> AddFile:
    """The new file as an action that adds no rows, with the insertion time of the files that it replaces."""
    inserted = str(max(source.insertion_time for source in replaced))
    tags = {**(add.tags or {}), INSERTION_TIME: inserted, TARGET_SIZE_TAG: str(target)}
    return msgspec.structs.replace(add, data_change=False, tags=tags)


def _removed(add: AddFile, runs: Sequence[Run] | None, now_ms: int) -> RemoveFile:
    """The remove of a file, with the row map where it is known."""
    remove = removal(add, removed_at_ms=now_ms, data_change=False)
    if runs is None:
        return remove
    return msgspec.structs.replace(remove, tags={**(remove.tags or {}), **moved_to_tags(runs)})


def _are_live(table: TableRef, adds: Sequence[AddFile]) -> bool:
    """Whether all of these files are in the newest version."""
    files = table.latest().files
    return all(any(live.key == add.key for live in files.at_path(add.path)) for add in adds)
