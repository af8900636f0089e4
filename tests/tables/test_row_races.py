"""Statements that lose a race on Spark: prepared, then another lands, then they commit."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F

from anabranch.commands.dml.delete import prepare_delete
from anabranch.commands.dml.statement import Prepared, run_statement
from anabranch.commands.dml.update import prepare_update
from anabranch.errors.commits import ConflictReason
from anabranch.exceptions import (
    ConcurrentAppendException,
    ConcurrentDeleteDeleteException,
    ConcurrentDeleteReadException,
    DeltaConcurrentModificationException,
)
from anabranch.tables import DeltaTable
from anabranch.transactions.statement_retry import Attempt
from session_kinds import table_ref
from tables.made_tables import numbered_table
from tables.races import commit_with_retries, lose
from tables.statements import delete, update

pytestmark = [pytest.mark.spark, pytest.mark.long]


def values(delta: SparkSession, path: str) -> dict[int, int]:
    rows = delta.read.format("delta").load(path).collect()
    assert len({row.id for row in rows}) == len(rows), "no row is there twice"
    return {row.id: row.n for row in rows}


def append(delta: SparkSession, path: str, *rows: tuple[int, int]) -> None:
    frame = delta.createDataFrame([(id_, n, id_ % 2) for id_, n in rows], "id long, n long, part long")
    frame.write.format("delta").mode("append").save(path)


@pytest.mark.parametrize("by", [(), ("part",)], ids=["one file", "partitioned"])
def test_different_rows_of_one_file(delta: SparkSession, path: str, by: tuple[str, ...]) -> None:
    """Covers races 1, 3 and 61 on Spark."""
    table = numbered_table(delta, path, by=by)
    ours = prepare_delete(table, "id = 3")
    other = prepare_update(table, {"n": "n + 100"}, "id IN (5, 7)")
    delete(table, "id = 1")
    update(table, {"n": "n + 100"}, "id = 9")
    commit_with_retries(ours)
    commit_with_retries(other)
    expected = {id_: id_ + (100 if id_ in (5, 7, 9) else 0) for id_ in range(20) if id_ not in (1, 3)}
    assert values(delta, path) == expected


def test_a_subquery_over_another_table_keeps_the_condition_beside_it(
    delta: SparkSession, path: str, tmp_path: Path
) -> None:
    """Covers bug B71: in the condition of an UPDATE, or in its values; over the table itself any row may matter."""
    table = numbered_table(delta, path, by=("part",))
    other = str(tmp_path / "other")
    delta.sql("SELECT 3L AS k, 7L AS w").write.format("delta").save(other)
    beside = f"part = 1 AND id IN (SELECT k FROM delta.`{other}`)"
    ours = prepare_update(table, {"n": "70"}, beside)
    append(delta, path, (100, 100))
    commit_with_retries(ours)
    ours = prepare_update(table, {"n": f"(SELECT max(w) FROM delta.`{other}`)"}, "part = 1 AND id = 5")
    append(delta, path, (102, 102))
    commit_with_retries(ours)
    rows = values(delta, path)
    assert (rows[3], rows[5], rows[100], rows[102]) == (70, 7, 100, 102)
    ours = prepare_update(table, {"n": f"(SELECT max(n) FROM delta.`{path}`)"}, "part = 1 AND id = 7")
    update(table, {"n": "n + 1"}, "id = 2")
    lose(ours, DeltaConcurrentModificationException)


def test_rows_that_a_subquery_over_another_table_found_are_known(
    delta: SparkSession, path: str, tmp_path: Path
) -> None:
    """Covers bug B72: what others do to other rows of the same file is no conflict, though the condition cannot be evaluated for new rows."""
    table, other = numbered_table(delta, path), str(tmp_path / "other")
    batches = delta.createDataFrame([(1, 3), (1, 4), (2, 5), (2, 6)], "batch INT, k LONG")
    batches.write.format("delta").save(other)

    def of_batch(batch: int, correlated: bool) -> str:
        if correlated:
            return f"EXISTS (SELECT 1 FROM delta.`{other}` o WHERE o.k = id AND o.batch = {batch})"
        return f"id IN (SELECT k FROM delta.`{other}` WHERE batch = {batch})"

    for correlated in (False, True):
        ours = prepare_delete(table, of_batch(1, correlated))
        delete(table, of_batch(2, correlated))
        commit_with_retries(ours)
        assert values(delta, path).keys() == set(range(20)) - {3, 4, 5, 6}
        delta.sql(f"RESTORE TABLE delta.`{path}` TO VERSION AS OF 0")
    ours = prepare_delete(table, of_batch(1, correlated=False))
    delete(table, "id = 3")
    lose(ours, ConcurrentDeleteDeleteException)
    ours = prepare_update(table, {"n": "n + 1"}, of_batch(1, correlated=False))
    update(table, {"n": "n + 1"}, "id = 9")
    lose(ours, ConcurrentAppendException)


def test_the_same_row_deleted_twice(delta: SparkSession, path: str) -> None:
    """Covers race 2 on Spark."""
    table = numbered_table(delta, path)
    ours = prepare_delete(table, "id IN (2, 3)")
    delete(table, "id = 3")
    lost = lose(ours, ConcurrentDeleteDeleteException)
    assert lost.reason is ConflictReason.ROW_LEVEL_CHANGES
    assert lost.version == 1
    assert lost.operation == "DELETE"
    assert any("id = 3" in key for key in lost.example_keys), lost.example_keys
    assert 2 in values(delta, path)


@pytest.mark.parametrize("first", ["update", "delete"])
def test_an_update_and_a_delete_of_one_row(delta: SparkSession, path: str, first: str) -> None:
    """Covers races 4 and 5 on Spark."""
    table = numbered_table(delta, path)
    if first == "update":
        ours = prepare_delete(table, "id = 4")
        update(table, {"part": "9"}, "id = 4")
    else:
        ours = prepare_update(table, {"n": "0"}, "id = 4")
        delete(table, "id = 4")
    # The error names the rows that an UPDATE wrote before those that it removed.
    lose(ours, ConcurrentAppendException if first == "update" else ConcurrentDeleteDeleteException)


def test_a_row_moves_into_our_condition(delta: SparkSession, path: str) -> None:
    """Covers race 15 on Spark: merging disjoint vectors would not be enough."""
    table = numbered_table(delta, path)
    ours = prepare_delete(table, "n >= 100")
    update(table, {"n": "n + 100"}, "id = 4")
    assert ours.actions == ()
    second = prepare_update(table, {"part": "9"}, "n = 5 OR n = 200")
    update(table, {"n": "200"}, "id = 6")
    lost = lose(second, ConcurrentAppendException)
    assert any("n = 200" in key for key in lost.example_keys), lost.example_keys


def test_rows_that_stay_outside_do_not_matter(delta: SparkSession, path: str) -> None:
    """Covers races 17 and 19 on Spark: Spark evaluates the condition for the winner's rows, as it was written."""
    table = numbered_table(delta, path)
    ours = prepare_update(table, {"n": "-1"}, "n % 7 = 5 AND concat('x', id) LIKE 'x_'")
    update(table, {"n": "n + 1"}, "id = 6")
    append(delta, path, (40, 8))
    commit_with_retries(ours)
    assert values(delta, path) == {id_: id_ for id_ in range(20)} | {5: -1, 6: 7, 40: 8}


