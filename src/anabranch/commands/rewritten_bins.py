"""One bin after another, or several at once: its files read, its rows written, and what the commit says of both."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import logging
from collections.abc import Callable, Sequence

import msgspec
import numpy as np
import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark import inheritable_thread_target
from pyspark.errors import PySparkException

from anabranch.commands.bin_packing import PlannedBin
from anabranch.commands.cluster_cubes import in_cube_of
from anabranch.commands.optimize_plan import Plan
from anabranch.commands.read import scan_request
from anabranch.commands.table_access import TableHandle
from anabranch.errors.base import DeltaError
from anabranch.log.file_columns import adds_of_table
from anabranch.protocol.actions import AddFile, RemoveFile
from anabranch.schema.row_tracking import RowTrackingColumns, row_tracking_columns
from anabranch.snapshot.snapshot import Snapshot
from anabranch.spark.engine import RewriteRequest
from anabranch.spark.row_tracking import with_tracking
from anabranch.transaction.commit_draft import ROWS_KEPT_TAG
from anabranch.transaction.hiding_rows import removal
from anabranch.transaction.proposed_commit import Bin
from anabranch.transaction.row_moves import Run, moved_to_tags, runs_of

LOGGER = logging.getLogger("anabranch.optimize")
TARGET_SIZE_TAG = "OPTIMIZE_TARGET_SIZE"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RewrittenBin:
    """A bin whose rows are written. Nothing is committed."""

    planned: PlannedBin
    adds: tuple[AddFile, ...]
    removes: tuple[RemoveFile, ...]
    part: Bin
    """What the commit is told of it."""


RewriteBin = Callable[[Snapshot, Plan, PlannedBin], RewrittenBin]


def rewrite_bins(
    handle: TableHandle,
    snapshot: Snapshot,
    plan: Plan,
    bins: Sequence[PlannedBin],
    rewrite: RewriteBin,
    *,
    threads_max: int,
    what: str,
) -> tuple[list[RewrittenBin], list[PlannedBin]]:
    """The bins that were written, in order, and those whose files were taken away while they were read.

    What one bin raises is raised, unless another writer is the reason: then the files it had are not live any more.
    """
    written: list[RewrittenBin] = []
    lost: list[PlannedBin] = []
    done_bytes, all_bytes = 0, sum(each.size_bytes for each in bins)
    with concurrent.futures.ThreadPoolExecutor(max(1, min(threads_max, len(bins))), "anabranch-bins") as pool:
        futures = [pool.submit(_with_job_group(handle, rewrite, snapshot, plan, each)) for each in bins]
        for each, future in zip(bins, futures, strict=True):
            try:
                written.append(future.result())
            except (DeltaError, PySparkException, Py4JError, OSError):
                if _are_live(handle, sources(snapshot, each)):
                    pool.shutdown(wait=False, cancel_futures=True)
                    raise
                lost.append(each)
            except BaseException:
                # The user asked to stop: bins whose turn has not come are not begun.
                pool.shutdown(wait=False, cancel_futures=True)
                raise
            done_bytes += each.size_bytes
            number = len(written) + len(lost)
            LOGGER.info(
                "%s: %s: bin %d of %d, %d of %d bytes", handle.label, what, number, len(bins), done_bytes, all_bytes
            )
    return written, lost


def _with_job_group(
    handle: TableHandle, rewrite: RewriteBin, snapshot: Snapshot, plan: Plan, planned: PlannedBin
) -> Callable[[], RewrittenBin]:
    """To run on another thread, as a part of what the user started on this one: cancelled and shown with it.

    Made for each bin: threads that shared the properties of their jobs would take each other's for their own.
    """
    run: Callable[[], RewrittenBin] = inheritable_thread_target(handle.session.spark)(
        lambda: rewrite(snapshot, plan, planned)
    )
    return run


def compacted(handle: TableHandle, snapshot: Snapshot, plan: Plan, planned: PlannedBin, *, target: int) -> RewrittenBin:
    """The rows of a bin as one file, with word of where each file's rows went."""
    adds = sources(snapshot, planned)
    request = rewrite_request(handle, snapshot, plan, planned)
    counts = request.row_counts
    result = handle.session.engine.rewrite(request)
    outputs = tuple(in_cube_of(adds, as_output(add, target=target)) for add in result.written.adds)
    runs: dict[int, list[Run]] = {}
    if counts is not None:
        shown = [counts[i] - hidden_rows(adds[i]) for i in result.order]
        found = runs_of(shown, [(add.path, result.written.num_rows) for add in outputs])
        runs = dict(zip(result.order, found, strict=True))
    now_ms = handle.session.clock.now_ms()
    removes = tuple(_removed(add, runs.get(i), now_ms) for i, add in enumerate(adds))
    return rewritten_bin(planned, outputs, removes)


def rewritten_bin(planned: PlannedBin, adds: tuple[AddFile, ...], removes: tuple[RemoveFile, ...]) -> RewrittenBin:
    """With its share of the commit's metrics."""
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


def rewrite_request(handle: TableHandle, snapshot: Snapshot, plan: Plan, planned: PlannedBin) -> RewriteRequest:
    """To write the rows of the bin's files into others, where they keep the ids that row tracking gave them."""
    everything = np.ones(len(planned.files), dtype=np.bool_)
    files = snapshot.files.table.take(pa.array(planned.files, pa.int64()))
    tracking = tracking_of(handle, snapshot)
    scan = dataclasses.replace(scan_request(handle, snapshot), files=files, prune=lambda _: everything)
    return RewriteRequest(
        scan=with_tracking(scan, tracking),
        row_counts=plan.files.row_counts(planned.files),
        properties=snapshot.properties,
        row_tracking=tracking,
        options=handle.storage,
    )


def tracking_of(handle: TableHandle, snapshot: Snapshot) -> RowTrackingColumns | None:
    """Where the rows of the table keep their ids; None where they have none. Raises `RowTrackingColumnsError`."""
    return row_tracking_columns(snapshot.protocol, snapshot.properties, snapshot.schema, table=handle.label)


def rows_kept_tags(handle: TableHandle, snapshot: Snapshot) -> dict[str, str]:
    """Whether the rows kept their ids, for the commit to say so. See "Writer Requirements for Row Tracking"."""
    return {} if tracking_of(handle, snapshot) is None else {ROWS_KEPT_TAG: "true"}


def sources(snapshot: Snapshot, planned: PlannedBin) -> list[AddFile]:
    """The files of the bin."""
    return adds_of_table(snapshot.files.table.take(pa.array(planned.files, pa.int64())), data_change=False)


def as_output(add: AddFile, *, target: int) -> AddFile:
    """A new file as one that brings no new row."""
    return msgspec.structs.replace(add, data_change=False, tags={**(add.tags or {}), TARGET_SIZE_TAG: str(target)})


def hidden_rows(add: AddFile) -> int:
    """How many rows of the file its vector hides."""
    return add.deletion_vector.cardinality if add.deletion_vector else 0


def _removed(add: AddFile, runs: Sequence[Run] | None, now_ms: int) -> RemoveFile:
    remove = removal(add, removed_at_ms=now_ms, data_change=False)
    if runs is None:
        return remove
    return msgspec.structs.replace(remove, tags={**(remove.tags or {}), **moved_to_tags(runs)})


def _are_live(handle: TableHandle, adds: Sequence[AddFile]) -> bool:
    """Whether these files are all in the newest version."""
    files = handle.latest().files
    return all(any(live.key == add.key for live in files.at_path(add.path)) for add in adds)
