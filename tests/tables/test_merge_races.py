"""MERGE that loses a race on Spark: prepared, then another statement lands, then it commits."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from anabranch.commands.merge.merge_command import prepare_merge
from anabranch.commands.merge.merge_statement import (
    DeleteClause,
    InsertClause,
    MergeClause,
    MergeStatement,
    UpdateClause,
)
from anabranch.commands.table_access import TableRef
from anabranch.errors.commits import ConflictReason
from anabranch.exceptions import (
    ConcurrentAppendException,
    ConcurrentDeleteDeleteException,
    DeltaConcurrentModificationException,
    MetadataChangedException,
)
from session_kinds import in_this_process
from tables.made_tables import numbered_table
from tables.races import commit_with_retries, lose
from tables.statements import delete, merge, update

pytestmark = [pytest.mark.spark, pytest.mark.long]

LEVELS = ["Serializable", "WriteSerializable"]
BOTH_LEVELS = pytest.mark.parametrize("level", LEVELS)
UPDATE_ALL = UpdateClause(values=None)
INSERT_ALL = InsertClause(values=None)
Row = tuple[int, int]


def table_of(delta: SparkSession, path: str, *, level: str = "WriteSerializable", **how: Any) -> TableRef:
    return numbered_table(delta, path, isolationLevel=level, **how)


def rows_of(delta: SparkSession, rows: Iterable[Row]) -> DataFrame:
    return delta.createDataFrame([(id_, n, id_ % 2) for id_, n in rows], "id long, n long, part long")


def statement(
    delta: SparkSession, rows: Iterable[Row], *clauses: MergeClause, by_source: Sequence[MergeClause] = ()
) -> MergeStatement:
    """Matched by `id`; of the clauses those that insert are for rows that are not matched."""
    return MergeStatement(
        source=rows_of(delta, rows).alias("s"),
        condition="t.id = s.id",
        matched=[clause for clause in clauses if not isinstance(clause, InsertClause)],
        not_matched=[clause for clause in clauses if isinstance(clause, InsertClause)],
        not_matched_by_source=[clause for clause in by_source if not isinstance(clause, InsertClause)],
        alias="t",
    )


def upsert(delta: SparkSession, *rows: Row) -> MergeStatement:
    return statement(delta, rows, UPDATE_ALL, INSERT_ALL)


def append(delta: SparkSession, path: str, *rows: Row) -> None:
    rows_of(delta, rows).write.format("delta").mode("append").save(path)


def rows_in(delta: SparkSession, path: str) -> list[Row]:
    return sorted((row.id, row.n) for row in delta.read.format("delta").load(path).collect())


def expected(changed: dict[int, int | None]) -> list[Row]:
    """The first rows, with these in their places; None for one that is gone."""
    return sorted((id_, n) for id_, n in ({id_: id_ for id_ in range(20)} | changed).items() if n is not None)


@BOTH_LEVELS
def test_two_upserts_of_one_new_key(delta: SparkSession, path: str, level: str) -> None:
    """Covers race 36 on Spark: the key is there once."""
    table = table_of(delta, path, level=level)
    ours = prepare_merge(table, upsert(delta, (90, 1), (3, 30)))
    merge(table, upsert(delta, (90, 2)))
    lost = lose(ours, ConcurrentAppendException)
    assert lost.reason is ConflictReason.ROW_LEVEL_CHANGES
    assert any("id = 90" in key for key in lost.example_keys), lost.example_keys
    assert rows_in(delta, path) == expected({90: 2})


@BOTH_LEVELS
def test_a_blind_insert_of_the_key(delta: SparkSession, path: str, level: str) -> None:
    """Covers race 37 on Spark: under WriteSerializable MERGE precedes the INSERT."""
    table = table_of(delta, path, level=level)
    ours = prepare_merge(table, upsert(delta, (5, 50), (90, 1)))
    append(delta, path, (90, 2))
    if level == "Serializable":
        lose(ours, ConcurrentAppendException)
        assert rows_in(delta, path) == expected({90: 2})
    else:
        commit_with_retries(ours)
        assert rows_in(delta, path) == sorted([*expected({5: 50, 90: 1}), (90, 2)])


@BOTH_LEVELS
@pytest.mark.parametrize("by", [(), ("part",)], ids=["one file", "partitioned"])
def test_disjoint_keys_in_the_same_files(delta: SparkSession, path: str, level: str, by: tuple[str, ...]) -> None:
    """Covers race 38 on Spark, also with DELETE and UPDATE as winners."""
    table = table_of(delta, path, level=level, by=by)
    ours = prepare_merge(table, upsert(delta, (1, 10), (80, 80)))
    merge(table, upsert(delta, (3, 30), (90, 90)))
    delete(table, "id = 5")
    update(table, {"n": "70"}, "id = 7")
    commit_with_retries(ours)
    assert rows_in(delta, path) == expected({1: 10, 80: 80, 3: 30, 90: 90, 5: None, 7: 70})


def test_disjoint_keys_under_column_mapping(delta: SparkSession, path: str) -> None:
    table = table_of(delta, path, **{"columnMapping.mode": "name"})
    ours = prepare_merge(table, upsert(delta, (1, 10), (80, 80)))
    merge(table, upsert(delta, (3, 30), (90, 90)))
    update(table, {"n": "70"}, "id = 7")
    commit_with_retries(ours)
    assert rows_in(delta, path) == expected({1: 10, 80: 80, 3: 30, 90: 90, 7: 70})
    lost = prepare_merge(table, upsert(delta, (7, 1), (95, 1)))
    merge(table, upsert(delta, (95, 2)))
    lose(lost, ConcurrentAppendException)


@BOTH_LEVELS
@pytest.mark.parametrize("winner", ["delete", "update", "merge"])
def test_a_matched_row_is_changed(delta: SparkSession, path: str, level: str, winner: str) -> None:
    """Covers race 39 on Spark."""
    table = table_of(delta, path, level=level)
    ours = prepare_merge(table, upsert(delta, (3, 30), (4, 40)))
    if winner == "delete":
        delete(table, "id = 3")
    elif winner == "update":
        update(table, {"n": "n"}, "id = 3")
    else:
        merge(table, statement(delta, [(3, 0)], DeleteClause()))
    lost = lose(ours, ConcurrentAppendException if winner == "update" else ConcurrentDeleteDeleteException)
    assert any("id = 3" in key for key in lost.example_keys), lost.example_keys
    assert (4, 4) in rows_in(delta, path)


@BOTH_LEVELS
def test_a_matched_row_that_was_left_alone(delta: SparkSession, path: str, level: str) -> None:
    """With inserts it was read: it kept a new row away. Without them, only what it becomes counts."""
    table = table_of(delta, path, level=level)
    below = UpdateClause(condition="t.n < s.n", values=None)
    ours = prepare_merge(table, statement(delta, [(3, 1), (4, 40)], below, INSERT_ALL))
    only_matched = prepare_merge(table, statement(delta, [(3, 1), (4, 40)], below))
    moved = prepare_merge(table, statement(delta, [(3, 1), (4, 40)], below))
    update(table, {"n": "2"}, "id = 3")
    lose(ours, ConcurrentAppendException)
    commit_with_retries(only_matched)
    assert rows_in(delta, path) == expected({3: 2, 4: 40})
    lose(moved, ConcurrentDeleteDeleteException)
    third = prepare_merge(table, statement(delta, [(3, 1), (5, 50)], below))
    update(table, {"n": "0"}, "id = 3")
    lost = lose(third, ConcurrentAppendException)
    assert any("id = 3" in key for key in lost.example_keys), lost.example_keys


@BOTH_LEVELS
def test_a_row_for_when_matched_only(delta: SparkSession, path: str, level: str) -> None:
    """Covers race 40 on Spark."""
    table = table_of(delta, path, level=level)
    ours = prepare_merge(table, statement(delta, [(90, 2), (0, 5)], UPDATE_ALL))
    append(delta, path, (90, 1), (91, 1))
    if level == "Serializable":
        lose(ours, ConcurrentAppendException)
    else:
        commit_with_retries(ours)
        assert rows_in(delta, path) == expected({0: 5, 90: 1, 91: 1})


def test_a_row_for_when_not_matched_by_source(delta: SparkSession, path: str) -> None:
    """Covers race 41 on Spark: the winner's row counts if the clause applies to it and no source row matches it."""
    table = table_of(delta, path, level="Serializable")
    by_source = [DeleteClause(condition="n >= 10 AND part = 1")]
    source = [(id_, id_) for id_ in range(20) if id_ != 11] + [(90, 90)]
    ours = prepare_merge(table, statement(delta, source, by_source=by_source))
    append(delta, path, (33, 0), (34, 50), (91, 3))
    append(delta, path, (90, 90))
    commit_with_retries(ours)
    assert rows_in(delta, path) == expected({11: None, 33: 0, 34: 50, 91: 3, 90: 90})
    second = prepare_merge(table, statement(delta, source[:-2], by_source=by_source))
    append(delta, path, (35, 50))
    lost = lose(second, ConcurrentAppendException)
    assert any("id = 35" in key for key in lost.example_keys), lost.example_keys


