"""Random histories, run by the real conflict checks and judged by those who know nothing of them."""

from __future__ import annotations

import os
import random
from collections.abc import Callable

import pytest

from concurrency.histories import run
from concurrency.judges import explains, has_serial_order, reordered, table_at_every_version, violations
from concurrency.random_histories import APPENDS_AND_READERS, SHARES, random_history
from concurrency.trials import trials

HISTORIES = int(os.environ.get("HISTORIES", "4000"))


@pytest.mark.parametrize("name", SHARES)
def test_every_history_has_a_serial_order(name: str, record_property: Callable[[str, object], None]) -> None:
    """Set HISTORIES for more of them. Judges C1, C2, C5 and C9."""
    mix, share = SHARES[name]
    result = trials(max(1, HISTORIES * share // 100), mix=mix)
    record_property("told", f"{name}, seeds from 0: {result}")
    assert not result.faults, "\n\n".join(map(str, result.faults))
    assert result.commits > result.histories, "histories in which nothing happens prove nothing"
    assert result.refusals, "and so do histories without conflicts"


def test_a_history_is_the_same_at_every_run() -> None:
    """A seed is all that is needed to see a history again."""
    history = random_history(random.Random(7))
    first, second = run(history), run(random_history(random.Random(7)))
    assert history == random_history(random.Random(7))
    assert table_at_every_version(first.played) == table_at_every_version(second.played)
    assert [commit.version for commit in first.commits] == [commit.version for commit in second.commits]
    assert violations(first) == []


def test_the_witness_agrees_with_trying_every_order() -> None:
    """The two judges of `WriteSerializable` know nothing of one another."""
    seen = 0
    for seed in range(400):
        outcome = run(random_history(random.Random(seed), APPENDS_AND_READERS))
        tables = table_at_every_version(outcome.played)
        if explains(reordered(outcome.commits), tables[0], tables[-1]):
            seen += reordered(outcome.commits) != list(outcome.commits)
            assert has_serial_order(outcome.commits, tables[0], tables[-1])
    assert seen > 5, "some statements must have been put in another order than the log"
