"""Random simulations: every judge is silent, a seed is a run, and what a judge complains of is shown in few steps."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from simulation.events import Kind
from simulation.planted_bugs import PLANTED_BUGS
from simulation.smaller_runs import run_again
from simulation.storm import in_words, run_seed, storm
from turns import turn

SEEDS = int(os.environ.get("SEEDS", "250"))
FORMER = (322, 393, 906, 2863, 3721, 5535, 6396, 7085, 8922, 10351, 10697, 11307, 11458)
"""Seeds that once had a judge complain."""


def test_no_judge_complains(record_property: Callable[[str, object], None]) -> None:
    """Set SEEDS for more of them. Covers invariants I1, I2, I3, I4, I5 and I6."""
    result = storm((*FORMER, *range(SEEDS)))
    record_property("told", str(result))
    assert not result.complaints, "\n\n".join(map(in_words, result.complaints))
    assert {"committed", "conflict", "refused", "unknown", "died", "done"} <= result.results.keys()
    assert {kind.value for kind in Kind} == result.events.keys(), "everything has happened"


def test_a_seed_is_the_same_run_each_time() -> None:
    for seed in range(5):
        first, second = run_seed(seed), run_seed(seed)
        assert (first.trace, first.steps, first.events) == (second.trace, second.steps, second.events)


def test_a_recorded_run_can_be_run_again() -> None:
    """Its events are enough, without the random numbers that they were drawn by."""
    for seed in range(5):
        first = run_seed(seed)
        second = run_again(first.scenario, first.events)
        assert first.trace == second.trace


def test_what_is_wrong_is_told_in_few_steps() -> None:
    """A planted bug is found in a run of many acts, and shown by the few that it takes."""
    bug = next(bug for bug in PLANTED_BUGS if bug.name == "a fault after the put is raised")
    with bug.in_force():
        run = next(r for r in (run_seed(seed, bug.focus) for seed in range(bug.seeds)) if r.problems)
        text = in_words(run, complaint=bug.complaint)
    assert text.count("begins") <= 2
    assert "the call fails" in text
    assert "has the result refused, and is in the log" in text
    assert len(text.splitlines()) < 20


@pytest.mark.long
def test_many_seeds() -> None:
    """200 others in each turn, so that fifty turns have ten thousand."""
    first = SEEDS + turn() * 200 % 10_000
    result = storm(range(first, first + 200))
    assert not result.complaints, "\n\n".join(map(in_words, result.complaints))
