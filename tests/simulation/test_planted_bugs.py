"""Each planted bug is found within its number of seeds."""

from __future__ import annotations

import pytest

from simulation.planted_bugs import PLANTED_BUGS, PlantedBug
from simulation.storm import run_seed


def _is_caught(bug: PlantedBug) -> bool:
    """Whether a judge complains of a seed, and not of the same seed without the bug."""
    for seed in range(bug.seeds):
        with bug.in_force():
            problems = run_seed(seed, bug.focus).problems
        if any(bug.complaint in problem for problem in problems) and not run_seed(seed, bug.focus).problems:
            return True
    return False


@pytest.mark.parametrize("bug", PLANTED_BUGS, ids=str)
def test_a_planted_bug_is_found(bug: PlantedBug) -> None:
    """Covers faults F16, F21, F22, F23, F24, F25, F26, F27, F28, F29, F30, F31 and F32.

    Covers bugs B25, B58, B59, B65 and B69.
    """
    assert _is_caught(bug), f"{bug.seeds} seeds do not show that {bug.name}"
