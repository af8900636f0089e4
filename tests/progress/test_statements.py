"""What the statements themselves report, in a real session."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from pyspark.sql import SparkSession

import anabranch
from anabranch.exceptions import ConcurrentAppendException
from anabranch.progress.progress_events import Progress
from anabranch.spark.session.delta_session import DeltaSession
from anabranch.tables import DeltaTable
from tables.races import beaten_to_the_commit

pytestmark = pytest.mark.spark

CREATE = (
    "CREATE TABLE {table} (id LONG, v LONG) USING delta TBLPROPERTIES ('delta.enableDeletionVectors' = '{vectors}')"
)


@pytest.fixture
def table(native: SparkSession, path: str) -> str:
    table = f"delta.`{path}`"
    native.sql(CREATE.format(table=table, vectors="true"))
    for begin in (0, 50):
        native.sql(f"INSERT INTO {table} SELECT id, id % 3 FROM range({begin}, {begin + 50}, 1, 1)")
    return table


def reported(run: Callable[[], object]) -> list[Progress]:
    """The events of the work, which must be one statement that ends."""
    events: list[Progress] = []
    with anabranch.on_progress(events.append):
        run()
    assert len({event.statement for event in events}) == 1
    assert [event.ended for event in events] == [False] * (len(events) - 1) + [True]
    return events


def phases(events: list[Progress]) -> list[str]:
    """The phases in their order; one that is repeated at once counts once."""
    names = [event.phase for event in events]
    return [name for number, name in enumerate(names) if name and (not number or names[number - 1] != name)]


MERGE = (
    "MERGE INTO {table} t USING (SELECT id, 9L AS v FROM range(40, 120)) s ON t.id = s.id "
    "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
)


@pytest.mark.parametrize(
    ("statement", "operation", "expected"),
    [
        ("DELETE FROM {table} WHERE id % 2 = 0", "DELETE", ["find rows", "delete rows", "commit"]),
        (
            "UPDATE {table} SET v = 7 WHERE id % 2 = 0",
            "UPDATE",
            ["find rows", "delete rows", "write files", "commit"],
        ),
        (MERGE, "MERGE", ["read the source", "find matches", "delete rows", "write files", "commit"]),
        ("INSERT INTO {table} SELECT id, id FROM range(5)", "WRITE", ["write files", "commit"]),
        ("OPTIMIZE {table}", "OPTIMIZE", ["choose files", "rewrite files", "commit"]),
        ("VACUUM {table}", "VACUUM", ["list files", "commit", "delete files", "commit"]),
        ("RESTORE {table} TO VERSION AS OF 1", "RESTORE", ["compare versions", "check files", "commit"]),
        ("TRUNCATE TABLE {table}", "TRUNCATE", ["commit"]),
        (
            "ALTER TABLE {table} SET TBLPROPERTIES ('delta.enableRowTracking' = 'true')",
            "ROW TRACKING BACKFILL",
            ["commit", "give row ids", "commit"],
        ),
    ],
)
def test_a_statement_reports_its_phases(
    statement: str, operation: str, expected: list[str], native: SparkSession, table: str
) -> None:
    events = reported(lambda: native.sql(statement.format(table=table)).collect())
    assert phases(events) == expected
    assert {(event.operation, event.table) for event in events} == {(operation, table)}


def test_files_rows_and_bytes_are_counted(native: SparkSession, table: str) -> None:
    events = reported(lambda: native.sql(f"UPDATE {table} SET v = 7 WHERE id % 2 = 0"))
    assert ("find rows", 2) in {(event.phase, event.files_total) for event in events}
    (written,) = {
        (event.files_done, event.num_rows, event.size_bytes > 0)
        for event in events
        if event.phase == "write files" and event.files_done
    }
    assert written[1:] == (50, True)
    rewritten = [
        event for event in reported(lambda: native.sql(f"OPTIMIZE {table}").collect()) if event.phase == "rewrite files"
    ]
    assert rewritten[0].files_done == 0
    assert rewritten[-1].files_done == rewritten[-1].files_total
    assert rewritten[-1].size_bytes > 0


SLOW = (
    "INSERT INTO {table} SELECT id, length(java_method('java.lang.Thread', 'sleep', 300L)) FROM range(0, {n}, 1, {n})"
)
"""A write of `n` tasks, of which two run at once."""


def test_tasks_of_a_job_are_counted_while_it_runs(native: SparkSession, table: str) -> None:
    events = reported(lambda: native.sql(SLOW.format(table=table, n=12)))
    counted = [(event.tasks_done, event.tasks_total) for event in events if event.tasks_total and not event.files_done]
    assert {total for _, total in counted} == {12}
    assert len({done for done, _ in counted}) > 1
    assert counted == sorted(counted)
    assert {event.phase for event in events if event.tasks_total} == {"write files"}


def test_tasks_of_a_users_job_group_are_counted_by_statement(native: SparkSession, table: str) -> None:
    """A group of the user's may hold jobs of several statements, and others."""
    context = native.sparkContext
    events: list[Progress] = []

    def run(tasks: int) -> None:
        context.setJobGroup("nightly", "nightly load")
        native.range(0, 5, 1, 5).count()
        native.sql(SLOW.format(table=table, n=tasks))

    with anabranch.on_progress(events.append):
        threads = [threading.Thread(target=run, args=(tasks,)) for tasks in (8, 11)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    totals: dict[int, set[int]] = {}
    for event in events:
        if event.tasks_total:
            totals.setdefault(event.statement, set()).add(event.tasks_total)
    assert sorted(totals.values(), key=min) == [{8}, {11}]


def test_a_short_statement_counts_no_tasks(native: SparkSession, table: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counting is a call of the JVM: at most two a second, and none for a statement that ends within half a second."""
    requests: list[str] = []
    count = DeltaSession.count_tasks

    def counted(session: DeltaSession, tag: str, since_ms: int) -> tuple[int, int]:
        requests.append(tag)
        return count(session, tag, since_ms)

    monkeypatch.setattr(DeltaSession, "count_tasks", counted)
    short = reported(lambda: native.sql(f"INSERT INTO {table} VALUES (1, 1)"))
    assert (len(requests), short[-1].elapsed_ms < 500) in {(0, True), (1, False)}
    requests.clear()
    slow = reported(lambda: native.sql(SLOW.format(table=table, n=8)))
    assert 1 <= len(requests) <= slow[-1].elapsed_ms // 500
    assert len(set(requests)) == 1


def test_reorg_clone_and_drop_feature(native: SparkSession, table: str, path: str) -> None:
    native.sql(f"DELETE FROM {table} WHERE id % 2 = 0")
    clone = reported(lambda: DeltaTable.forPath(native, path).clone(f"{path} clone", isShallow=True))
    assert (clone[0].operation, phases(clone)) == ("CLONE", ["list files", "commit"])
    reorg = reported(lambda: native.sql(f"REORG TABLE {table} APPLY (PURGE)").collect())
    assert (reorg[0].operation, phases(reorg)) == ("REORG", ["choose files", "rewrite files", "commit"])
    native.sql(f"DELETE FROM {table} WHERE id % 3 = 0")
    drop = reported(lambda: DeltaTable.forPath(native, path).dropFeatureSupport("deletionVectors"))
    assert drop[0].operation == "DROP FEATURE"
    assert phases(drop)[:1] == ["remove uses of deletionVectors"]
    assert "rewrite files" in phases(drop)


def test_convert(native: SparkSession, path: str) -> None:
    native.range(0, 10, 1, 2).write.parquet(path)
    events = reported(lambda: DeltaTable.convertToDelta(native, f"parquet.`{path}`"))
    assert events[0].operation == "CONVERT"
    assert phases(events) == ["list files", "read footers", "collect statistics", "commit"]
    read = [event for event in events if event.phase == "read footers"][-1]
    assert (read.files_done, read.files_total, read.num_rows) == (2, 2, 10)


def test_a_conflict_and_its_repetition_are_said(native: SparkSession, table: str, path: str) -> None:
    winners = [f"UPDATE {table} SET v = 50 WHERE id = 3"]

    def win(progress: Progress) -> None:
        """Another writer changes the row once the statement has found it."""
        if progress.phase == "delete rows" and winners:
            winner = threading.Thread(target=native.sql, args=(winners.pop(),))
            winner.start()
            winner.join()

    events: list[Progress] = []
    with anabranch.on_progress(win), anabranch.on_progress(events.append):
        DeltaTable.forPath(native, path).update("id = 3", {"v": "v + 1"}, conflictRetries=2)
    ours = [event for event in events if event.statement == events[-1].statement]
    notes = list(dict.fromkeys(event.note for event in ours if event.note))
    assert notes == [
        "UPDATE landed version 3 first; this commit is rebased over it",
        "it lost to UPDATE, version 3; running again, 1 of at most 2 times",
    ]
    assert native.sql(f"SELECT v FROM {table} WHERE id = 3").collect() == [(51,)]


def test_a_statement_that_fails_ends(native: SparkSession, table: str, path: str) -> None:
    events: list[Progress] = []
    with anabranch.on_progress(events.append), pytest.raises(ConcurrentAppendException):
        beaten_to_the_commit(
            native,
            lambda: DeltaTable.forPath(native, path).update("id = 3", {"v": "v + 1"}),
            f"UPDATE {table} SET v = 50 WHERE id = 3",
        )
    assert events[-1].ended
    assert events[-1].phase == "commit"


def test_statements_of_threads_have_their_own_events(native: SparkSession, table: str) -> None:
    events: list[Progress] = []
    with anabranch.on_progress(events.append):
        threads = [
            threading.Thread(target=lambda n=number: native.sql(f"DELETE FROM {table} WHERE id = {n}").collect())
            for number in (1, 60)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    by_statement: dict[int, list[Progress]] = {}
    for event in events:
        by_statement.setdefault(event.statement, []).append(event)
    assert len(by_statement) == 2
    assert all(phases(own) == ["find rows", "delete rows", "commit"] for own in by_statement.values())
