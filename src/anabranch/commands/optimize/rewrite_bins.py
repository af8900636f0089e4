"""One bin after another, or several at once: its files read, its rows written, and what the commit says of both."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import logging
from collections.abc import Callable, Sequence

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from py4j.protocol import Py4JError
from pyspark import inheritable_thread_target
from pyspark.errors import PySparkException

from anabranch.commands.data_files import tracking_of
from anabranch.commands.optimize.optimize_plan import FilesInCubes, FilesToPlan, Plan, PlannedBin, pack_in_order
from anabranch.commands.optimize.optimize_settings import OptimizeSettings
from anabranch.commands.read.read_table import scan_request
from anabranch.commands.table_access import TableRef
from anabranch.errors.base import DeltaError
from anabranch.log.file_columns import FileMask, adds_of_table
from anabranch.protocol.actions import INSERTION_TIME, AddFile, RemoveFile
from anabranch.snapshot.snapshot import Snapshot
from anabranch.spark.engine import RewriteRequest
from anabranch.spark.gateway.answer_threads import as_part_of_answer
from anabranch.spark.rows.row_tracking import with_tracking
from anabranch.transaction.conflicts.row_map import Run, moved_to_tags, runs_of
from anabranch.transaction.proposed_commit import Bin
from anabranch.transaction.rows.deletion_vector_actions import removal

# Which files OPTIMIZE clusters: all that are not clustered yet, with those cubes that are still small.
#
# A cube is what one run put together: files between which the rows of one stretch of the curve are divided. Each file
# names its cube in a tag, and the columns by which it is ordered; the names of tags are Delta's. A cube that is large
# enough is stable: new rows are never merged into it, so that a run costs as much as what was written since the last.


CLUSTERING_PROVIDER = "liquid"
CUBE_TAG = "ZCUBE_ID"
COLUMNS_TAG = "ZCUBE_ZORDER_BY"
CURVE_TAG = "ZCUBE_ZORDER_CURVE"
HILBERT = "hilbert"
_TAGS = (CUBE_TAG, COLUMNS_TAG, CURVE_TAG)
NO_CUBE = -1


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Cubes:
    """To which cube the files of a snapshot belong: an entry for each file."""

    numbers: npt.NDArray[np.int64]
    """In the order of the ids of the cubes; NO_CUBE where there is none."""
    by_these_columns: FileMask
    """In a cube that is ordered by the columns asked for."""
    may_change: FileMask
    """Clustered by nobody else, and in no cube that is ordered by other columns."""

    @classmethod
    def of(cls, files: pa.Table, columns: Sequence[str]) -> Cubes:
        """`files` are those of a snapshot, `columns` the logical names by which they are to be ordered."""
        tags = files["tags"]
        cubes, ordered_by = (pc.map_lookup(tags, name, "first") for name in (CUBE_TAG, COLUMNS_TAG))
        ids = pc.if_else(pc.is_valid(ordered_by), cubes, None)
        known = sorted(pc.unique(ids.drop_null()).to_pylist())
        numbers = pc.fill_null(pc.index_in(ids, pa.array(known, pa.string())), NO_CUBE)
        lists = [text for text in pc.unique(ordered_by).to_pylist() if _names(text) == list(columns)]
        alike = pc.is_in(ordered_by, pa.array(lists, pa.string()))
        in_cube = np.asarray(pc.is_valid(ids).to_numpy(), dtype=np.bool_)
        by_these = in_cube & np.asarray(alike.to_numpy(), dtype=np.bool_)
        provider = pc.fill_null(files["clustering_provider"], CLUSTERING_PROVIDER)
        ours = np.asarray(pc.equal(provider, CLUSTERING_PROVIDER).to_numpy(), dtype=np.bool_)
        return cls(
            numbers=np.asarray(numbers.to_numpy(), dtype=np.int64),
            by_these_columns=by_these,
            may_change=ours & (~in_cube | by_these),
        )


def cluster_plan(files: FilesToPlan, cubes: Cubes, settings: OptimizeSettings, *, full: bool) -> Plan:
    """With `full`, files that others clustered, or that were clustered by other columns, are clustered anew."""
    chosen = chosen_files(files, cubes, stable_cube_bytes=settings.stable_cube_bytes, full=full)
    rows = np.flatnonzero(chosen)
    order = rows[np.lexsort((rows, cubes.numbers[rows], ~cubes.may_change[rows], files.partitions[rows]))]
    bins = pack_in_order(order, sizes=files.sizes, partitions=files.partitions, bin_bytes_max=settings.cube_bytes_max)
    gaining = tuple(each for each in bins if not _is_one_cube(each, cubes))
    return Plan(files=files, bins=gaining, cubes=_found(files, cubes, full=full))


def chosen_files(files: FilesToPlan, cubes: Cubes, *, stable_cube_bytes: int, full: bool) -> FileMask:
    """The files that may be written anew."""
    candidates = files.considered & cubes.may_change
    in_cube = candidates & (cubes.numbers != NO_CUBE)
    cube_bytes = np.zeros(int(cubes.numbers.max(initial=0)) + 1, dtype=np.int64)
    np.add.at(cube_bytes, cubes.numbers[in_cube], _shown_bytes(files)[in_cube])
    stable = in_cube & (cube_bytes[cubes.numbers] >= stable_cube_bytes)
    others = files.considered & ~cubes.may_change
    chosen: FileMask = (candidates & ~stable) | (others & full)
    return chosen


def in_cube_of(sources: Sequence[AddFile], output: AddFile) -> AddFile:
    """`output`, which has the rows of `sources`, as a part of their cube, if they are all parts of one."""
    found = {(each.clustering_provider, *((each.tags or {}).get(name) for name in _TAGS)) for each in sources}
    if len(found) > 1:
        return output
    ((provider, *values),) = found
    cube = {name: value for name, value in zip(_TAGS, values, strict=True) if value is not None}
    return msgspec.structs.replace(output, tags={**(output.tags or {}), **cube}, clustering_provider=provider)


def _is_one_cube(planned: PlannedBin, cubes: Cubes) -> bool:
    """Whether the files are ordered among each other already: nothing is gained by writing them anew."""
    files = list(planned.files)
    found = np.unique(cubes.numbers[files])
    return len(found) == 1 and found[0] != NO_CUBE and bool(cubes.may_change[files].all())


def _shown_bytes(files: FilesToPlan) -> npt.NDArray[np.int64]:
    """What of each file its vector does not hide, as far as rows are counted."""
    rows = np.maximum(files.rows, 1)
    shown = np.where(files.rows > 0, (files.rows - files.hidden) / rows, 1.0)
    return np.asarray(files.sizes * shown, dtype=np.int64)


def _found(files: FilesToPlan, cubes: Cubes, *, full: bool) -> FilesInCubes:
    counted = (cubes.numbers != NO_CUBE) if full else cubes.by_these_columns
    inside, outside = files.considered & counted, files.considered & ~counted
    return FilesInCubes(
        num_cubes=len(np.unique(cubes.numbers[inside])),
        num_files_in_cubes=int(inside.sum()),
        bytes_in_cubes=int(files.sizes[inside].sum()),
        num_other_files=int(outside.sum()),
        bytes_of_others=int(files.sizes[outside].sum()),
    )


def _names(text: str | None) -> list[str] | None:
    """The columns that a tag names; None where it does not say."""
    try:
        return msgspec.json.decode(text or "", type=list[str])
    except msgspec.DecodeError:
        return None


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
    table: TableRef,
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
        futures = [pool.submit(_with_job_group(table, rewrite, snapshot, plan, each)) for each in bins]
        for each, future in zip(bins, futures, strict=True):
            try:
                written.append(future.result())
            except (DeltaError, PySparkException, Py4JError, OSError):
                if _are_live(table, sources(snapshot, each)):
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
                "%s: %s: bin %d of %d, %d of %d bytes", table.label, what, number, len(bins), done_bytes, all_bytes
            )
    return written, lost


def _with_job_group(
    table: TableRef, rewrite: RewriteBin, snapshot: Snapshot, plan: Plan, planned: PlannedBin
) -> Callable[[], RewrittenBin]:
    """To run on another thread, as a part of what the user started on this one: cancelled and shown with it.

    Made for each bin: threads that shared the properties of their jobs would take each other's for their own.
    """
    run: Callable[[], RewrittenBin] = inheritable_thread_target(table.session.spark)(
        lambda: rewrite(snapshot, plan, planned)
    )
    return as_part_of_answer(table.session.spark, run)


def compacted(table: TableRef, snapshot: Snapshot, plan: Plan, planned: PlannedBin, *, target: int) -> RewrittenBin:
    """The rows of a bin as one file, with word of where each file's rows went."""
    adds = sources(snapshot, planned)
    request = rewrite_request(table, snapshot, plan, planned)
    counts = request.row_counts
    result = table.session.engine.rewrite(request)
    outputs = tuple(in_cube_of(adds, as_output(add, adds, target=target)) for add in result.written.adds)
    runs: dict[int, list[Run]] = {}
    if counts is not None:
        shown = [counts[i] - hidden_rows(adds[i]) for i in result.order]
        found = runs_of(shown, [(add.path, result.written.num_rows) for add in outputs])
        runs = dict(zip(result.order, found, strict=True))
    now_ms = table.session.clock.now_ms()
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


