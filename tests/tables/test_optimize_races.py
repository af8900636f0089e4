"""Races 47 to 56, 60 and 61 with real files: OPTIMIZE and REORG beside statements that change rows of the same files."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from anabranch.commands.dml.delete import prepare_delete
from anabranch.commands.dml.row_changes import delete_rows, write_new_rows
from anabranch.commands.dml.target_table import TargetRows, resolve_row_condition, select_rows, selected_rows
from anabranch.commands.optimize import rewrite_bins
from anabranch.commands.optimize.bin_packing import PlannedBin
from anabranch.commands.optimize.optimize_command import optimize, optimize_job
from anabranch.commands.optimize.optimize_plan import Plan
from anabranch.commands.optimize.purge import purge, purge_job
from anabranch.commands.optimize.rewrite_bins import RewrittenBin
from anabranch.commands.optimize.rewrite_job import ROUNDS_MAX, RewriteJob, RewriteResult, run_rewrite_job
from anabranch.commands.table_access import TableRef
from anabranch.snapshot.snapshot import Snapshot
from anabranch.spark.write import rewrite_request
from anabranch.tables import DeltaTable
from anabranch.transactions.proposed_commit import Operation
from interop.readers import read_by_delta_rs, read_by_duckdb
from session_kinds import table_ref

pytestmark = [pytest.mark.spark, pytest.mark.long]

OPTIONS = {"delta.enableDeletionVectors": "true"}


@pytest.fixture(autouse=True)
def several_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three tasks write a file, as on a machine with more cores for larger files."""
    monkeypatch.setattr(rewrite_request, "TASK_BYTES_MIN", 1)
    monkeypatch.setattr(rewrite_bins, "default_parallelism", lambda _: 3)


@pytest.fixture
def table(delta: SparkSession, path: str) -> TableRef:
    """Ids 0 to 29 in three files of ten rows, in order, and of different sizes."""
    for start, padding in ((0, 1), (10, 60), (20, 20)):
        frame = delta.range(start, start + 10, 1, 1).selectExpr("id", f"repeat(concat('n', id), {padding}) AS name")
        frame.write.format("delta").mode("append").options(**({} if start else OPTIONS)).save(path)
    return table_ref(delta, path)


def ids(table: TableRef) -> list[int]:
    """The ids that we read; delta-rs and DuckDB must read the same."""
    frame = table.session.spark.read.format("delta").load(table.path).select("id")
    ids = sorted(row[0] for row in frame.collect())
    for read in (read_by_delta_rs, read_by_duckdb):
        assert sorted(read(table.path).column("id").to_pylist()) == ids
    return ids


def all_but(*gone: int, upto: int = 30) -> list[int]:
    return [n for n in range(upto) if n not in gone]


def delete(table: TableRef, *gone: int) -> None:
    DeltaTable.forPath(table.session.spark, table.path).delete(f"id IN ({', '.join(map(str, gone))})")


def append(table: TableRef, *values: int) -> None:
    rows = [(value, "new") for value in values]
    frame = table.session.spark.createDataFrame(rows, "id long, name string").coalesce(1)
    frame.write.format("delta").mode("append").save(table.path)


def meanwhile(job: RewriteJob, *others: Callable[[], object]) -> RewriteJob:
    """The same, with another writer's commits between the writing of its files and its own commit: one a bin."""
    waiting = list(others)

    def rewrite(snapshot: Snapshot, plan: Plan, planned: PlannedBin) -> RewrittenBin:
        written = job.rewrite(snapshot, plan, planned)
        if waiting:
            waiting.pop(0)()
        return written

    return dataclasses.replace(job, rewrite=rewrite)


def last_commit(table: TableRef) -> dict[str, list[dict[str, Any]]]:
    version = table.latest().version
    actions: dict[str, list[dict[str, Any]]] = {}
    for line in (Path(table.path) / "_delta_log" / f"{version:020}.json").read_text().splitlines():
        for kind, fields in json.loads(line).items():
            actions.setdefault(kind, []).append(fields)
    return actions


def test_delete_loses_to_optimize(table: TableRef) -> None:
    """Races 47 and 49: the marks follow the rows, also where sources hid rows before."""
    delete(table, 0, 5, 12, 29)
    with prepare_delete(table, "id IN (1, 6, 10, 11, 19, 20, 28)") as ours:
        assert optimize(table).num_bins == 1
        ours.commit()
    assert ids(table) == all_but(0, 5, 12, 29, 1, 6, 10, 11, 19, 20, 28)
    (add,) = last_commit(table)["add"]
    assert add["deletionVector"]["cardinality"] == 7