def test_a_source_that_changes_when_it_is_evaluated_again(delta: SparkSession, path: str) -> None:
    """Covers race 42 on Spark: its rows stay what they were, for the join, for what is written, and in the race."""
    table = table_of(delta, path)
    source = delta.range(0, 40, 1, 2).select("id", F.expr("uuid()").alias("u")).where("u < '8'")
    changes = source.select("id", F.crc32("u").alias("n"), (F.col("id") % 2).alias("part")).alias("s")
    merging = MergeStatement(
        source=changes, condition="t.id = s.id", matched=[UPDATE_ALL], not_matched=[INSERT_ALL], alias="t"
    )
    ours = prepare_merge(table, merging)
    append(delta, path, (70, 70))
    commit_with_retries(ours)
    rows = dict(rows_in(delta, path))
    changed = {id_: n for id_, n in rows.items() if n > 70}
    metrics = ours.metrics
    assert len(changed) == metrics["numSourceRows"]
    assert sum(id_ < 20 for id_ in changed) == metrics["numTargetRowsUpdated"]
    assert sum(id_ >= 20 for id_ in changed) == metrics["numTargetRowsInserted"]
    assert len(rows) == 21 + int(metrics["numTargetRowsInserted"])


@in_this_process
@BOTH_LEVELS
def test_the_source_reads_the_table(delta: SparkSession, path: str, level: str) -> None:
    """Covers race 43 on Spark: any commit may have changed what the source read."""
    table = table_of(delta, path, level=level)
    source = delta.read.format("delta").load(path).where("n = 5").selectExpr("id + 1 AS id", "n * 10 AS n", "part")
    merging = MergeStatement(
        source=source.alias("s"), condition="t.id = s.id", matched=[UPDATE_ALL], not_matched=[INSERT_ALL], alias="t"
    )
    ours = prepare_merge(table, merging)
    update(table, {"n": "5"}, "id = 19")
    lost = lose(ours, ConcurrentAppendException)
    assert lost.version == 1
    commit_with_retries(prepare_merge(table, merging))


