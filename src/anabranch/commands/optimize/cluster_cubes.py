"""Which files OPTIMIZE clusters: all that are not clustered yet, and those of cubes that are still small.

A cube is what one run wrote together: files that share a stretch of the curve. The tags of a file, whose names are
Delta's, name its cube and the columns by which it is ordered. A cube that is large enough is stable: new rows are never
merged into it, so that a run costs as much as what was written since the last one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.commands.optimize.bin_packing import PlannedBin, pack_in_order
from anabranch.commands.optimize.optimize_plan import FilesInCubes, FilesToPlan, Plan
from anabranch.commands.optimize.optimize_settings import OptimizeSettings
from anabranch.log.file_columns import FileMask
from anabranch.protocol.actions import AddFile

CLUSTERING_PROVIDER = "liquid"
CUBE_TAG = "ZCUBE_ID"
COLUMNS_TAG = "ZCUBE_ZORDER_BY"
CURVE_TAG = "ZCUBE_ZORDER_CURVE"
HILBERT = "hilbert"
_TAGS = (CUBE_TAG, COLUMNS_TAG, CURVE_TAG)
NO_CUBE = -1


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Cubes:
    """The cubes of the files of a snapshot, with an entry for each file in every array."""

    numbers: npt.NDArray[np.int64]
    """The number of the cube, in the order of the ids of cubes; NO_CUBE for a file in no cube."""
    by_these_columns: FileMask
    """Whether the file is in a cube that is ordered by the clustering columns."""
    may_change: FileMask
    """Whether the file is neither clustered by another provider nor in a cube that is ordered by other columns."""

    @classmethod
    def of(cls, files: pa.Table, columns: Sequence[str]) -> Cubes:
        """Read the tags of the files of a snapshot; `columns` are the logical names of the clustering columns."""
        tags = files["tags"]
        cubes, ordered_by = (pc.map_lookup(tags, name, "first") for name in (CUBE_TAG, COLUMNS_TAG))
        ids = pc.if_else(pc.is_valid(ordered_by), cubes, None)
        sorted_ids = sorted(pc.unique(ids.drop_null()).to_pylist())
        numbers = pc.fill_null(pc.index_in(ids, pa.array(sorted_ids, pa.string())), NO_CUBE)
        lists = [text for text in pc.unique(ordered_by).to_pylist() if _names(text) == list(columns)]
        same_columns = pc.is_in(ordered_by, pa.array(lists, pa.string()))
        in_cube = np.asarray(pc.is_valid(ids).to_numpy(), dtype=np.bool_)
        by_these = in_cube & np.asarray(same_columns.to_numpy(), dtype=np.bool_)
        provider = pc.fill_null(files["clustering_provider"], CLUSTERING_PROVIDER)
        ours = np.asarray(pc.equal(provider, CLUSTERING_PROVIDER).to_numpy(), dtype=np.bool_)
        return cls(
            numbers=np.asarray(numbers.to_numpy(), dtype=np.int64),
            by_these_columns=by_these,
            may_change=ours & (~in_cube | by_these),
        )


def cluster_plan(files: FilesToPlan, cubes: Cubes, settings: OptimizeSettings, *, full: bool) -> Plan:
    """Bins of the files to cluster. With `full` also files that are clustered by other columns or another provider."""
    chosen = chosen_files(files, cubes, stable_cube_bytes=settings.stable_cube_bytes, full=full)
    rows = np.flatnonzero(chosen)
    order = rows[np.lexsort((rows, cubes.numbers[rows], ~cubes.may_change[rows], files.partitions[rows]))]
    bins = pack_in_order(order, sizes=files.sizes, partitions=files.partitions, bin_bytes_max=settings.cube_bytes_max)
    useful = tuple(planned for planned in bins if not _is_one_cube(planned, cubes))
    return Plan(files=files, bins=useful, cubes=_files_in_cubes(files, cubes, full=full))


def chosen_files(files: FilesToPlan, cubes: Cubes, *, stable_cube_bytes: int, full: bool) -> FileMask:
    """The files that clustering may rewrite: all but those in stable cubes."""
    candidates = files.considered & cubes.may_change
    in_cube = candidates & (cubes.numbers != NO_CUBE)
    cube_bytes = np.zeros(int(cubes.numbers.max(initial=0)) + 1, dtype=np.int64)
    np.add.at(cube_bytes, cubes.numbers[in_cube], _shown_bytes(files)[in_cube])
    stable = in_cube & (cube_bytes[cubes.numbers] >= stable_cube_bytes)
    others = files.considered & ~cubes.may_change
    chosen: FileMask = (candidates & ~stable) | (others & full)
    return chosen


def in_cube_of(sources: Sequence[AddFile], output: AddFile) -> AddFile:
    """`output`, tagged as a file of the cube of `sources`, whose rows it has, where they are all in one cube."""
    cubes = {(source.clustering_provider, *((source.tags or {}).get(name) for name in _TAGS)) for source in sources}
    if len(cubes) > 1:
        return output
    ((provider, *values),) = cubes
    cube = {name: value for name, value in zip(_TAGS, values, strict=True) if value is not None}
    return msgspec.structs.replace(output, tags={**(output.tags or {}), **cube}, clustering_provider=provider)


def _is_one_cube(planned: PlannedBin, cubes: Cubes) -> bool:
    """Whether the files are all in one cube already, so that rewriting them gains nothing."""
    files = list(planned.files)
    numbers = np.unique(cubes.numbers[files])
    return len(numbers) == 1 and numbers[0] != NO_CUBE and bool(cubes.may_change[files].all())


def _shown_bytes(files: FilesToPlan) -> npt.NDArray[np.int64]:
    """The size of each file without its hidden rows, as far as its statistics count rows."""
    rows = np.maximum(files.rows, 1)
    shown = np.where(files.rows > 0, (files.rows - files.hidden) / rows, 1.0)
    return np.asarray(files.sizes * shown, dtype=np.int64)


def _files_in_cubes(files: FilesToPlan, cubes: Cubes, *, full: bool) -> FilesInCubes:
    """Count the considered files that are in cubes, and the others."""
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
    """The columns that a tag names; None where it cannot be parsed."""
    try:
        return msgspec.json.decode(text or "", type=list[str])
    except msgspec.DecodeError:
        return None
