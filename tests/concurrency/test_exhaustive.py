"""Every sequence of up to three statements over a table of three rows, each reading every version there was."""

from __future__ import annotations

import pytest

from concurrency.executor import Manner
from concurrency.exhaustive import KINDS, MORE_KINDS, explore
from concurrency.histories import LEVELS
from concurrency.wrong_rules import WRONG_RULES


@pytest.mark.slow
@pytest.mark.parametrize("level", LEVELS)
def test_three_statements(level: str) -> None:
    explored = explore(level, KINDS, statements=3)
    print(level, explored)
    assert explored.problems == []
    assert explored.states > 1_500
    assert explored.refusals > 300


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("manner", [Manner(), Manner(statistics="counts"), Manner(asks_again=False)], ids=str)
def test_two_statements_of_all_kinds(level: str, manner: Manner) -> None:
    explored = explore(level, MORE_KINDS, statements=2, manner=manner)
    print(level, explored)
    assert explored.problems == []


def test_it_finds_a_wrong_rule() -> None:
    with WRONG_RULES[0].in_force():
        assert explore("Serializable", KINDS, statements=2).problems