def test_a_value_that_reads_the_table(delta: SparkSession, path: str) -> None:
    """A subquery in a value is as good as a source that reads the table."""
    table = table_of(delta, path)
    delta.read.format("delta").load(path).createOrReplaceTempView("seen_by_merge")
    total = UpdateClause(values={"n": "(SELECT sum(n) FROM seen_by_merge)"})
    ours = prepare_merge(table, statement(delta, [(3, 0)], total))
    update(table, {"n": "5"}, "id = 19")
    lost = lose(ours, ConcurrentAppendException)
    assert lost.version == 1
    merge(table, statement(delta, [(4, 0)], UPDATE_ALL))
    assert rows_in(delta, path) == expected({19: 5, 4: 0})


@BOTH_LEVELS
def test_an_insert_only_merge_is_not_blind(delta: SparkSession, path: str, level: str) -> None:
    """Covers race 44 on Spark."""
    table = table_of(delta, path, level=level)
    only_insert = statement(delta, [(3, 0), (90, 1)], INSERT_ALL)
    ours = prepare_merge(table, only_insert)
    unmatched = prepare_merge(table, only_insert)
    far_away = prepare_merge(table, only_insert)
    delete(table, "id = 4")
    commit_with_retries(far_away)
    lose(ours, ConcurrentAppendException)
    delete(table, "id = 3")
    # The error names added rows before removed ones.
    lose(unmatched, ConcurrentAppendException)
    entry = delta.read.format("delta").load(path)
    assert sorted(row.id for row in entry.collect()) == [*(set(range(20)) - {3, 4}), 90]
    assert table.delta_log.snapshots.latest_or_none() is not None


