"""Random histories, run by the real conflict checks and judged by those who know nothing of them."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable

import pytest

from concurrency.histories import run
from concurrency.judges import explains, has_serial_order, reordered, table_at_every_version, violations
from concurrency.random_histories import APPENDS_AND_READERS, SHARES, TRANSACTIONS, random_history
from concurrency.several_statements import RollBackTo, SeveralStatements
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


def test_transactions_meet_all_that_can_happen_to_them() -> None:
    """Commits between their statements, conflicts, a second run after one, parts that are undone, and a ROLLBACK."""
    met: Counter[str] = Counter()
    for seed in range(80):
        history = random_history(random.Random(seed), TRANSACTIONS)
        outcome = run(history)
        refused = {refusal.number for refusal in outcome.refusals}
        committed = {commit.number for commit in outcome.commits}
        for number, statement in enumerate(history.statements):
            if not isinstance(statement, SeveralStatements):
                continue
            first, *_, last = [step for step, of in enumerate(history.schedule) if of == number]
            undoes = any(isinstance(step, RollBackTo) for step in statement.steps)
            met["its statements are apart"] += history.schedule.count(number) > 2 and last - first > 2
            met["conflict"] += number in refused
            met["committed after a conflict"] += number in refused and number in committed
            met["committed without a part"] += undoes and number in committed
            met["committed"] += number in committed - refused
            met["rolled back"] += statement.rolls_back and number not in committed
    assert all(count >= 3 for count in met.values()), met


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
