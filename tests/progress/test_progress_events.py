"""What statements report while they run, to programs that listen."""

from __future__ import annotations

import logging
import threading

import pytest

from anabranch import on_progress
from anabranch.progress import progress_events
from anabranch.progress.progress_events import (
    Progress,
    StatementProgress,
    add_done,
    begin_phase,
    current,
    expect_files,
    note,
    reporting,
)
from transactions.table_on_memory import TestClock, add, created, rival_of


def test_a_listener_learns_of_each_change() -> None:
    events: list[Progress] = []
    with on_progress(events.append), reporting("MERGE", "flights"):
        begin_phase("find rows", files=3)
        add_done(files=2, rows=10, size_bytes=100)
        add_done(files=1)
        begin_phase("commit")
    assert [(event.phase, event.files_done, event.files_total, event.num_rows, event.ended) for event in events] == [
        ("find rows", 0, 3, 0, False),
        ("find rows", 2, 3, 10, False),
        ("find rows", 3, 3, 10, False),
        ("commit", 0, None, 0, False),
        ("commit", 0, None, 0, True),
    ]
    assert {(event.operation, event.table, event.title) for event in events} == {
        ("MERGE", "flights", "MERGE INTO flights")
    }
    assert len({event.statement for event in events}) == 1
    assert [event.elapsed_ms for event in events] == sorted(event.elapsed_ms for event in events)


def test_a_closed_listener_is_not_called() -> None:
    events: list[Progress] = []
    kept: list[Progress] = []
    subscription = on_progress(events.append)
    with on_progress(kept.append), reporting("VACUUM", "t"):
        begin_phase("list files")
        subscription.close()
        begin_phase("delete files")
    assert [event.phase for event in events] == ["list files"]
    assert [event.phase for event in kept] == ["list files", "delete files", "delete files"]


def test_a_listener_that_fails_does_no_harm(caplog: pytest.LogCaptureFixture) -> None:
    events: list[Progress] = []

    def fail(progress: Progress) -> None:
        raise RuntimeError("listener")

    with caplog.at_level(logging.WARNING), on_progress(fail), on_progress(events.append), reporting("DELETE", "t"):
        begin_phase("find rows")
    assert [event.ended for event in events] == [False, True]
    assert "a listener of progress failed" in caplog.text


def test_a_statement_inside_another_is_a_part_of_it() -> None:
    events: list[Progress] = []
    with on_progress(events.append), reporting("DROP FEATURE", "t") as outer, reporting("REORG", "t") as inner:
        begin_phase("rewrite files")
    assert inner is outer
    assert [(event.operation, event.ended) for event in events] == [("DROP FEATURE", False), ("DROP FEATURE", True)]


def test_a_failed_statement_ends() -> None:
    events: list[Progress] = []
    with pytest.raises(ValueError, match="wrong"), on_progress(events.append), reporting("DELETE", "t"):
        raise ValueError("wrong")
    assert [event.ended for event in events] == [True]
    assert current() is None


def test_without_a_statement_nothing_is_reported() -> None:
    events: list[Progress] = []
    with on_progress(events.append):
        begin_phase("find rows")
        expect_files(3)
        add_done(files=1)
        note("waiting")
    assert events == []


