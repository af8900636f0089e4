"""What OPTIMIZE, REORG … PURGE and VACUUM would do, by the plans that they make themselves."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.commands.optimize.bin_packing import PlannedBin
from anabranch.commands.optimize.cluster_cubes import Cubes, cluster_plan
from anabranch.commands.optimize.optimize_plan import FilesToPlan, compaction_plan, purge_plan
from anabranch.commands.optimize.optimize_settings import OptimizeSettings
from anabranch.commands.vacuum.needed_files import NeededFiles
from anabranch.protocol.data_paths import relative_path_column
from anabranch.snapshot.snapshot import Snapshot
from anabranch.table_report.file_distribution import FileMeasures
from anabranch.table_report.log_pass import LogPass
from anabranch.table_report.report_values import Maintenance, OptimizeGain, PurgeGain, VacuumGain

FOREVER_MS = 2**62


class _NoSettings:
    """A session in which nothing is set."""

    def setting(self, key: str, default: str | None = None) -> str | None:  # noqa: ARG002 - no setting has a value
        return default

    def flag(self, key: str, *, default: bool) -> bool:  # noqa: ARG002
        return default


def maintenance_of(
    measures: FileMeasures, log: LogPass, *, clustering: tuple[str, ...], vacuumed_before_ms: int | None, now_ms: int
) -> Maintenance:
    """The gains; `clustering` are the quoted names of clustering columns.

    Files removed before `vacuumed_before_ms` exist no more. Raises `UnsafePathError`, `DeletionVectorDescriptorError`.
    """
    snapshot = measures.snapshot
    files = FilesToPlan(
        considered=np.ones(len(measures.sizes), dtype=np.bool_),
        partitions=measures.partition_numbers,
        sizes=measures.sizes,
        rows=measures.rows,
        hidden=measures.hidden,
    )
    settings = OptimizeSettings.of(_NoSettings(), snapshot.properties)
    return Maintenance(
        optimize=_optimize_gain(snapshot, files, settings, clustering),
        purge=_purge_gain(files, settings),
        vacuum=_vacuum_gain(snapshot, log, vacuumed_before_ms=vacuumed_before_ms, now_ms=now_ms),
    )


def _optimize_gain(
    snapshot: Snapshot, files: FilesToPlan, settings: OptimizeSettings, clustering: tuple[str, ...]
) -> OptimizeGain:
    if clustering:
        plan = cluster_plan(files, Cubes.of(snapshot.files.table, clustering), settings, full=False)
    else:
        plan = compaction_plan(files, settings)
    bins = plan.bins
    rewritten = _files_of(bins)
    return OptimizeGain(
        files_rewritten=len(rewritten),
        files_written=sum(max(1, math.ceil(planned.size_bytes / settings.max_file_bytes)) for planned in bins),
        bytes_rewritten=int(files.sizes[rewritten].sum()),
        hidden_rows_purged=int(files.hidden[rewritten].sum()),
        target_bytes=settings.max_file_bytes,
        clusters=bool(clustering),
    )


def _purge_gain(files: FilesToPlan, settings: OptimizeSettings) -> PurgeGain:
    plan = purge_plan(files, settings, outdated=np.zeros(len(files.sizes), dtype=np.bool_))
    rewritten = _files_of(plan.bins)
    counted = rewritten[files.rows[rewritten] > 0]
    freed = files.sizes[counted] * (files.hidden[counted] / files.rows[counted])
    return PurgeGain(
        files_rewritten=len(rewritten),
        bytes_rewritten=int(files.sizes[rewritten].sum()),
        hidden_rows=int(files.hidden[rewritten].sum()),
        bytes_freed=int(freed.sum()),
    )


def _files_of(bins: Sequence[PlannedBin]) -> npt.NDArray[np.int64]:
    """The files of all bins."""
    return np.fromiter(itertools.chain.from_iterable(map(operator.attrgetter("files"), bins)), dtype=np.int64)


def _vacuum_gain(snapshot: Snapshot, log: LogPass, *, vacuumed_before_ms: int | None, now_ms: int) -> VacuumGain:
    retention_ms = snapshot.properties.deleted_file_retention_ms
    cutoff_ms = now_ms - retention_ms
    removed = _removed_files(snapshot, log)
    live = NeededFiles.of(snapshot, removed_from_ms=FOREVER_MS).among(removed["path"])
    remain = pc.invert(live)
    if vacuumed_before_ms is not None:
        remain = pc.and_(remain, pc.greater_equal(removed["time_ms"], vacuumed_before_ms))
    removed = removed.filter(remain)
    expired = pc.less(removed["time_ms"], cutoff_ms)
    goes, later = removed.filter(expired), removed.filter(pc.invert(expired))
    return VacuumGain(
        retention_ms=retention_ms,
        files=len(goes),
        bytes=pc.sum(goes["size"]).as_py() or 0,
        files_later=len(later),
        bytes_later=pc.sum(later["size"]).as_py() or 0,
        last_vacuum_ms=log.last_vacuum_ms,
    )


def _removed_files(snapshot: Snapshot, log: LogPass) -> pa.Table:
    """One row for each file that commits or tombstones name: `path`, the largest `size`, the last `time_ms`.

    Checkpoints drop tombstones after a time, which commits still have; and they have those of commits that are gone.
    """
    tombstones = snapshot.tombstones()
    uris = tombstones["path"].combine_chunks().cast(pa.string()) if len(tombstones) else pa.nulls(0, pa.string())
    times = pc.fill_null(tombstones["deletion_timestamp"], 0)
    rows = pa.table(
        {
            "path": pa.chunked_array(
                [
                    relative_path_column(uris, table_root=snapshot.table_root),
                    pa.array(log.removals.paths, pa.string()),
                ]
            ),
            "size": pa.chunked_array([*_chunks(tombstones["size"]), pa.array(log.removals.sizes, pa.int64())]),
            "time_ms": pa.chunked_array([*_chunks(times), pa.array(log.removals.times_ms, pa.int64())]),
        }
    )
    rows = rows.filter(pc.is_valid(rows["path"]))
    grouped = rows.group_by("path").aggregate([("size", "max"), ("time_ms", "max")])
    return grouped.rename_columns({"size_max": "size", "time_ms_max": "time_ms"})


def _chunks(column: pa.ChunkedArray | pa.Array) -> list[pa.Array]:
    return column.chunks if isinstance(column, pa.ChunkedArray) else [column]
