"""Races E: what `WriteSerializable` may put in another order than the log, and what it may not."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from anabranch.errors.commits import ConcurrentAppendException, ConflictReason
from concurrency.conditions import Change, Row, Where
from concurrency.merging import Merge
from concurrency.scenes import Scene, keys
from concurrency.statements import Delete, Insert, InsertSelect, Optimize, Statement, Update

RELAXED = "WriteSerializable"
SIX = [Row(k, k) for k in range(6)]
HIGH = Where("v", ">=", 5)
APPEND = Insert((Row(9, 9),))
READS_HIGH = InsertSelect(HIGH, Change("v", 0, False))


def key(value: int) -> Where:
    return Where("k", "=", value)


def behind(*winners: Statement) -> tuple[Scene, Exception | None]:
    """The conflict of a DELETE that may be ordered before the append, after these winners."""
    scene = Scene(RELAXED, SIX)
    return scene, scene.meets(Delete(HIGH), *winners)


def test_three_that_follow_one_another_in_a_circle() -> None:
    """Covers race 63: the append, then its reader, then ours, which is ordered before the append."""
    _, error = behind(APPEND, InsertSelect(HIGH, Change("v", 0, False)))
    assert isinstance(error, ConcurrentAppendException)
    assert error.reason is ConflictReason.REORDER_CYCLE
    assert error.version == 1


def test_who_read_before_the_append() -> None:
    """Covers race 64."""
    scene = Scene(RELAXED, SIX)
    ours, reader = scene.begins(Delete(HIGH)), scene.begins(InsertSelect(HIGH, Change("v", 0, False)))
    scene.lands(APPEND)
    assert scene.ends(reader) is None
    assert scene.ends(ours) is None
    assert 9 in keys(scene)


def test_a_winner_that_does_not_say_what_it_read() -> None:
    """Covers race 65."""
    scene = Scene(RELAXED, SIX)
    ours, other = scene.begins(Delete(HIGH)), scene.begins(Update(key(0), Change("v", 1, False)))
    scene.lands(APPEND)
    assert scene.ends(other) is None
    scene.rewrites(2, lambda kind, fields: fields.pop("readVersion") if kind == "commitInfo" else None)
    with pytest.raises(ConcurrentAppendException) as raised:
        ours.commit()
    assert raised.value.reason is ConflictReason.REORDER_CYCLE


def test_a_chain_behind_the_append() -> None:
    """Covers race 66: one of the later winners read it, another did not."""
    scene = Scene(RELAXED, SIX)
    ours, apart = scene.begins(Delete(HIGH)), scene.begins(Delete(key(0)))
    scene.lands(APPEND, READS_HIGH)
    assert scene.ends(apart) is None
    error = scene.ends(ours)
    assert error is not None
    assert error.reason is ConflictReason.REORDER_CYCLE


def test_two_statements_precede_one_append() -> None:
    """Covers race 67."""
    scene = Scene(RELAXED, SIX)
    one, other = scene.begins(Delete(HIGH)), scene.begins(Merge((Row(9, 1),)))
    more = scene.begins(InsertSelect(Where("v", ">=", 4), Change("k", 10, False)))
    scene.lands(APPEND)
    assert scene.ends(one) is None
    assert scene.ends(other) is None
    assert scene.ends(more) is not None
    assert keys(scene)[9] == 2


def test_the_append_is_changed_by_another() -> None:
    """Covers race 68: the new image is not blind. A compaction of it changes nothing."""
    _, error = behind(APPEND, Update(key(9), Change("v", 8, False)))
    assert isinstance(error, ConcurrentAppendException)
    assert error.version == 2
    scene, error = behind(APPEND, Optimize())
    assert error is None
    assert 9 in keys(scene)


def test_ours_changes_the_metadata() -> None:
    """Covers races 46 and 69: what was appended by the old metadata is not ignored."""
    scene = Scene(RELAXED, SIX)
    ours = scene.begins(Delete(HIGH))
    assert ours.transaction.metadata is not None
    described = msgspec.structs.replace(ours.transaction.metadata, description="new")
    scene.lands(APPEND)
    with pytest.raises(ConcurrentAppendException):
        ours.transaction.commit([described, *ours.actions], deleted_rows=ours.deleted_rows)


def without_claim(kind: str, fields: dict[str, Any]) -> None:
    if kind == "commitInfo":
        del fields["isBlindAppend"]


def test_an_append_that_does_not_say_that_it_is_blind() -> None:
    """Covers race 70."""
    scene = Scene(RELAXED, SIX)
    ours = scene.begins(Delete(HIGH))
    scene.lands(APPEND)
    scene.rewrites(1, without_claim)
    assert scene.ends(ours) is not None


def test_a_commit_that_lies_about_being_blind() -> None:
    """Covers race 71: it removes files."""
    scene = Scene(RELAXED, SIX[:5], SIX[5:])
    ours = scene.begins(Delete(HIGH))
    scene.lands(Update(key(0), Change("v", 7, False)))

    def lie(kind: str, fields: dict[str, Any]) -> None:
        if kind == "commitInfo":
            fields["isBlindAppend"] = True

    scene.rewrites(1, lie)
    with pytest.raises(ConcurrentAppendException):
        ours.commit()