def test_statements_of_several_threads_are_told_apart() -> None:
    """Each thread has a statement of its own, and a thread that helps adds to the statement it was given."""
    events: list[Progress] = []
    begun = threading.Barrier(2)

    def run(table: str) -> None:
        with reporting("DELETE", table) as statement:
            begun.wait(10)
            begin_phase("find rows")
            helpers = [
                threading.Thread(target=lambda: [statement.add(files=1, rows=0, size_bytes=0) for _ in range(500)])
                for _ in range(4)
            ]
            for helper in helpers:
                helper.start()
            for helper in helpers:
                helper.join()

    with on_progress(events.append):
        threads = [threading.Thread(target=run, args=(table,)) for table in "ab"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    ends = {event.table: event for event in events if event.ended}
    assert {table: event.files_done for table, event in ends.items()} == {"a": 2000, "b": 2000}
    assert ends["a"].statement != ends["b"].statement


class Jobs:
    """The tasks of a statement's jobs, and how often they were counted."""

    def __init__(self) -> None:
        self.counts: list[tuple[int, int] | Exception] = []
        self.requests: list[tuple[str, int]] = []

    def count(self, tag: str, since_ms: int) -> tuple[int, int]:
        self.requests.append((tag, since_ms))
        result = self.counts.pop(0)
        if isinstance(result, Exception):
            raise result
        return result


def test_tasks_are_counted_in_their_phase() -> None:
    events: list[Progress] = []
    jobs = Jobs()
    with on_progress(events.append), reporting("DELETE", "t", count_tasks=jobs.count) as statement:
        begin_phase("find rows", files=3)
        statement.poll_tasks()
        assert jobs.requests == [], "its jobs have no tag yet"
        statement.job_tag = "statement-1"
        jobs.counts = [(0, 0), (1, 4), (1, 4), (9, 8), (9, 8)]
        for _ in range(5):
            statement.poll_tasks()
        begin_phase("commit")
    assert [(event.phase, event.tasks_done, event.tasks_total) for event in events] == [
        ("find rows", 0, None),
        ("find rows", 1, 4),
        ("find rows", 8, 8),
        ("commit", 0, None),
        ("commit", 0, None),
    ]
    assert {tag for tag, _ in jobs.requests} == {"statement-1"}


@pytest.mark.parametrize("ends", [False, True])
def test_tasks_of_an_earlier_phase_are_not_shown(ends: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The JVM answers after the statement has gone on, or has ended."""
    clock = TestClock()
    monkeypatch.setattr(progress_events, "CLOCK", clock)
    events: list[Progress] = []

    def count(tag: str, since_ms: int) -> tuple[int, int]:
        clock.sleep_ms(500)
        if ends:
            statement.change(ended=True)
        else:
            begin_phase("write files")
        return 3, 4

    with on_progress(events.append), reporting("UPDATE", "t", count_tasks=count) as statement:
        statement.job_tag = "statement-1"
        begin_phase("find rows")
        statement.poll_tasks()
    assert {event.tasks_total for event in events} == {None}


def test_tasks_that_cannot_be_counted_do_no_harm() -> None:
    jobs = Jobs()
    with reporting("DELETE", "t", count_tasks=jobs.count) as statement:
        statement.job_tag = "statement-1"
        jobs.counts = [ConnectionError("the JVM has ended"), (1, 2)]
        statement.poll_tasks()
        statement.poll_tasks()
        assert len(jobs.requests) == 1, "it is not tried again"
        assert statement.now().tasks_total is None


def test_the_display_does_not_wait_for_a_listener() -> None:
    """A listener that takes long on the statement's thread holds up that statement only, and gets its events in order."""
    begun, polled = threading.Event(), threading.Event()
    events: list[Progress] = []

    def listen(progress: Progress) -> None:
        events.append(progress)
        begun.set()
        assert polled.wait(10)

    def run() -> None:
        with reporting("DELETE", "t", count_tasks=lambda *_: (1, 2)) as statement:
            statement.job_tag = "statement-1"
            statements.append(statement)
            begin_phase("find rows")

    statements: list[StatementProgress] = []
    with on_progress(listen):
        thread = threading.Thread(target=run)
        thread.start()
        assert begun.wait(10)
        statements[0].poll_tasks()
        polled.set()
        thread.join(10)
    assert [(event.tasks_total, event.ended) for event in events] == [(None, False), (None, True)]


def test_a_commit_says_who_landed_first() -> None:
    ours = created()
    winner, late = rival_of(ours), ours.begin()
    winner.append(add("w"))
    events: list[Progress] = []
    with on_progress(events.append), reporting("WRITE", "t"):
        late.commit([add("ours")])
    assert [(event.phase, event.note) for event in events] == [
        ("commit", ""),
        ("commit", "WRITE landed version 1 first; this commit is rebased over it"),
        ("commit", ""),
    ]
