"""Each planted bug is found within its number of seeds."""

from __future__ import annotations

import pytest

from simulation.planted_bugs import PLANTED_BUGS, PlantedBug
from simulation.storm import run_seed

QUICK = 60
"""Bugs that so many seeds find are looked for in every run of the suite."""


def _is_found(bug: PlantedBug) -> bool:
    with bug.in_force():
        return any(
            bug.complaint in problem for seed in range(bug.seeds) for problem in run_seed(seed, bug.focus).problems
        )


@pytest.mark.parametrize("bug", [bug for bug in PLANTED_BUGS if bug.seeds <= QUICK], ids=str)
def test_a_planted_bug_is_found(bug: PlantedBug) -> None:
    """Covers faults F16, F21, F22, F23, F24, F25, F26, F27, F28, F29, F30, F31 and F32.

    Covers bugs B25, B58, B59, B65 and B69.
    """
    assert _is_found(bug), f"{bug.seeds} seeds do not show that {bug.name}"


@pytest.mark.long
@pytest.mark.parametrize("bug", [bug for bug in PLANTED_BUGS if bug.seeds > QUICK], ids=str)
def test_a_rare_planted_bug_is_found(bug: PlantedBug) -> None:
    assert _is_found(bug), f"{bug.seeds} seeds do not show that {bug.name}"


@pytest.mark.parametrize("bug", PLANTED_BUGS[:4], ids=str)
def test_nothing_is_found_where_nothing_is_wrong(bug: PlantedBug) -> None:
    """The same seeds without the bug: it is the bug that is found."""
    assert [run_seed(seed, bug.focus).problems for seed in range(10)] == [()] * 10