def test_delete_of_whole_files_and_by_no_condition(table: TableRef) -> None:
    with prepare_delete(table, "id >= 10 AND id < 20") as ours:
        optimize(table)
        ours.commit()
    assert ids(table) == all_but(*range(10, 20))
    with prepare_delete(table) as ours:
        append(table, 100)
        optimize(table)
        ours.commit()
    assert ids(table) == [100]


def test_optimize_loses_to_delete(table: TableRef) -> None:
    """Races 48 and 60: the output hides what was deleted meanwhile."""
    delete(table, 3, 15)
    done = run_rewrite_job(table, meanwhile(optimize_job(table), lambda: delete(table, 4, 14, 16, 27)))
    assert (done.num_bins, done.num_bins_left, len(done.versions)) == (1, 0, 1)
    assert ids(table) == all_but(3, 15, 4, 14, 16, 27)
    assert table.latest().files.count == 1


def test_a_source_is_gone(table: TableRef) -> None:
    """Race 50: what is left is done again on the new version, and nothing is raised."""
    done = run_rewrite_job(table, meanwhile(optimize_job(table), lambda: delete(table, *range(10, 20))))
    assert (done.num_bins, done.num_bins_left) == (1, 0)
    assert ids(table) == all_but(*range(10, 20))
    assert table.latest().files.count == 1


def test_two_optimizes_of_the_same_files(table: TableRef) -> None:
    """Race 51: every row is there once."""
    done = run_rewrite_job(table, meanwhile(optimize_job(table), lambda: optimize(table)))
    assert (done.num_bins, done.num_bins_left, done.versions) == (0, 0, ())
    assert ids(table) == all_but()


def test_delete_loses_to_several_optimizes_and_deletes(table: TableRef) -> None:
    """Races 52 and 53: a chain of maps and vectors."""
    with prepare_delete(table, "id IN (2, 13, 24)") as ours:
        delete(table, 1, 14)
        optimize(table)
        delete(table, 3, 25)
        append(table, 30)
        optimize(table)
        delete(table, 12)
        purge(table)
        ours.commit()
    assert ids(table) == all_but(2, 13, 24, 1, 14, 3, 25, 12, upto=31)


def test_optimize_swallows_an_append(table: TableRef) -> None:
    """Race 54: a DELETE that precedes the append deletes none of its rows."""
    with prepare_delete(table, "id >= 25") as ours:
        append(table, 100, 101)
        optimize(table)
        ours.commit()
    assert ids(table) == [*range(25), 100, 101]


def test_purge_and_delete_of_one_file(table: TableRef) -> None:
    """Race 56, either way."""
    delete(table, 12)
    done = run_rewrite_job(table, meanwhile(purge_job(table), lambda: delete(table, 11, 13)))
    assert (done.num_bins, done.num_bins_left) == (1, 0)
    with prepare_delete(table, "id IN (10, 14, 19)") as ours:
        purge(table)
        ours.commit()
    assert ids(table) == all_but(*range(10, 15), 19)


def test_rows_that_all_went_meanwhile(table: TableRef) -> None:
    """A bin whose rows are all deleted before it lands leaves nothing behind."""
    done = run_rewrite_job(table, meanwhile(optimize_job(table), lambda: delete(table, *range(30))))
    assert done.num_bins_left == 0
    assert ids(table) == []
    assert table.latest().files.count == 0


def test_a_writer_that_always_commits_first(table: TableRef) -> None:
    """The rounds are bounded, what cannot be done is left, and nothing is raised."""
    partners = [lambda n=n: rewritten(table, n) for n in range(ROUNDS_MAX)]
    done = run_rewrite_job(table, meanwhile(optimize_job(table), *partners))
    assert (done.num_bins, done.num_bins_left, done.versions) == (0, 1, ())
    assert ids(table) == all_but()


def rewritten(table: TableRef, number: int) -> None:
    """One of the files of the table is removed by a writer without vectors, which rewrites its rows."""
    snapshot = table.latest()
    transaction = table.begin_at(Operation(name="UPDATE"), snapshot=snapshot)
    target = TargetRows(table, snapshot, transaction.vectors)
    asking = select_rows(target, resolve_row_condition(table, snapshot, f"id = {number}"))
    changes = delete_rows(target, selected_rows(target, asking), by_vectors=False)
    written = write_new_rows(target, target.read(asking.candidates).frame.where(f"id = {number}"))
    transaction.commit(changes.actions(written), deleted_rows=changes.deleted_rows)


