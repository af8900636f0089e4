"""VACUUM beside statements that have read and not yet committed."""

from __future__ import annotations

import pytest

from anabranch.errors.base import DeltaError
from anabranch.errors.commits import DeltaConcurrentModificationException
from anabranch.errors.environment import FileMissingError
from commands.vacuumed_tables import HOUR_MS, SETTINGS, Target
from concurrency.conditions import Change, Row, Where
from concurrency.histories import LEVELS
from concurrency.scenes import Scene, keys
from concurrency.statements import Delete, Optimize, Update

BOTH_LEVELS = pytest.mark.parametrize("level", LEVELS)
ROWS = [Row(number, number * 7919 % 20) for number in range(3_000)]
"""So many that a vector is too large for the log."""


def v_is(value: int) -> Delete:
    return Delete(Where("v", "=", value))


def vacuum(scene: Scene, *, hours: float) -> list[str]:
    """The files that a VACUUM deleted, with a retention check that is off."""
    played = scene.played
    target = Target(delta_log=played.table, store=played.store, clock=played.clock, settings=SETTINGS)
    return target.with_settings(checks_retention=False).vacuum(hours=hours).plan.paths


def vectors(scene: Scene) -> set[str]:
    return {file.path for file in scene.played.store.list_tree() if "deletion_vector" in file.path}


@BOTH_LEVELS
def test_vectors_of_attempts_that_lost_go(level: str) -> None:
    """Covers race 86, faults F11 and F33: what no commit names goes once it is old, and what one names stays."""
    scene = Scene(level, ROWS)
    running = scene.begins(Delete(Where("v", "<", 4)))
    assert scene.ends_late(running, *map(v_is, (9, 8, 7))) is None
    assert len(vectors(scene)) == 7
    assert vacuum(scene, hours=1) == []
    scene.played.clock.time_ms += 2 * HOUR_MS
    assert len(vacuum(scene, hours=1)) == 6
    assert len(vectors(scene)) == 1
    assert scene.hidden() == 1_050
    assert len(scene.rows) == 1_950


@BOTH_LEVELS
def test_a_vector_that_is_gone_when_winners_are_looked_at(level: str) -> None:
    """Covers fault F31: who cannot see what a winner hid gives up, and leaves the table as it is."""
    scene = Scene(level, ROWS)
    running = scene.begins(v_is(1))
    scene.lands(v_is(2), v_is(3))
    scene.played.clock.time_ms += HOUR_MS
    gone = vacuum(scene, hours=0)
    assert gone, "the vector between the two deletes, and the file that ours has written"
    with pytest.raises(FileMissingError) as raised:
        running.commit()
    assert raised.value.path in gone
    assert isinstance(raised.value, DeltaError)
    assert not isinstance(raised.value, DeltaConcurrentModificationException)
    assert scene.played.store.head("_delta_log/00000000000000000005.json") is None
    assert scene.hidden() == 300
    scene.begins(v_is(1)).commit()
    assert scene.hidden() == 450


@BOTH_LEVELS
def test_a_vacuum_within_the_retention_is_no_conflict(level: str) -> None:
    """Ours has written a vector, and takes the marks of winners over, though VACUUM came in between twice."""
    scene = Scene(level, ROWS, [Row(9_999, 99)])
    running = scene.begins(v_is(1))
    vacuum(scene, hours=1)
    scene.lands(v_is(2), Update(Where("k", "=", 9_999), Change("v", 98, False)), Optimize())
    vacuum(scene, hours=1)
    assert scene.ends(running) is None
    assert {row.v for row in scene.rows} == {0, 98, *range(3, 20)}
    assert keys(scene)[9_999] == 1