@pytest.mark.parametrize("level", ["Serializable", "WriteSerializable"])
def test_a_blind_append_of_rows_that_match(delta: SparkSession, path: str, level: str) -> None:
    """Covers race 18 on Spark."""
    table = numbered_table(delta, path, isolationLevel=level)
    ours = prepare_delete(table, "n < 2")
    append(delta, path, (50, 1))
    if level == "Serializable":
        lost = lose(ours, ConcurrentAppendException)
        assert any("id = 50" in key for key in lost.example_keys), lost.example_keys
    else:
        commit_with_retries(ours)
        assert {0, 1}.isdisjoint(values(delta, path))
        assert values(delta, path)[50] == 1


def test_nested_conditions_are_judged_by_rows(delta: SparkSession, path: str) -> None:
    """Covers race 31: conditions on a struct, an array and a map."""
    frame = delta.range(0, 8, 1, 1).select(
        "id",
        F.struct("id").alias("s"),
        F.array("id").alias("a"),
        F.create_map(F.lit("k"), F.col("id")).alias("m"),
    )
    frame.write.format("delta").option("delta.isolationLevel", "Serializable").save(path)
    table = table_ref(delta, path)
    for condition, row in (("s.id = 1", 1), ("array_contains(a, 2)", 2), ("m['k'] = 3", 3)):
        ours = prepare_delete(table, condition)
        delete(table, f"id = {row + 3}")
        frame.where("id = 0").withColumn("id", F.col("id") + 100 + row).write.format("delta").mode("append").save(path)
        commit_with_retries(ours)
        hit = prepare_delete(table, condition.replace(str(row), "7"))
        frame.where("id = 7").withColumn("id", F.col("id") + 100).write.format("delta").mode("append").save(path)
        lose(hit, ConcurrentAppendException)
        delete(table, "id = 107")
    assert {row.id for row in rows_of(delta, path)} == {0, 7, 101, 102, 103}