def test_duplicate_rows_in_the_table(delta: SparkSession, path: str) -> None:
    """Covers race 45 on Spark: each is a row of its own."""
    table = table_of(delta, path)
    append(delta, path, (3, 100), (3, 101))
    ours = prepare_merge(table, statement(delta, [(3, 7)], UPDATE_ALL))
    delete(table, "id = 4")
    commit_with_retries(ours)
    assert [row for row in rows_in(delta, path) if row[0] == 3] == [(3, 7)] * 3
    second = prepare_merge(table, statement(delta, [(3, 8)], UPDATE_ALL))
    append(delta, path, (4, 4))
    update(table, {"n": "9"}, "id = 3 AND n = 7")
    lose(second, ConcurrentAppendException)


def test_a_merge_that_changes_the_schema(delta: SparkSession, path: str) -> None:
    """Covers race 46 on Spark, on both sides."""
    table = table_of(delta, path)
    source = rows_of(delta, [(90, 90)]).withColumn("extra", F.lit("x")).alias("s")
    growing = MergeStatement(source=source, condition="t.id = s.id", not_matched=[INSERT_ALL], alias="t", evolves=True)
    ours = prepare_merge(table, upsert(delta, (3, 30)))
    other = dataclasses.replace(growing, source=source.withColumnRenamed("extra", "more").alias("s"))
    late = prepare_merge(table, other)
    merge(table, growing)
    lose(ours, MetadataChangedException)
    lose(late, MetadataChangedException)
    assert [row.extra for row in delta.read.format("delta").load(path).where("id >= 19").orderBy("id").collect()] == [
        None,
        "x",
    ]


@pytest.mark.parametrize("by", [(), ("part",)], ids=["one file", "partitioned"])
def test_without_vectors_files_decide(delta: SparkSession, path: str, by: tuple[str, ...]) -> None:
    """Other rows of a file are enough for a conflict; other partitions are not."""
    table = table_of(delta, path, by=by, enableDeletionVectors="false")
    odd = MergeStatement(
        source=rows_of(delta, [(1, 10), (81, 81)]).alias("s"),
        condition="t.id = s.id AND t.part = 1",
        matched=[UPDATE_ALL],
        not_matched=[INSERT_ALL],
        alias="t",
    )
    ours = prepare_merge(table, odd)
    update(table, {"n": "-1"}, "part = 0 AND id = 4")
    if by:
        commit_with_retries(ours)
        assert rows_in(delta, path) == expected({1: 10, 81: 81, 4: -1})
    else:
        lose(ours, DeltaConcurrentModificationException)
        assert rows_in(delta, path) == expected({4: -1})


def test_done_again(delta: SparkSession, path: str) -> None:
    """A conflict is mended by executing the statement again: each of two counters counts."""
    table = table_of(delta, path)
    add_one = statement(delta, [(3, 1)], UpdateClause(values={"n": "t.n + s.n"}), INSERT_ALL)
    for prepared in [prepare_merge(table, add_one) for _ in range(2)]:
        with prepared:
            try:
                prepared.commit()
            except ConcurrentAppendException:
                merge(table, add_one, conflict_retries=1)
    assert dict(rows_in(delta, path))[3] == 5
