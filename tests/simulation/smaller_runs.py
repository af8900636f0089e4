"""A run that a judge complains of, made as small as it gets while the judge still complains."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterator, Mapping

from simulation.events import Event, RecordedPlan, Step
from simulation.scenarios import Scenario
from simulation.simulated_run import RunResult, Simulation

ROUNDS_MAX = 3
Events = Mapping[Step, tuple[Event, ...]]
Smaller = Callable[[Scenario, Events], Iterator[tuple[Scenario, Events]]]
Complains = Callable[[RunResult], bool]


def run_again(scenario: Scenario, events: Events) -> RunResult:
    """Run with the events of a run before."""
    return Simulation(scenario, RecordedPlan(events)).run()


def smallest(result: RunResult, complains: Complains) -> RunResult:
    """The smallest relative of a run that a judge `complains` of, found greedily: the larger parts are left out first."""
    for _ in range(ROUNDS_MAX):
        before = result
        count = len(result.events)
        chunks = (functools.partial(_without_events, size=count >> shift) for shift in range(1, count.bit_length()))
        for smaller in (_without_programs, _without_acts, *chunks, _without_rows, _sooner, _without_properties):
            result = _reduced(result, smaller, complains)
        if result is before:
            break
    return result


def _reduced(result: RunResult, smaller: Smaller, complains: Complains) -> RunResult:
    """The run without each part that is not needed. The one after a part that was left out has its number."""
    number = 0
    while True:
        candidate = next(itertools.islice(smaller(result.scenario, result.events), number, None), None)
        if candidate is None:
            return result
        run = run_again(*candidate)
        if complains(run):
            result = run
        else:
            number += 1


def _without_programs(scenario: Scenario, events: Events) -> Iterator[tuple[Scenario, Events]]:
    for program in scenario.programs:
        if len(scenario.programs) > 1:
            programs = tuple(other for other in scenario.programs if other != program)
            yield dataclasses.replace(scenario, programs=programs), events


def _without_acts(scenario: Scenario, events: Events) -> Iterator[tuple[Scenario, Events]]:
    for name, acts in scenario.programs:
        for number in range(len(acts)):
            yield _without_act(scenario, events, name, number)


def _without_events(scenario: Scenario, events: Events, *, size: int) -> Iterator[tuple[Scenario, Events]]:
    steps = list(events)
    for start in range(0, len(steps), size):
        left_out = set(steps[start : start + size])
        yield scenario, {step: happens for step, happens in events.items() if step not in left_out}


def _without_rows(scenario: Scenario, events: Events) -> Iterator[tuple[Scenario, Events]]:
    files = scenario.files
    for number, rows in enumerate(files):
        if len(files) > 1:
            yield dataclasses.replace(scenario, files=files[:number] + files[number + 1 :]), events
        for row in range(len(rows) if len(rows) > 1 else 0):
            left = (*files[:number], rows[:row] + rows[row + 1 :], *files[number + 1 :])
            yield dataclasses.replace(scenario, files=left), events


def _sooner(scenario: Scenario, events: Events) -> Iterator[tuple[Scenario, Events]]:
    for name, acts in scenario.programs:
        for number, act in enumerate(acts):
            if act.wait_ms:
                sooner = (*acts[:number], dataclasses.replace(act, wait_ms=0), *acts[number + 1 :])
                programs = tuple((other, sooner if other == name else rest) for other, rest in scenario.programs)
                yield dataclasses.replace(scenario, programs=programs), events


def _without_properties(scenario: Scenario, events: Events) -> Iterator[tuple[Scenario, Events]]:
    for name in scenario.properties:
        yield dataclasses.replace(scenario, properties=tuple(o for o in scenario.properties if o != name)), events


def _without_act(scenario: Scenario, events: Events, name: str, number: int) -> tuple[Scenario, Events]:
    programs = tuple(
        (other, acts[:number] + acts[number + 1 :] if other == name else acts) for other, acts in scenario.programs
    )
    moved = {
        (actor, act - (actor == name and act > number), call): happens
        for (actor, act, call), happens in events.items()
        if (actor, act) != (name, number)
    }
    return dataclasses.replace(scenario, programs=programs), moved