def test_the_table_gets_a_column(table: TableRef) -> None:
    """The written files lack the new column, and readers take it for NULL, so they are committed as they are."""

    def grow() -> None:
        frame = table.session.spark.range(30, 31).selectExpr("id", "'new' AS name", "1 AS extra")
        frame.write.format("delta").mode("append").option("mergeSchema", "true").save(table.path)

    done: RewriteResult = run_rewrite_job(table, meanwhile(optimize_job(table), grow))
    assert (done.num_bins, done.num_bins_left) == (1, 0)
    assert ids(table) == all_but(upto=31)
    assert table.latest().files.count == 2


def test_partitions_in_bins_of_their_own(delta: SparkSession, path: str) -> None:
    """Race 61, and a bin of one partition does not keep that of another from landing."""
    for start in (0, 10):
        frame = delta.range(start, start + 10, 1, 1).selectExpr("id", "id % 2 AS part")
        frame.write.format("delta").mode("append").partitionBy("part").options(**OPTIONS).save(path)
    table = table_ref(delta, path)
    job = optimize_job(table)
    with prepare_delete(table, "id IN (2, 3, 13, 18)") as ours:
        done = run_rewrite_job(table, meanwhile(job, lambda: delete(table, 4, 5), lambda: delete(table, 0, 2, 6, 8)))
        assert done.num_bins_left == 0
        assert table.latest().files.count == 2
        with pytest.raises(Exception, match="landed first"):
            ours.commit()
    assert ids(table) == [n for n in range(20) if n not in (4, 5, 0, 2, 6, 8)]


def test_zorder_beside_deletes(table: TableRef) -> None:
    """Race 55."""
    done = run_rewrite_job(table, meanwhile(optimize_job(table, zorder_by=["id"]), lambda: delete(table, 4, 14)))
    assert (done.num_bins, done.num_bins_left) == (1, 0)
    with prepare_delete(table, "id IN (1, 6, 10)") as ours:
        optimize(table, zorder_by=["name"])
        ours.commit()
    assert ids(table) == all_but(4, 14, 1, 6, 10)


def test_zorder_that_swallowed_an_append(table: TableRef) -> None:
    """The rows of a DELETE are found by their values, and those that came later stay."""
    with prepare_delete(table, "id >= 25") as ours:
        delete(table, 3)
        append(table, 100, 101)
        optimize(table, zorder_by=["name"])
        ours.commit()
    assert ids(table) == [*all_but(3, upto=25), 100, 101]
    (add,) = last_commit(table)["add"]
    assert add["deletionVector"]["cardinality"] == 5


def test_zorder_loses_to_a_delete_and_is_not_done_again(table: TableRef) -> None:
    job = meanwhile(optimize_job(table, zorder_by=["name"]), lambda: delete(table, 4, 14))
    done = run_rewrite_job(table, job)
    (add,) = last_commit(table)["add"]
    assert add["deletionVector"]["cardinality"] == 2
    assert (done.num_bins, done.versions) == (1, (table.latest().version,))
    assert ids(table) == all_but(4, 14)


def test_equal_and_unequal_rows_of_every_type_are_distinguished(delta: SparkSession, path: str) -> None:
    """The one row goes that was meant, and none that only looks like it."""
    values = {
        "d": "cast(if(id < 6, '-0.0', '0.0') AS double)",
        "at": "CASE WHEN id < 6 THEN timestamp_micros(1) ELSE timestamp_micros(2) END",
        "deep": "array(named_struct('n', cast(null AS string), 'm', map('a', 1.5D)))",
        "x": "cast('a\\'\"b' AS binary)",
        "day": "DATE'1582-01-01'",
    }
    columns = [f"{text} AS {name}" for name, text in values.items()]
    for start in (0, 4):
        frame = delta.range(start, start + 4, 1, 1).selectExpr("id % 2 AS k", *columns)
        frame.write.format("delta").mode("append").options(**OPTIONS).save(path)
    table = table_ref(delta, path)
    with prepare_delete(table, "k = 1 AND at = timestamp_micros(2)") as ours:
        delta.range(1).selectExpr("1L AS k", *columns).write.format("delta").mode("append").save(path)
        optimize(table, zorder_by=["k"])
        ours.commit()
    frame = delta.read.format("delta").load(path).selectExpr("k", "unix_micros(at) AS at")
    assert sorted((row["k"], row["at"]) for row in frame.collect()) == [(0, 1)] * 3 + [(0, 2)] + [(1, 1)] * 4
