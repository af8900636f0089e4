"""The judges find rules that are wrong; else it would mean nothing that they find none in ours."""

from __future__ import annotations

import pytest

from concurrency.trials import first_found
from concurrency.wrong_rules import WRONG_RULES, WrongRule


@pytest.mark.long
@pytest.mark.parametrize("wrong", WRONG_RULES, ids=lambda wrong: wrong.name)
def test_a_wrong_rule_is_found(wrong: WrongRule) -> None:
    """Covers fault F35. It is told as a history of a few steps."""
    with wrong.in_force():
        found = first_found(wrong.mix, histories_max=wrong.histories_max, verdict=wrong.verdict)
    assert found is not None, f"no history of {wrong.histories_max} shows that {wrong.name!r} is wrong"
    print(f"{wrong.name}\n{found}")
    assert len(found.history.statements) <= 4
    assert sum(map(len, found.history.files)) <= 4
