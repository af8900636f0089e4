"""What statements report while they run, to programs that listen."""

from __future__ import annotations

import logging
import threading

import pytest

from anabranch import on_progress
from anabranch.progress.progress_events import Progress, add_done, begin_phase, current, expect_files, note, reporting
from transaction.table_on_memory import add, created, rival_of


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
