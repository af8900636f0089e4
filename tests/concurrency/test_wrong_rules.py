"""The judges find rules that are wrong; else it would mean nothing that they find none in ours."""

from __future__ import annotations

import pytest

from concurrency.trials import first_fault
from concurrency.wrong_numbers import WRONG_NUMBERS
from concurrency.wrong_rules import WRONG_RULES, WrongRule
from concurrency.wrong_transactions import WRONG_TRANSACTIONS


@pytest.mark.long
@pytest.mark.parametrize("wrong", [*WRONG_RULES, *WRONG_TRANSACTIONS, *WRONG_NUMBERS], ids=lambda wrong: wrong.name)
def test_a_wrong_rule_is_detected(wrong: WrongRule) -> None:
    """Covers fault F35. The fault is shown by a history of a few steps."""
    with wrong.in_force():
        fault = first_fault(wrong.mix, histories_max=wrong.histories_max, verdict=wrong.verdict)
    assert fault is not None, f"no history of {wrong.histories_max} shows that {wrong.name!r} is wrong"
    print(f"{wrong.name}\n{fault}")
    assert len(fault.history.statements) <= 4
    assert sum(map(len, fault.history.files)) <= 4
