"""Appends of several sessions of one process, as those of a server's clients, that land as one commit."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from pyspark.sql import SparkSession

from anabranch.errors.constraints import CheckConstraintViolationError
from anabranch.spark.session.delta_session import DeltaSession

pytestmark = pytest.mark.spark

SETTING = "spark.anabranch.groupCommit"
TABLES = {
    "with a rule": "CREATE TABLE {t} (id BIGINT, p INT) USING delta",
    "partitioned, with row ids and a change feed": (
        "CREATE TABLE {t} (id BIGINT, p INT) USING delta PARTITIONED BY (p) TBLPROPERTIES "
        "('delta.enableRowTracking' = 'true', 'delta.enableChangeDataFeed' = 'true')"
    ),
    "clustered": "CREATE TABLE {t} (id BIGINT, p INT) USING delta CLUSTER BY (id)",
}


@contextmanager
def clients(native: SparkSession, count: int) -> Iterator[list[SparkSession]]:
    sessions = [native.newSession() for _ in range(count)]
    for session in sessions:
        session.conf.set(SETTING, "true")
    yield sessions


def run_together(native: SparkSession, path: str, *statements: Callable[[], object]) -> list[Exception | None]:
    """Run these on a thread each. None commits before all wait, or have ended."""
    queue = DeltaSession.of(native).delta_log(path)._context.queue
    ends: list[Exception | None] = [None] * len(statements)
    ended: list[int] = []

    def run(number: int) -> None:
        try:
            statements[number]()
        except Exception as error:
            ends[number] = error
        ended.append(number)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(len(statements))]
    queue._turn_seconds_max = 300
    with queue.turn():
        for thread in threads:
            thread.start()
        deadline = time.monotonic() + 200
        while len(queue._waiting) + len(ended) < len(statements):
            assert time.monotonic() < deadline
            time.sleep(0.01)
    for thread in threads:
        thread.join(200)
    return ends


def append(session: SparkSession, path: str, start: int, **options: str) -> Callable[[], object]:
    rows = session.range(start, start + 10, 1, 1).selectExpr("id", "CAST(id % 2 AS INT) AS p")
    return lambda: rows.write.format("delta").mode("append").options(**options).save(path)


@pytest.mark.parametrize("kind", TABLES)
def test_appends_of_clients_land_as_one_commit(native: SparkSession, path: str, kind: str) -> None:
    name = f"delta.`{path}`"
    native.sql(TABLES[kind].format(t=name))
    native.sql(f"ALTER TABLE {name} ADD CONSTRAINT positive CHECK (id >= 0)")
    with clients(native, 4) as (one, two, three, bad):
        ends = run_together(
            native,
            path,
            append(one, path, 0),
            append(two, path, 100),
            lambda: three.sql(f"INSERT INTO {name} VALUES (200, 0), (201, 1)"),
            append(bad, path, -5),
        )
    assert ends[:3] == [None, None, None]
    assert isinstance(ends[3], CheckConstraintViolationError)
    newest, *_ = native.sql(f"DESCRIBE HISTORY {name}").collect()
    assert (newest.version, newest.operation) == (2, "WRITE")
    assert newest.operationMetrics["numOutputRows"] == "22"
    assert newest.operationMetrics["numGroupedAppends"] == "3"
    assert newest.isBlindAppend
    ids = sorted(row.id for row in native.sql(f"SELECT id FROM {name}").collect())
    assert ids == [*range(10), *range(100, 110), 200, 201]
    if "row ids" in kind:
        row_ids = [row[0] for row in native.sql(f"SELECT _metadata.row_id FROM {name}").collect()]
        assert len(set(row_ids)) == 22
        changes = native.sql(f"SELECT * FROM table_changes_by_path('{path}', 2)").collect()
        assert {(row._change_type, row._commit_version) for row in changes} == {("insert", 2)}
        assert len(changes) == 22


def test_without_the_setting_and_with_a_number_appends_are_commits_of_their_own(
    native: SparkSession, path: str
) -> None:
    native.sql(f"CREATE TABLE delta.`{path}` (id BIGINT, p INT) USING delta")
    with clients(native, 3) as (plain, numbered, grouped):
        plain.conf.unset(SETTING)
        ends = run_together(
            native,
            path,
            append(plain, path, 0),
            append(numbered, path, 100, txnAppId="app", txnVersion="1"),
            append(grouped, path, 200),
        )
    assert ends == [None, None, None]
    history = native.sql(f"DESCRIBE HISTORY delta.`{path}`").collect()
    assert [row.operation for row in history] == ["WRITE"] * 3 + ["CREATE TABLE"]
    assert all("numGroupedAppends" not in row.operationMetrics for row in history)
    assert native.read.format("delta").load(path).count() == 30
