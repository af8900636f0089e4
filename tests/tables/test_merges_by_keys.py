"""MERGE whose source reads the table by the keys of a batch, as AutoCDC and programs that keep a history do."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest import mock

import pytest
from pyspark.sql import DataFrame, SparkSession

from anabranch.commands.merge import merge_command
from anabranch.errors.commits import ConflictReason
from anabranch.exceptions import DeltaConcurrentModificationException
from anabranch.spark.native import plan_joins
from anabranch.spark.rows import cached_rows
from session_kinds import in_this_process
from tables.races import beaten_to_the_commit

pytestmark = [pytest.mark.spark, pytest.mark.long, in_this_process]

EARLIEST = "SELECT k, min(seq) AS first FROM batch GROUP BY k"
BEFORE = f"SELECT k, max(seq) AS last FROM (SELECT k, seq FROM {{t}} UNION ALL SELECT k, seq FROM aside) JOIN ({EARLIEST}) USING (k) WHERE seq < first GROUP BY k"
SINCE = f"SELECT k, coalesce(last, first) AS since FROM ({EARLIEST}) LEFT JOIN ({BEFORE}) USING (k)"
AFFECTED = f"SELECT k, seq, v FROM {{t}} JOIN ({SINCE}) USING (k) WHERE seq >= since"
HISTORY = f"SELECT k, seq, v, lead(seq) OVER (PARTITION BY k ORDER BY seq) AS until FROM (SELECT k, seq, v FROM batch UNION ALL {AFFECTED})"
"""The rows of the batch's keys from the last one before the batch on, each with the time of the next."""
GONE = f"SELECT k, seq, v, -1 AS until FROM ({AFFECTED}) a LEFT ANTI JOIN ({HISTORY}) h ON a.k = h.k AND a.seq = h.seq"
"""No rows. Spark moves this join below the one with the keys of the batch."""
KEEP = (
    f"MERGE INTO {{t}} AS t USING ({HISTORY} UNION ALL {GONE}) AS s ON t.k = s.k AND t.seq = s.seq "
    "WHEN MATCHED THEN UPDATE SET until = s.until WHEN NOT MATCHED THEN INSERT *"
)
OTHERS = ("UPDATE {t} SET v = 'x' WHERE k = 5", "DELETE FROM {t} WHERE k = 6", "UPDATE {t} SET k = 9 WHERE k = 7")
SAME = (
    "UPDATE {t} SET v = 'x' WHERE k = 1",
    "DELETE FROM {t} WHERE k = 1 AND seq = 10",
    "UPDATE {t} SET k = 2, seq = 20 WHERE k = 5",
)
"""Rows of a key of the batch change, go, come."""


@pytest.fixture
def table(delta: SparkSession, path: str) -> Iterator[str]:
    """A history with one time of each key, and a batch with late and new times of keys 1 and 2 and a new key 20."""
    name = f"delta.`{path}`"
    delta.sql(
        f"CREATE TABLE {name} USING delta AS SELECT /*+ COALESCE(1) */ id AS k, 10 AS seq, concat('v', id) AS v, "
        "CAST(NULL AS INT) AS until FROM range(10)"
    )
    delta.sql("CREATE OR REPLACE TEMP VIEW aside AS SELECT * FROM VALUES (1L, 3), (1L, 4) AS v(k, seq)")
    batch = delta.sparkContext.parallelize([(1, 12, "a"), (1, 5, "b"), (2, 11, "c"), (20, 1, "d")], 2)
    delta.createDataFrame(batch, "k long, seq int, v string").createOrReplaceTempView("batch")
    yield name
    delta.catalog.dropTempView("aside")
    delta.catalog.dropTempView("batch")


def merge(spark: SparkSession, table: str, statement: str = KEEP) -> Callable[[], object]:
    return lambda: spark.sql(statement.format(t=table))


def history(spark: SparkSession, table: str) -> list[tuple[object, ...]]:
    return [
        tuple(row)
        for row in spark.sql(f"SELECT k, seq, until FROM {table} WHERE k IN (1, 2, 20) ORDER BY ALL").collect()
    ]


KEPT = [(1, 5, 10), (1, 10, 12), (1, 12, None), (2, 10, 11), (2, 11, None), (20, 1, None)]


def test_a_merge_by_keys_of_a_batch_is_judged_by_these_keys(delta: SparkSession, table: str) -> None:
    for winner in OTHERS:
        beaten_to_the_commit(delta, merge(delta, table), winner.format(t=table))
        assert history(delta, table) == KEPT
        delta.sql(f"RESTORE TABLE {table} TO VERSION AS OF 0")
    for winner in SAME:
        with pytest.raises(DeltaConcurrentModificationException) as raised:
            beaten_to_the_commit(delta, merge(delta, table), winner.format(t=table))
        assert raised.value.reason is ConflictReason.ROW_LEVEL_CHANGES
        delta.sql(f"RESTORE TABLE {table} TO VERSION AS OF 0")


