"""Many processes append to one table; some are killed while they do."""

from __future__ import annotations

import functools
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from anabranch.schema.computed_columns import identity_columns
from anabranch.storage.local.local_store import LocalStore
from processes.appender import append, create, opened
from processes.reading import Append, appends_in, appends_seen_by_all, run
from transactions.log_linter import lint

pytestmark = pytest.mark.long

WRITERS, COMMITS = 16, 50


@pytest.fixture(scope="module")
def appended(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[Append, int]]:
    """A table after 16 processes appended 50 times each, and the version of each append."""
    root = str(tmp_path_factory.mktemp("appends") / "t")
    create(opened(root))
    return root, run("append", root, str(WRITERS), str(COMMITS))


EXPECTED = {(writer, number): 1 for writer in range(WRITERS) for number in range(COMMITS)}


def test_every_append_has_a_version_of_its_own(appended: tuple[str, dict[Append, int]]) -> None:
    root, landed = appended
    assert landed.keys() == EXPECTED.keys()
    assert sorted(landed.values()) == list(range(1, WRITERS * COMMITS + 1))
    in_order = sorted(landed, key=landed.__getitem__)
    assert sorted(in_order, key=lambda append: append[0]) == sorted(landed), "a writer's appends landed out of order"
    assert lint(LocalStore(root)) == []
    assert opened(root).snapshots.latest().version == WRITERS * COMMITS


def test_other_readers_see_every_row_once(appended: tuple[str, dict[Append, int]]) -> None:
    root, _ = appended
    assert appends_seen_by_all(root) == EXPECTED


@pytest.mark.spark
def test_spark_sees_every_row_once(native: SparkSession, appended: tuple[str, dict[Append, int]]) -> None:
    root, landed = appended
    assert appends_in(native.read.format("delta").load(root).toArrow()) == EXPECTED
    middle = landed[0, COMMITS // 2]
    assert native.read.format("delta").option("versionAsOf", middle).load(root).count() == middle * 3


@pytest.mark.parametrize(
    ("program", "seed"), [("be_killed", 1), ("be_killed", 2), ("be_killed", 3), ("run_out_of_memory", 1)]
)
def test_writers_that_end_anywhere_leave_a_whole_table(tmp_path: Path, program: str, seed: int) -> None:
    """Covers faults F1, F2, F14, F22, F59 and F60: what was acknowledged is there once, the rest once or not at all."""
    root = str(tmp_path / "t")
    create(opened(root), {"delta.checkpointInterval": "5"})
    acknowledged = run(program, root, str(seed), *(("25", "3") if program == "be_killed" else ("8", "4")))
    assert len(acknowledged) > 25

    survivor = (0, 0)
    append(opened(root), writer=0, number=0)
    appends = appends_seen_by_all(root)
    assert set(appends.values()) == {1}
    assert acknowledged.keys() | {survivor} <= appends.keys()
    unacknowledged = appends.keys() - acknowledged.keys() - {survivor}
    writers = [writer for writer, _ in unacknowledged]
    assert len(writers) == len(set(writers)), "a writer has at most one append under way"
    assert lint(LocalStore(root)) == []
    for file in opened(root).snapshots.latest().files.to_actions():
        assert pq.read_metadata(f"{root}/{file.path}").num_rows == 3


@pytest.mark.parametrize("step", [1, -3])
def test_every_process_generates_numbers_of_its_own(tmp_path: Path, step: int) -> None:
    """Covers race 79: nobody is refused, no number is there twice, and no version has one beyond its mark."""
    root, writers, commits = str(tmp_path / "t"), 8, 20
    create(opened(root), step=step)
    landed = run("number", root, str(writers), str(commits))
    assert landed.keys() == {(writer, number) for writer in range(writers) for number in range(commits)}

    table = opened(root)
    latest = table.snapshots.latest()
    reserved = [
        entry for entry in table.snapshots.history() if entry.info and entry.info.operation == "RESERVE IDENTITY"
    ]
    assert latest.version == writers * commits + len(reserved)
    assert len(reserved) > writers, "the writers have hardly met"
    read = functools.cache(lambda path: pq.read_table(f"{root}/{path}").to_pylist())
    rows: list[dict[str, int]] = []
    for version in range(latest.version + 1):
        snapshot = table.snapshots.at_version(version)
        mark = identity_columns(snapshot.schema)["row"].high_water_mark
        rows = [row for file in snapshot.files.to_actions() for row in read(file.path)]
        assert all(mark is not None and (mark - row["row"]) * step >= 0 for row in rows)
    numbers = [row["row"] for row in rows]
    assert len(set(numbers)) == len(numbers) == writers * commits * 3
    assert {(number - 10) % step for number in numbers} == {0}
    for writer in range(writers):
        own = sorted((row["number"], row["row"] * step) for row in rows if row["writer"] == writer)
        assert [value for _, value in own] == sorted(value for _, value in own), "a writer's numbers do not ascend"
    assert lint(LocalStore(root)) == []
