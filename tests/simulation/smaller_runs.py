"""A run that a judge complains of, made as small as it gets while the judge still complains."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping

from simulation.events import Event, RecordedPlan, Step
from simulation.scenarios import Scenario
from simulation.simulated_run import RunResult, Simulation

RUNS_MAX = 600
Events = Mapping[Step, tuple[Event, ...]]
Complains = Callable[[RunResult], bool]


def run_again(scenario: Scenario, events: Events) -> RunResult:
    """Run with the events of a run before."""
    return Simulation(scenario, RecordedPlan(events)).run()


def smallest(result: RunResult, complains: Complains) -> RunResult:
    """The smallest relative of a run that a judge `complains` of, found greedily: the larger parts are left out first."""
    runs = 0
    goes_on = True
    while goes_on:
        goes_on = False
        for scenario, events in _smaller(result.scenario, dict(result.events)):
            runs += 1
            if runs > RUNS_MAX:
                return result
            smaller = run_again(scenario, events)
            if complains(smaller):
                result, goes_on = smaller, True
                break
    return result


def _smaller(scenario: Scenario, events: dict[Step, tuple[Event, ...]]) -> Iterator[tuple[Scenario, Events]]:
    for name, acts in scenario.programs:
        if len(scenario.programs) > 1:
            programs = tuple(program for program in scenario.programs if program[0] != name)
            yield dataclasses.replace(scenario, programs=programs), events
        for number in reversed(range(len(acts))):
            yield _without_act(scenario, events, name, number)
    yield from ((scenario, fewer) for fewer in _fewer(events))
    for number, rows in enumerate(scenario.files):
        if len(scenario.files) > 1:
            yield dataclasses.replace(scenario, files=scenario.files[:number] + scenario.files[number + 1 :]), events
        for row in range(len(rows)):
            if len(rows) > 1:
                left = (*scenario.files[:number], rows[:row] + rows[row + 1 :], *scenario.files[number + 1 :])
                yield dataclasses.replace(scenario, files=left), events
    for name, acts in scenario.programs:
        for number, act in enumerate(acts):
            if act.wait_ms:
                sooner = (*acts[:number], dataclasses.replace(act, wait_ms=0), *acts[number + 1 :])
                programs = tuple((other, sooner if other == name else rest) for other, rest in scenario.programs)
                yield dataclasses.replace(scenario, programs=programs), events
    for prop in scenario.properties:
        yield dataclasses.replace(scenario, properties=tuple(p for p in scenario.properties if p != prop)), events


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


def _fewer(events: dict[Step, tuple[Event, ...]]) -> Iterator[Events]:
    """Half of them, a quarter, and so on to single ones."""
    steps = list(events)
    size = len(steps) // 2
    while size >= 1:
        for start in range(0, len(steps), size):
            left_out = set(steps[start : start + size])
            yield {step: happens for step, happens in events.items() if step not in left_out}
        size //= 2
