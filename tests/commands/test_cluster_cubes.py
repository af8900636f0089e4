"""Which files are clustered together, computed without Spark and without a table."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.commands.optimize.cluster_cubes import Cubes, cluster_plan
from anabranch.commands.optimize.optimize_plan import FilesInCubes, FilesToPlan
from anabranch.commands.optimize.optimize_settings import OptimizeSettings
from anabranch.log.file_columns import STRING_MAP

SETTINGS = OptimizeSettings(
    min_file_bytes=1,
    max_file_bytes=10,
    hidden_ratio_max=0.05,
    threads_max=1,
    batch_bytes_max=None,
    check_statistics=True,
    ranges_max=1000,
    stable_cube_bytes=100,
    cube_bytes_max=150,
)


@dataclasses.dataclass(frozen=True)
class File:
    size: int
    cube: str | None = None
    columns: tuple[str, ...] = ("a", "b")
    provider: str | None = None
    hidden: int = 0
    """Percent."""


def planned(files: list[File], *, full: bool = False) -> tuple[list[tuple[int, ...]], FilesInCubes]:
    tags = [
        None if file.cube is None else [("ZCUBE_ID", file.cube), ("ZCUBE_ZORDER_BY", json.dumps(file.columns))]
        for file in files
    ]
    table = pa.table(
        {
            "tags": pa.array(tags, STRING_MAP),
            "clustering_provider": pa.array([file.provider for file in files], pa.string()),
        }
    )
    count = len(files)
    files_to_plan = FilesToPlan(
        considered=np.ones(count, dtype=np.bool_),
        partitions=np.zeros(count, dtype=np.int64),
        sizes=np.array([file.size for file in files], dtype=np.int64),
        rows=np.full(count, 100, dtype=np.int64),
        hidden=np.array([file.hidden for file in files], dtype=np.int64),
    )
    plan = cluster_plan(files_to_plan, Cubes.of(table, ["a", "b"]), SETTINGS, full=full)
    assert plan.cubes is not None
    return [planned_bin.files for planned_bin in plan.bins], plan.cubes


def test_files_that_are_not_clustered_go_before_small_cubes() -> None:
    bins, in_cubes = planned([File(60, "q", provider="liquid"), File(20), File(30, "c", provider="liquid"), File(70)])
    assert bins == [(1, 3, 2)]
    assert in_cubes == FilesInCubes(
        num_cubes=2, num_files_in_cubes=2, bytes_in_cubes=90, num_other_files=2, bytes_of_others=90
    )


def test_a_large_cube_is_left_alone() -> None:
    cube = [File(50, "q"), File(50, "q")]
    assert planned([*cube, File(10)])[0] == [(2,)]
    assert planned([*cube, File(10)], full=True)[0] == [(2,)]
    assert planned([dataclasses.replace(cube[0], hidden=1), cube[1], File(10)])[0] == [(2, 0, 1)]


@pytest.mark.parametrize("full", [False, True])
def test_a_single_cube_is_left_alone(full: bool) -> None:
    assert planned([File(5, "q"), File(6, "q")], full=full)[0] == []
    assert planned([], full=full)[0] == []
    assert planned([File(5)], full=full)[0] == [(0,)]


def test_two_small_cubes_become_one() -> None:
    assert planned([File(5, "q"), File(6, "c")])[0] == [(1, 0)]
    assert planned([File(80, "q"), File(90, "c")])[0] == [], "no room for both"


def test_only_full_clusters_again_what_others_clustered() -> None:
    files = [File(5, "q", ("b",)), File(6, "c"), File(7, provider="other"), File(8, "w", provider="other")]
    bins, in_cubes = planned(files)
    assert bins == []
    assert (in_cubes.num_cubes, in_cubes.num_files_in_cubes, in_cubes.num_other_files) == (2, 2, 2)
    bins, in_cubes = planned(files, full=True)
    assert bins == [(1, 2, 0, 3)]
    assert (in_cubes.num_cubes, in_cubes.num_files_in_cubes, in_cubes.num_other_files) == (3, 3, 1)
    assert planned([*files, File(9)])[0] == [(4, 1)]


def test_a_stable_cube_stays_when_others_are_clustered_again() -> None:
    assert planned([File(100, "q"), File(5, "c", ("b",))], full=True)[0] == [(1,)]


def test_tags_that_say_nothing() -> None:
    """A cube without its columns is none, and columns that cannot be read are others than ours."""
    tags = [[("ZCUBE_ID", "q")], [("ZCUBE_ID", "q"), ("ZCUBE_ZORDER_BY", "[")], [("ZCUBE_ZORDER_BY", '["a"]')], []]
    table = pa.table({"tags": pa.array(tags, STRING_MAP), "clustering_provider": pa.nulls(4, pa.string())})
    cubes = Cubes.of(table, ["a"])
    assert cubes.numbers.tolist() == [-1, 0, -1, -1]
    assert cubes.may_change.tolist() == [True, False, True, True]


FILES = st.lists(
    st.builds(
        File,
        size=st.integers(0, 120),
        cube=st.sampled_from([None, "c", "q", "w"]),
        columns=st.sampled_from([("a", "b"), ("b",)]),
        provider=st.sampled_from([None, "liquid", "other"]),
    ),
    max_size=12,
)


@given(files=FILES, full=st.booleans())
def test_every_plan(files: list[File], full: bool) -> None:
    """No file is in two bins, and none is missing that is not clustered."""
    bins, _ = planned(files, full=full)
    chosen = [number for numbers in bins for number in numbers]
    assert len(chosen) == len(set(chosen))
    for number, file in enumerate(files):
        if file.cube is None and (full or file.provider != "other"):
            assert number in chosen
        if number in chosen and not full:
            assert file.provider != "other"
            assert file.cube is None or file.columns == ("a", "b")
    for numbers in bins:
        assert len(numbers) == 1 or sum(files[number].size for number in numbers) <= SETTINGS.cube_bytes_max


@given(files=FILES, full=st.booleans(), data=st.data())
def test_runs_come_to_an_end(files: list[File], full: bool, data: st.DataObject) -> None:
    """Small cubes that do not fit into one are not rewritten by every run."""
    for run in range(20):
        bins, _ = planned(files, full=full)
        if not bins:
            return
        chosen = {number for numbers in bins for number in numbers}
        names = data.draw(st.permutations([f"{index} of {run}" for index in range(len(bins))]))
        written = [
            File(sum(files[number].size for number in numbers), name, provider="liquid")
            for numbers, name in zip(bins, names, strict=True)
        ]
        files = [*(file for number, file in enumerate(files) if number not in chosen), *written]
    raise AssertionError("it goes on and on")