def rows_of(delta: SparkSession, path: str) -> list[Row]:
    return list(delta.read.format("delta").load(path).collect())


def test_values_that_compare_in_odd_ways(delta: SparkSession, path: str) -> None:
    """Covers race 35: -0.0, NaN, and text that differs by trailing spaces of CHAR."""
    DeltaTable.create(delta).location(path).addColumn("id", "INT").addColumn("x", "DOUBLE").addColumn(
        "c", "CHAR(3)"
    ).property("delta.isolationLevel", "Serializable").execute()

    def insert(id_: int, x: str, c: str) -> None:
        rows = delta.createDataFrame([(id_, float(x), c)], "id int, x double, c string")
        rows.coalesce(1).write.format("delta").mode("append").save(path)

    insert(1, "1.5", "b")
    table = table_ref(delta, path)
    for number, (condition, hit, miss) in enumerate(
        [
            ("x = 0.0 OR id = 1", ("-0.0", "q"), ("2.0", "q")),
            ("x > 1e308 OR id = 1", ("NaN", "q"), ("1e307", "q")),
            ("c = 'a' OR id = 1", ("9.0", "a"), ("9.0", "aa")),
        ]
    ):
        ours = prepare_update(table, {"x": "x"}, condition)
        insert(10 + number, *miss)
        commit_with_retries(ours)
        ours = prepare_update(table, {"x": "x"}, condition)
        insert(20 + number, *hit)
        lose(ours, ConcurrentAppendException)


def test_the_clock_of_a_condition_is_constant(delta: SparkSession, path: str) -> None:
    """Covers race 30: what `current_date()` meant when the table was read, it means for the winner's rows too."""
    frame = delta.sql("SELECT 1L AS id, DATE'2000-01-01' AS day")
    frame.write.format("delta").option("delta.isolationLevel", "Serializable").save(path)
    table = table_ref(delta, path)
    ours = prepare_delete(table, "day < current_date()")
    (scan,) = ours.transaction.reads().scans
    assert scan.reevaluate is not None
    delta.sql("SELECT 2L AS id, date_add(current_date(), 1) AS day").write.format("delta").mode("append").save(path)
    commit_with_retries(ours)
    assert [row.id for row in rows_of(delta, path)] == [2]


@pytest.mark.parametrize("condition", ["rand() >= 0 AND id < 3", "id IN (SELECT max(id) - 17 FROM range(20))"])
def test_conditions_that_cannot_be_evaluated_again(delta: SparkSession, path: str, condition: str) -> None:
    """Covers races 24 and 29 on Spark: any change may matter to them."""
    table = numbered_table(delta, path)
    ours = prepare_delete(table, condition)
    update(table, {"n": "0"}, "id = 19")
    lose(ours, DeltaConcurrentModificationException)
    assert len(values(delta, path)) == 20


