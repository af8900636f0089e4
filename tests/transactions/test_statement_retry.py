"""Statements done again after a conflict."""

from __future__ import annotations

import logging
import random

import pytest

from anabranch.errors.commits import (
    ConcurrentAppendException,
    ConcurrentDeleteDeleteException,
    ConcurrentDeleteReadException,
    ConcurrentTransactionException,
    ConcurrentWriteException,
    ConflictReason,
    DeltaConcurrentModificationException,
    MetadataChangedException,
    ProtocolChangedException,
)
from anabranch.transactions.statement_retry import FIRST_WAIT_MS_MAX, WAIT_MS_MAX, Attempt, execute_with_retries
from concurrency.conditions import Change, Row, Where
from concurrency.scenes import Scene
from concurrency.statements import Update
from transactions.table_on_memory import TestClock

MENDED = [
    ConcurrentAppendException,
    ConcurrentDeleteReadException,
    ConcurrentDeleteDeleteException,
    MetadataChangedException,
    ProtocolChangedException,
]


def conflict(
    kind: type[DeltaConcurrentModificationException] = ConcurrentAppendException,
    *,
    version: int | None = 8,
    reason: ConflictReason = ConflictReason.ROW_LEVEL_CHANGES,
) -> DeltaConcurrentModificationException:
    return kind(table="/data/t", version=version, operation="UPDATE", read_version=5, reason=reason)


class Statement:
    """Raises these, one an execution, and then returns."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.attempts: list[Attempt] = []

    def __call__(self, attempt: Attempt) -> str:
        self.attempts.append(attempt)
        if self.errors:
            raise self.errors.pop(0)
        return "done"


def executed(statement: Statement, *, retries_max: int, clock: TestClock | None = None) -> str:
    clock = clock or TestClock()
    return execute_with_retries(statement, retries_max=retries_max, random=random.Random(0), sleep=clock.sleep_ms)


def test_no_other_commit_landed_first() -> None:
    statement, clock = Statement(), TestClock()
    assert executed(statement, retries_max=3, clock=clock) == "done"
    assert statement.attempts == [Attempt()]
    assert clock.naps == []
    assert Attempt().metrics() == {}
    assert Attempt().tags() == {}


@pytest.mark.parametrize("kind", MENDED)
def test_done_again(kind: type[DeltaConcurrentModificationException], caplog: pytest.LogCaptureFixture) -> None:
    """The commit of the last execution records the executions before it."""
    statement = Statement(conflict(kind), conflict(kind, version=11))
    with caplog.at_level(logging.INFO, logger="anabranch.commit"):
        assert executed(statement, retries_max=2) == "done"
    last = statement.attempts[-1]
    assert last == Attempt(number=3, lost_to=(8, 11))
    assert last.metrics() == {"numReExecutions": 2}
    assert last.tags() == {"anabranch.lostTo": "8,11"}
    assert [record.getMessage() for record in caplog.records] == [
        "/data/t: execution 1 lost to UPDATE, version 8 (ROW_LEVEL_CHANGES); executing it again, 1 of at most 2 times",
        "/data/t: execution 2 lost to UPDATE, version 11 (ROW_LEVEL_CHANGES); executing it again, 2 of at most 2 times",
    ]


@pytest.mark.parametrize("retries_max", [0, 1, 4])
def test_the_bound(retries_max: int) -> None:
    """The last conflict is raised, and says how often it was tried."""
    statement = Statement(*(conflict(version=version) for version in range(8, 20)))
    with pytest.raises(ConcurrentAppendException) as raised:
        executed(statement, retries_max=retries_max)
    assert len(statement.attempts) == retries_max + 1
    assert raised.value.version == 8 + retries_max
    notes = getattr(raised.value, "__notes__", [])
    assert bool(notes) is (retries_max > 0)
    if retries_max == 4:
        assert notes == ["anabranch: executed 5 times; lost to versions 8, 9, 10, 11, 12."]


@pytest.mark.parametrize(
    "error",
    [
        conflict(ConcurrentTransactionException, reason=ConflictReason.APPLICATION_ID),
        conflict(ConcurrentTransactionException, reason=ConflictReason.ALREADY_WRITTEN),
        conflict(ConcurrentWriteException, reason=ConflictReason.TOO_MANY_WINNERS),
        conflict(MetadataChangedException, version=None, reason=ConflictReason.TABLE_REPLACED),
        ValueError("no conflict at all"),
    ],
    ids=lambda error: f"{type(error).__name__} {getattr(error, 'reason', '')}",
)
def test_what_reading_again_does_not_mend(error: Exception) -> None:
    statement, clock = Statement(error), TestClock()
    with pytest.raises(type(error)):
        executed(statement, retries_max=5, clock=clock)
    assert len(statement.attempts) == 1
    assert clock.naps == []


def test_pauses_are_random_and_bounded() -> None:
    clock = TestClock()
    executed(Statement(*(conflict() for _ in range(30))), retries_max=30, clock=clock)
    assert clock.naps[0] <= FIRST_WAIT_MS_MAX
    assert max(clock.naps) <= WAIT_MS_MAX
    assert sum(clock.naps[15:]) > sum(clock.naps[:5]) * 5
    assert len(set(clock.naps)) == 30


def test_increments_of_one_row_are_all_counted() -> None:
    """Five writers read the same version; every increment arrives, since each is done again from what is there."""
    scene = Scene("Serializable", [Row(0, 0)])
    increment = Update(Where("k", "=", 0), Change("v", 1, True))
    stale = [scene.begins(increment) for _ in range(5)]

    def execution(attempt: Attempt) -> int:
        running = stale.pop() if attempt.number == 1 else scene.begins(increment)
        committed = running.commit()
        assert committed is not None
        return attempt.number

    numbers = [
        execute_with_retries(execution, retries_max=3, random=random.Random(1), sleep=TestClock().sleep_ms)
        for _ in range(5)
    ]
    assert numbers == [1, 2, 2, 2, 2]
    assert scene.rows == [Row(0, 5)]
