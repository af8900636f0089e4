"""INSERT … SELECT from the very table where no plan is at hand: what the words of the query tell."""

from __future__ import annotations

import os
from collections import Counter
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession

from anabranch.commands.own_reads import OwnFilter
from anabranch.commands.table_access import table_named
from anabranch.connect.sql.own_filter import filter_of_own_rows
from anabranch.connect.sql.rewriting_call import RewritingCall
from anabranch.exceptions import DeltaConcurrentModificationException
from anabranch.spark.delta_session import DeltaSession
from anabranch.spark.session_identity import own_sql
from anabranch.sql.grammar.cursor import Fragment
from tables.races import beaten

ENGINE = "connect" if "ANABRANCH_TEST_CONNECT" in os.environ else "portable"
pytestmark = [pytest.mark.spark, pytest.mark.parametrize("delta", [ENGINE], indirect=True)]


@pytest.fixture
def told(delta: SparkSession, path: str) -> str:
    """Ten rows in one file. `part` is `id % 2`, `n` is `id % 5`, and row 0 has no `n`."""
    rows = [(i, i % 5 if i else None, i % 2) for i in range(10)]
    delta.createDataFrame(rows, "id long, n long, part long").coalesce(1).write.format("delta").save(path)
    return f"delta.`{path}`"


def filter_of(delta: SparkSession, name: str, query: str) -> OwnFilter | None:
    session = DeltaSession.of(delta)
    call = RewritingCall(session, lambda text, args, **frames: own_sql(delta, text, **frames), None)
    return filter_of_own_rows(call, table_named(session, name), Fragment(source=query, start=0, end=len(query)))


def rows(delta: SparkSession, query: str) -> Counter[Row]:
    return Counter(delta.sql(query).collect())


@pytest.mark.parametrize(
    "query",
    [
        "SELECT id + 1000 AS id, n, part FROM {t} WHERE n = 3",
        "SELECT x.id + 1000 AS id, x.n, cast(part AS BIGINT) FROM {t} AS x WHERE abs(x.n) = 3 AND id IN (3, 8)",
    ],
)
def test_a_plain_query_does_not_lose_to_a_writer_of_other_rows(delta: SparkSession, told: str, query: str) -> None:
    """F14. The winner changes a row of the same file that the query does not read."""
    before = rows(delta, query.format(t=told))
    beaten(delta, f"INSERT INTO {told} {query.format(t=told)}", f"UPDATE {told} SET part = 7 WHERE id = 1")
    assert rows(delta, f"SELECT * FROM {told} WHERE id > 1000") == before
    assert rows(delta, f"SELECT id FROM {told} WHERE part = 7") == {(1,): 1}


@pytest.mark.parametrize(
    "winner",
    ["UPDATE {t} SET n = 3 WHERE id = 1", "UPDATE {t} SET part = 7 WHERE id = 3", "DELETE FROM {t} WHERE id = 3"],
)
def test_a_plain_query_loses_to_a_writer_of_those_rows(delta: SparkSession, told: str, winner: str) -> None:
    """F14. Covers races 15, 16 and 20 for INSERT."""
    insert = f"INSERT INTO {told} SELECT id + 1000, n, part FROM {told} WHERE n = 3"
    with pytest.raises(DeltaConcurrentModificationException):
        beaten(delta, insert, winner.format(t=told))


def test_an_aggregate_loses_to_whoever_changes_the_file(delta: SparkSession, told: str) -> None:
    insert = f"INSERT INTO {told} SELECT max(id) + 1000, 0L, 0L FROM {told} WHERE n = 3"
    with pytest.raises(DeltaConcurrentModificationException):
        beaten(delta, insert, f"UPDATE {told} SET part = 7 WHERE id = 1")


def test_only_plain_queries_are_told_by_their_words(delta: SparkSession, told: str) -> None:
    """Whatever is not known, or is not row by row, is judged by files."""
    plain = filter_of(delta, told, f"SELECT id, n, part FROM {told} x WHERE x.n = 3 -- all of it")
    assert plain == OwnFilter(condition="x.n = 3", alias="x")
    others: list[Any] = [
        "SELECT * FROM {t}",
        "SELECT DISTINCT id, n, part FROM {t} WHERE n = 3",
        "SELECT count(*), 0L, 0L FROM {t} WHERE n = 3",
        "SELECT n, n, n FROM {t} WHERE n = 3 GROUP BY n",
        "SELECT * FROM {t} WHERE n = 3 ORDER BY id LIMIT 1",
        "SELECT * FROM {t} WHERE n = 3 LIMIT 1",
        "SELECT sum(id) OVER (), n, part FROM {t} WHERE n = 3",
        "SELECT id, n, part FROM {t} WHERE n = 3 UNION ALL SELECT * FROM {t} WHERE n = 2",
        "SELECT id, (SELECT max(id) FROM {t}), part FROM {t} WHERE n = 3",
        "SELECT * FROM {t} WHERE id = (SELECT max(id) FROM {t})",
        "SELECT * FROM (SELECT * FROM {t}) WHERE n = 3",
        "SELECT x.* FROM {t} x JOIN range(3) y ON x.id = y.id WHERE n = 3",
        "SELECT x.* FROM {t} x, range(3) y WHERE n = 3",
        "SELECT x.* FROM range(3) y, {t} x WHERE n = 3",
        "SELECT * FROM {t} TABLESAMPLE (5 ROWS) WHERE n = 3",
        "SELECT * FROM {t} VERSION AS OF 0 WHERE n = 3",
        "SELECT id, n, part FROM {t} WHERE n = 3 AND rand() < 2",
        "SELECT id, n, part FROM {t} WHERE n = 3 AND current_date() > DATE'2000-01-01'",
        "SELECT mine(id), n, part FROM {t} WHERE n = 3",
        "SELECT TRANSFORM(id, n, part) USING 'cat' FROM {t} WHERE n = 3",
        "SELECT * FROM {t} WHERE n = 3 |> LIMIT 1",
        "FROM {t} SELECT * WHERE n = 3",
        "WITH t AS (SELECT 1) SELECT * FROM {t} WHERE n = 3",
        "SELECT id, n, part FROM range(3) WHERE id = 3",
    ]
    assert {query: filter_of(delta, told, query.format(t=told)) for query in others} == dict.fromkeys(others)