def test_write_skew(delta: SparkSession, path: str) -> None:
    """Covers race 25 on Spark: each of two doctors may leave while the other stays."""
    frame = delta.createDataFrame([(1, True), (2, True)], "id long, duty boolean")
    frame.coalesce(1).write.format("delta").save(path)
    table = table_ref(delta, path)
    delta.read.format("delta").load(path).createOrReplaceTempView("on_call")

    def leave(doctor: int) -> Mapping[str, str]:
        return {"duty": f"(SELECT count(*) FROM on_call WHERE duty AND id <> {doctor}) = 0"}

    ours = prepare_update(table, leave(1), "id = 1")
    update(table, leave(2), "id = 2")
    lose(ours, DeltaConcurrentModificationException)


IN_OTHER_TABLE = "part = 1 AND n IN (SELECT k FROM other_rows)"


@pytest.mark.parametrize(
    "condition",
    [
        IN_OTHER_TABLE,
        "n IN (SELECT k FROM other_rows) AND part + 1 = 2 AND part = 1",
        "part IN (1, 3) AND EXISTS (SELECT 1 FROM other_rows WHERE k = n) AND (n > 0 OR n = (SELECT max(k) FROM other_rows))",
    ],
)
def test_conditions_beside_a_subquery_narrow_files_and_conflicts(
    delta: SparkSession, path: str, condition: str
) -> None:
    """A subquery over another table is no look at the rest of this one."""
    table = numbered_table(delta, path, by=("part",))
    delta.range(3, 6).toDF("k").createOrReplaceTempView("other_rows")
    read = table.latest().files.to_actions()
    ours = prepare_delete(table, condition)
    (scan,) = ours.transaction.reads().scans
    assert isinstance(scan.files, np.ndarray)
    assert scan.files.tolist() == [file.partition_values["part"] == "1" for file in read]
    update(table, {"n": "n + 100"}, "part = 0")
    append(delta, path, (40, 4))
    commit_with_retries(ours)
    assert set(values(delta, path)) == {*range(20), 40} - {3, 5}


@pytest.mark.parametrize("change", ["append", "update"])
def test_a_subquery_reads_all_rows_of_its_partition(delta: SparkSession, path: str, change: str) -> None:
    table = numbered_table(delta, path, by=("part",), isolationLevel="Serializable")
    delta.range(3, 6).toDF("k").createOrReplaceTempView("other_rows")
    ours = prepare_update(table, {"n": "0"}, IN_OTHER_TABLE)
    if change == "append":
        append(delta, path, (41, 3))
        lose(ours, ConcurrentAppendException)
    else:
        update(table, {"n": "3"}, "part = 1 AND id = 9")
        lost = lose(ours, DeltaConcurrentModificationException)
        assert "subquery" in str(lost)
        assert "a condition on a partition column" not in str(lost), "there is one"


def test_a_subquery_over_the_table_itself_reads_all_of_it(delta: SparkSession, path: str) -> None:
    table = numbered_table(delta, path, by=("part",))
    delta.read.format("delta").load(path).createOrReplaceTempView("itself")
    ours = prepare_delete(table, "part = 1 AND n = 1 + (SELECT max(n) FROM itself WHERE part = 0)")
    update(table, {"n": "-1"}, "id = 18")
    lose(ours, DeltaConcurrentModificationException)


def test_an_old_frame_in_a_subquery_is_a_read(delta: SparkSession, path: str) -> None:
    """What landed between the frame and the statement counts as a winner."""
    table = numbered_table(delta, path)
    delta.read.format("delta").load(path).createOrReplaceTempView("before")
    ours = prepare_delete(table, "id = (SELECT max(n) FROM before)")
    # The view showed the newest version when it was read; what lands after that is a winner.
    update(table, {"n": "50"}, "id = 1")
    lose(ours, DeltaConcurrentModificationException)