OTHER_SIDES = {
    "a value of several rows": "SELECT min(k) AS k FROM batch",
    "a value of a group": "SELECT max(k) AS k FROM batch GROUP BY v",
    "rows of the table": "SELECT max(k) AS k FROM {t} GROUP BY seq",
    "rows that may lack": "SELECT b.k FROM (SELECT DISTINCT seq FROM aside) a LEFT JOIN batch b ON a.seq = b.seq",
}
"""Rows to join with whose keys are not, or not only, those of rows that stay the same."""


@pytest.mark.parametrize("shape", OTHER_SIDES)
def test_keys_that_are_made_of_rows_narrow_nothing(delta: SparkSession, table: str, shape: str) -> None:
    """Unknown means abort."""
    source = f"SELECT DISTINCT t.k, t.seq FROM {{t}} t JOIN ({OTHER_SIDES[shape]}) o ON t.k <=> o.k"
    statement = (
        f"MERGE INTO {{t}} t USING ({source}) s ON t.k = s.k WHEN MATCHED THEN UPDATE SET until = s.seq "
        "WHEN NOT MATCHED THEN INSERT (k, until) VALUES (s.k, s.seq)"
    )
    delta.sql(f"INSERT INTO {table} VALUES (NULL, 10, 'n', NULL)")
    with pytest.raises(DeltaConcurrentModificationException):
        beaten_to_the_commit(delta, merge(delta, table, statement), OTHERS[0].format(t=table))


def test_a_join_that_adds_a_null_is_found(delta: SparkSession, table: str) -> None:
    """A planted rule: the optional side of a join is taken for all of its values. The missing row's key is NULL."""
    delta.sql(f"INSERT INTO {table} VALUES (NULL, 10, 'n', NULL)")
    source = f"SELECT 3L AS k, count(*) AS n FROM {{t}} t JOIN ({OTHER_SIDES['rows that may lack']}) o ON t.k <=> o.k"
    statement = f"MERGE INTO {{t}} t USING ({source}) s ON t.k = s.k WHEN MATCHED THEN UPDATE SET until = s.n"
    gone = f"DELETE FROM {table} WHERE k IS NULL"
    with mock.patch.dict(plan_joins._SIDES_WITHOUT_NEW_VALUES, LeftOuter=(1,)):
        beaten_to_the_commit(delta, merge(delta, table, statement), gone)
    # After the delete there is no such row to count.
    assert delta.sql(f"SELECT until FROM {table} WHERE k = 3").collect() == [(2,)]
    delta.sql(f"RESTORE TABLE {table} TO VERSION AS OF 1")
    with pytest.raises(DeltaConcurrentModificationException):
        beaten_to_the_commit(delta, merge(delta, table, statement), gone)


def test_a_batch_is_evaluated_once(delta: SparkSession, table: str, tmp_path: Path) -> None:
    """With the planted rule, that a batch would have the same rows again, a MERGE lands that is wrong."""
    calls = tmp_path / "calls"
    calls.mkdir()
    folder = str(calls)

    def next_key(_: int) -> tuple[int, int, str]:
        for number in itertools.count():
            try:
                Path(folder, str(number)).touch(exist_ok=False)
            except FileExistsError:
                continue
            return (1 if number == 0 else 2, 11, "a")
        raise AssertionError

    rows = delta.sparkContext.parallelize([0], 1).map(next_key)
    delta.createDataFrame(rows, "k long, seq int, v string").createOrReplaceTempView("batch")
    source = "SELECT 3L AS k, t.v FROM {t} t JOIN batch USING (k)"
    statement = f"MERGE INTO {{t}} t USING ({source}) s ON t.k = s.k WHEN MATCHED THEN UPDATE SET v = concat(s.v, '!')"
    winner = f"UPDATE {table} SET v = 'x' WHERE k = 1"

    def same(frame: DataFrame) -> cached_rows.CachedRows:
        return cached_rows.CachedRows(frame=frame, release=lambda: None)

    def is_same(joins: plan_joins.Joins, node: object) -> bool:
        return right(joins, node) or str(node.nodeName()).startswith("LogicalRDD")  # type: ignore[attr-defined]

    right = plan_joins.Joins._is_repeatable_node
    with (
        mock.patch.object(merge_command, "with_kept_batches", same),
        mock.patch.object(plan_joins.Joins, "_is_repeatable_node", is_same),
        mock.patch.object(merge_command, "materialize", lambda source, counts: cached_rows._checkpointed(source)),
    ):
        beaten_to_the_commit(delta, merge(delta, table, statement), winner)
    assert delta.sql(f"SELECT v FROM {table} WHERE k = 3").collect() == [("v1!",)]
    for made in calls.iterdir():
        made.unlink()
    delta.sql(f"RESTORE TABLE {table} TO VERSION AS OF 0")
    with pytest.raises(DeltaConcurrentModificationException):
        beaten_to_the_commit(delta, merge(delta, table, statement), winner)
    assert len(list(calls.iterdir())) == 1
