"""Which files OPTIMIZE and REORG rewrite together, computed without Spark and without a table."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.commands.optimize.bin_packing import PlannedBin, batches, pack
from anabranch.commands.optimize.optimize_plan import FilesToPlan, compaction_plan, purge_plan, zorder_plan
from anabranch.commands.optimize.optimize_settings import OptimizeSettings

SETTINGS = OptimizeSettings(
    min_file_bytes=100,
    max_file_bytes=100,
    hidden_ratio_max=0.05,
    threads_max=2,
    batch_bytes_max=None,
    check_statistics=True,
    ranges_max=1000,
    stable_cube_bytes=1000,
    cube_bytes_max=1500,
)


def files(
    sizes: list[int],
    *,
    partitions: list[int] | None = None,
    rows: list[int] | None = None,
    hidden: list[int] | None = None,
    considered: list[bool] | None = None,
) -> FilesToPlan:
    count = len(sizes)
    return FilesToPlan(
        considered=np.array(considered or [True] * count, dtype=np.bool_),
        partitions=np.array(partitions or [0] * count, dtype=np.int64),
        sizes=np.array(sizes, dtype=np.int64),
        rows=np.array(rows or [100] * count, dtype=np.int64),
        hidden=np.array(hidden or [0] * count, dtype=np.int64),
    )


def chosen(bins: tuple[PlannedBin, ...]) -> list[tuple[int, ...]]:
    return [planned.files for planned in bins]


def test_smallest_first_until_the_bin_is_full() -> None:
    plan = compaction_plan(files([60, 30, 50, 10, 20]), SETTINGS)
    assert chosen(plan.bins) == [(3, 4, 1)], "50 and 60 are too large for planned other"
    assert plan.bins[0].size_bytes == 60


def test_partitions_stay_apart() -> None:
    plan = compaction_plan(files([10, 10, 10, 10, 10], partitions=[1, 0, 1, 0, 2]), SETTINGS)
    assert chosen(plan.bins) == [(1, 3), (0, 2)]
    assert [planned.partition for planned in plan.bins] == [0, 1]


def test_large_files_are_left_alone_unless_they_hide_many_rows() -> None:
    plan = compaction_plan(files([100, 400, 40, 40], hidden=[5, 0, 0, 0]), SETTINGS)
    assert chosen(plan.bins) == [(2, 3)]
    plan = compaction_plan(files([100, 400, 40, 40], hidden=[6, 6, 0, 0]), SETTINGS)
    assert chosen(plan.bins) == [(2, 3)], "a file by itself is not rewritten"
    wide = OptimizeSettings(**{**{name: getattr(SETTINGS, name) for name in SETTINGS.__slots__}, "max_file_bytes": 500})
    assert chosen(compaction_plan(files([100, 400, 40, 40], hidden=[6, 6, 0, 0]), wide).bins) == [(2, 3, 0)]
    uncounted = files([400, 40], rows=[-1, 100], hidden=[1, 0])
    assert chosen(compaction_plan(uncounted, wide).bins) == [(1, 0)]
    assert uncounted.row_counts((1, 0)) is None
    assert uncounted.row_counts((1,)) == [100]


def test_purge_takes_files_by_themselves_too() -> None:
    planned = files([500, 10, 10, 10], hidden=[1, 0, 0, 0])
    outdated = np.array([False, False, False, True])
    assert chosen(purge_plan(planned, SETTINGS, outdated=outdated).bins) == [(3,), (0,)]
    nobody = files([500, 10], hidden=[1, 1], considered=[False, True])
    assert chosen(purge_plan(nobody, SETTINGS, outdated=np.zeros(2, dtype=np.bool_)).bins) == [(1,)]


def test_zorder_takes_all_files_of_a_partition() -> None:
    assert chosen(zorder_plan(files([500, 10, 70], partitions=[0, 1, 0])).bins) == [(2, 0), (1,)]


@given(
    sizes=st.lists(st.integers(0, 150), max_size=30),
    partitions=st.lists(st.integers(0, 2), min_size=30, max_size=30),
    single=st.booleans(),
)
def test_no_file_twice_and_no_bin_too_large(sizes: list[int], partitions: list[int], *, single: bool) -> None:
    """Only a file that is too large by itself makes a bin so."""
    packed_bins = pack(
        np.arange(len(sizes)),
        sizes=np.array(sizes, dtype=np.int64),
        partitions=np.array(partitions, dtype=np.int64),
        bin_bytes_max=100,
        keep_single=single,
    )
    packed = [file for planned in packed_bins for file in planned.files]
    assert len(set(packed)) == len(packed)
    assert not single or sorted(packed) == list(range(len(sizes)))
    for planned in packed_bins:
        assert {partitions[file] for file in planned.files} == {planned.partition}
        assert planned.size_bytes == sum(sizes[file] for file in planned.files)
        assert planned.size_bytes <= 100 or len(planned.files) == 1
        assert single or len(planned.files) > 1


@pytest.mark.parametrize(("bytes_max", "expected"), [(None, [4]), (100, [2, 1, 1]), (1, [1, 1, 1, 1])])
def test_bins_by_commit(bytes_max: int | None, expected: list[int]) -> None:
    bins = [PlannedBin(partition=0, files=(n,), size_bytes=size) for n, size in enumerate([90, 30, 70, 80])]
    grouped = batches(bins, bytes_max=bytes_max, files_max=100)
    assert [len(batch) for batch in grouped] == expected
    assert sorted(planned.files for batch in grouped for planned in batch) == [(0,), (1,), (2,), (3,)]
    assert [len(batch) for batch in batches(bins, bytes_max=None, files_max=3)] == [3, 1]