def test_without_vectors_files_decide(delta: SparkSession, path: str) -> None:
    table = numbered_table(delta, path, by=("part",), enableDeletionVectors="false")
    ours = prepare_update(table, {"n": "0"}, "part = 0 AND id = 2")
    update(table, {"n": "0"}, "part = 1 AND id = 3")
    commit_with_retries(ours)
    ours = prepare_update(table, {"n": "0"}, "part = 0 AND id = 2")
    update(table, {"n": "0"}, "part = 0 AND id = 4")
    lost = lose(ours, DeltaConcurrentModificationException)
    assert isinstance(lost, ConcurrentDeleteReadException | ConcurrentDeleteDeleteException | ConcurrentAppendException)
    assert "part=0" in str(lost.where)


def test_execution_again(delta: SparkSession, path: str) -> None:
    """A statement that may be executed again is, on the version that it lost to."""
    table = numbered_table(delta, path)
    prepared = 0

    def prepare_and_lose(_: Attempt) -> Prepared:
        nonlocal prepared
        ours = prepare_update(table, {"n": "n + 1"}, "id = 3")
        prepared += 1
        if prepared <= 2:
            update(table, {"n": "n + 100"}, "id = 3")
        return ours

    outcome = run_statement(table, "UPDATE", prepare_and_lose, conflict_retries=2)
    assert outcome.committed is not None
    assert values(delta, path)[3] == 204
    assert DeltaTable.forPath(delta, path).history(1).collect()[0].operationMetrics["numReExecutions"] == "2"
    prepared = 0
    delta.conf.set("spark.anabranch.conflictRetries", "1")
    try:
        with pytest.raises(ConcurrentAppendException):
            run_statement(table, "UPDATE", prepare_and_lose)
    finally:
        delta.conf.unset("spark.anabranch.conflictRetries")


def test_an_insert_that_reads_its_own_table(delta: SparkSession, path: str) -> None:
    """Covers race 20 on Spark: it is no blind append, and what it read may not change."""
    table = numbered_table(delta, path, by=("part",))
    update(table, {"n": "0"}, "id = 2")
    again = delta.read.format("delta").load(path).where("part = 0 AND id < 4").withColumn("id", F.col("id") + 100)
    # By the plan, rows of another partition do not matter.
    update(table, {"n": "0"}, "id = 3")
    again.write.format("delta").mode("append").save(path)
    assert values(delta, path)[102] == 0
    info = DeltaTable.forPath(delta, path).history(1).collect()[0]
    assert info.isBlindAppend is False


def test_numbered_statements_are_done_once(delta: SparkSession, path: str) -> None:
    """Covers race 73's everyday side: an application that repeats a numbered statement changes nothing."""
    table = numbered_table(delta, path)
    settings = {"txnAppId": "loader", "txnVersion": "3", "txnVersion.autoReset.enabled": "true"}
    for name, value in settings.items():
        delta.conf.set(f"spark.databricks.delta.write.{name}", value)
    try:
        assert update(table, {"n": "n + 1"}, "id = 1").committed is not None
        assert delta.conf.get("spark.databricks.delta.write.txnVersion", None) is None
        delta.conf.set("spark.databricks.delta.write.txnVersion", "3")
        assert update(table, {"n": "n + 1"}, "id = 1").committed is None
    finally:
        for name in settings:
            delta.conf.unset(f"spark.databricks.delta.write.{name}")
    assert values(delta, path)[1] == 2


def test_an_overwrite_is_executed_again(delta: SparkSession, path: str) -> None:
    """A write takes the number of executions as an option."""
    numbered_table(delta, path)
    frame = delta.createDataFrame([(3, 7, 1)], "id long, n long, part long")
    writer = frame.write.format("delta").mode("overwrite").option("replaceWhere", "id = 3")
    writer.option("conflictRetries", "2").save(path)
    assert values(delta, path)[3] == 7
    with pytest.raises(ValueError, match="conflictRetries"):
        writer.option("conflictRetries", "often").save(path)
