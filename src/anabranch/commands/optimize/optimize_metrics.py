"""The metrics of OPTIMIZE and REORG, by Delta's names: one row for the user, and `operationMetrics` for the log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.types import BooleanType, DataType, DoubleType, LongType, StringType, StructField, StructType

from anabranch.commands.optimize.optimize_plan import FilesInCubes
from anabranch.commands.optimize.rewrite_bins import RewrittenBin
from anabranch.commands.table_access import TableRef
from anabranch.protocol.actions import AddFile, RemoveFile

_LONG = LongType()


def _longs(*names: str) -> StructType:
    return StructType([StructField(name, _LONG) for name in names])


def _fields(*fields: tuple[str, DataType]) -> StructType:
    return StructType([StructField(name, kind) for name, kind in fields])


_SIZES = _fields(("min", _LONG), ("max", _LONG), ("avg", DoubleType()), ("totalFiles", _LONG), ("totalSize", _LONG))
_NUMBER_AND_SIZE = _longs("num", "size")
_ZORDER = _fields(
    ("strategyName", StringType()),
    ("inputCubeFiles", _NUMBER_AND_SIZE),
    ("inputOtherFiles", _NUMBER_AND_SIZE),
    ("inputNumCubes", _LONG),
    ("mergedFiles", _NUMBER_AND_SIZE),
    ("numOutputCubes", _LONG),
    ("mergedNumCubes", _LONG),
)
_CLUSTERED_FILES = _longs("numFiles", "size")
_CLUSTERING = _fields(
    ("inputZCubeFiles", _CLUSTERED_FILES),
    ("inputOtherFiles", _CLUSTERED_FILES),
    ("inputNumZCubes", _LONG),
    ("mergedFiles", _CLUSTERED_FILES),
    ("numOutputZCubes", _LONG),
)
METRICS = _fields(
    ("numFilesAdded", _LONG),
    ("numFilesRemoved", _LONG),
    ("filesAdded", _SIZES),
    ("filesRemoved", _SIZES),
    ("partitionsOptimized", _LONG),
    ("zOrderStats", _ZORDER),
    ("clusteringStats", _CLUSTERING),
    ("numBins", _LONG),
    ("numBatches", _LONG),
    ("totalConsideredFiles", _LONG),
    ("totalFilesSkipped", _LONG),
    ("preserveInsertionOrder", BooleanType()),
    ("numFilesSkippedToReduceWriteAmplification", _LONG),
    ("numBytesSkippedToReduceWriteAmplification", _LONG),
    ("startTimeMs", _LONG),
    ("endTimeMs", _LONG),
    ("totalClusterParallelism", _LONG),
    ("totalScheduledTasks", _LONG),
    (
        "autoCompactParallelismStats",
        _longs(
            "maxClusterActiveParallelism",
            "minClusterActiveParallelism",
            "maxSessionActiveParallelism",
            "minSessionActiveParallelism",
        ),
    ),
    ("deletionVectorStats", _longs("numDeletionVectorsRemoved", "numDeletionVectorRowsRemoved")),
    ("numTableColumns", _LONG),
    ("numTableColumnsWithStats", _LONG),
)
RESULT = _fields(("path", StringType()), ("metrics", METRICS))


def result_frame(table: TableRef, metrics: dict[str, Any]) -> DataFrame:
    """A frame of one row with `path` and `metrics`. Values that `metrics` lacks are NULL."""
    path = table.path if ":" in table.path else f"file:{table.path}"
    return table.session.spark.createDataFrame([(path, _row(metrics, METRICS))], RESULT)


def size_metrics(files: Sequence[AddFile | RemoveFile]) -> dict[str, Any]:
    """The smallest, the largest and the average size in bytes."""
    sizes = [file.size or 0 for file in files]
    total = sum(sizes)
    return {
        "min": min(sizes, default=None),
        "max": max(sizes, default=None),
        "avg": total / len(sizes) if sizes else 0.0,
        "totalFiles": len(sizes),
        "totalSize": total,
    }


def vector_metrics(removes: Sequence[RemoveFile]) -> dict[str, int] | None:
    """The metrics of the deletion vectors that are removed; None where there are none."""
    counts = [remove.deletion_vector.cardinality for remove in removes if remove.deletion_vector is not None]
    if not counts:
        return None
    return {"numDeletionVectorsRemoved": len(counts), "numDeletionVectorRowsRemoved": sum(counts)}


def zorder_metrics(removes: Sequence[RemoveFile], *, num_partitions: int) -> dict[str, Any]:
    """The metrics of ZORDER BY, which rewrites all files of a partition as one cube."""
    files = {"num": len(removes), "size": sum(remove.size or 0 for remove in removes)}
    return {
        "strategyName": "all",
        "inputCubeFiles": {"num": 0, "size": 0},
        "inputOtherFiles": files,
        "inputNumCubes": 0,
        "mergedFiles": files,
        "numOutputCubes": num_partitions,
    }


def clustering_metrics(cubes: FilesInCubes, removes: Sequence[RemoveFile], *, num_bins: int) -> dict[str, Any]:
    """The metrics of clustering, which writes each bin as a cube."""
    return {
        "inputZCubeFiles": {"numFiles": cubes.num_files_in_cubes, "size": cubes.bytes_in_cubes},
        "inputOtherFiles": {"numFiles": cubes.num_other_files, "size": cubes.bytes_of_others},
        "inputNumZCubes": cubes.num_cubes,
        "mergedFiles": {"numFiles": len(removes), "size": sum(remove.size or 0 for remove in removes)},
        "numOutputZCubes": num_bins,
    }


def commit_metrics(bins: Sequence[RewrittenBin]) -> dict[str, int]:
    """The `operationMetrics` of a commit of these bins."""
    totals: dict[str, int] = {}
    for rewritten in bins:
        for name, amount in rewritten.part.metrics.items():
            totals[name] = totals.get(name, 0) + amount
    sizes = sorted(add.size for rewritten in bins for add in rewritten.adds) or [0]
    count = len(sizes)
    totals |= {
        "minFileSize": sizes[0],
        "p25FileSize": sizes[count // 4],
        "p50FileSize": sizes[count // 2],
        "p75FileSize": sizes[count * 3 // 4],
        "maxFileSize": sizes[-1],
    }
    return totals


def _row(values: dict[str, Any] | None, kind: StructType) -> tuple[Any, ...] | None:
    """The values as a row of this type."""
    if values is None:
        return None
    return tuple(
        _row(values.get(field.name), field.dataType)
        if isinstance(field.dataType, StructType)
        else values.get(field.name)
        for field in kind.fields
    )