def rewrite_request(table: TableRef, snapshot: Snapshot, plan: Plan, planned: PlannedBin) -> RewriteRequest:
    """To write the rows of the bin's files into others, where they keep the ids that row tracking gave them."""
    everything = np.ones(len(planned.files), dtype=np.bool_)
    files = snapshot.files.table.take(pa.array(planned.files, pa.int64()))
    tracking = tracking_of(table, snapshot)
    scan = dataclasses.replace(scan_request(table, snapshot), files=files, prune=lambda _: everything)
    return RewriteRequest(
        scan=with_tracking(scan, tracking),
        row_counts=plan.files.row_counts(planned.files),
        properties=snapshot.properties,
        row_tracking=tracking,
        options=table.storage,
    )


def sources(snapshot: Snapshot, planned: PlannedBin) -> list[AddFile]:
    """The files of the bin."""
    return adds_of_table(snapshot.files.table.take(pa.array(planned.files, pa.int64())), data_change=False)


def as_output(add: AddFile, replaced: Sequence[AddFile], *, target: int) -> AddFile:
    """A new file with rows of those replaced, which brings no new row."""
    inserted = str(max(each.insertion_time for each in replaced))
    tags = {**(add.tags or {}), INSERTION_TIME: inserted, TARGET_SIZE_TAG: str(target)}
    return msgspec.structs.replace(add, data_change=False, tags=tags)


def hidden_rows(add: AddFile) -> int:
    """How many rows of the file its vector hides."""
    return add.deletion_vector.cardinality if add.deletion_vector else 0


def _removed(add: AddFile, runs: Sequence[Run] | None, now_ms: int) -> RemoveFile:
    remove = removal(add, removed_at_ms=now_ms, data_change=False)
    if runs is None:
        return remove
    return msgspec.structs.replace(remove, tags={**(remove.tags or {}), **moved_to_tags(runs)})


def _are_live(table: TableRef, adds: Sequence[AddFile]) -> bool:
    """Whether these files are all in the newest version."""
    files = table.latest().files
    return all(any(live.key == add.key for live in files.at_path(add.path)) for add in adds)
