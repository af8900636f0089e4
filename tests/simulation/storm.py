"""Seeds of the simulation, as many as the arguments say.

    python -m simulation.storm SEEDS [FIRST_SEED]

with `src` and `tests` on the path. Ends with 1 where a judge has something to say; then the run is made small, and
written down step by step.
"""

from __future__ import annotations

import dataclasses
import random
import sys
import time
from collections import Counter
from collections.abc import Iterable

import pyarrow as pa

from simulation.events import RandomPlan
from simulation.scenarios import NO_FOCUS, Focus, random_scenario
from simulation.simulated_run import RunResult, Simulation
from simulation.smaller_runs import smallest

REPORTED_EVERY = 100
COMPLAINTS_MAX = 5


@dataclasses.dataclass(kw_only=True)
class Storm:
    """What many seeds came to."""

    seeds: int = 0
    seconds: float = 0.0
    steps: int = 0
    versions: int = 0
    reads: int = 0
    results: Counter[str] = dataclasses.field(default_factory=Counter)
    events: Counter[str] = dataclasses.field(default_factory=Counter)
    complaints: list[RunResult] = dataclasses.field(default_factory=list)

    def add(self, result: RunResult) -> None:
        self.seeds += 1
        self.steps += result.steps
        self.versions += result.versions
        self.reads += result.reads
        self.results += result.results
        self.events += result.happened
        self.complaints += [result] if result.problems else []

    def __str__(self) -> str:
        faults = sum(count for kind, count in self.events.items() if kind != "another actor goes on")
        return (
            f"{self.seeds} seeds, {self.steps} calls, {faults} faults, {self.results.total()} operations, "
            f"{self.versions} versions, {self.reads} reads behind changes of the log, in {self.seconds:.0f} s: "
            f"{len(self.complaints)} complaints; {dict(self.results)}; {dict(self.events)}"
        )


def run_seed(seed: int, focus: Focus = NO_FOCUS, *, with_rows: bool = False) -> RunResult:
    """The run of a seed, always the same. With `with_rows` data files are Parquet."""
    scenario = dataclasses.replace(random_scenario(seed, focus), has_rows_in_files=with_rows)
    return Simulation(scenario, RandomPlan(random.Random(f"events {seed}"), scenario.weather)).run()


def storm(seeds: Iterable[int], *, complaints_max: int = COMPLAINTS_MAX) -> Storm:
    """Run these seeds, fewer if there is much to complain of."""
    result, began = Storm(), time.process_time()
    for seed in seeds:
        result.add(run_seed(seed))
        result.seconds = time.process_time() - began
        if len(result.complaints) >= complaints_max:
            break
    return result


def in_words(result: RunResult, *, complaint: str = "") -> str:
    """A run that a judge complains of, as small as it gets, as a person would write it down."""
    shown = complaint or result.problems[0][:20]
    small = smallest(result, lambda smaller: any(shown in problem for problem in smaller.problems))
    lines = [f"seed {result.scenario.seed}, made smaller:", small.scenario.in_words(), "what happens:"]
    return "\n".join([*lines, *small.trace, "what is wrong:", *(f"  {problem}" for problem in small.problems)])


def main(seeds: int, first: int) -> bool:
    """Whether no judge complains."""
    # More threads would wait for one another.
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    total = Storm()
    for start in range(first, first + seeds, REPORTED_EVERY):
        part = storm(range(start, min(start + REPORTED_EVERY, first + seeds)))
        for result in part.complaints:
            print(in_words(result), flush=True)
        print(f"from {start}: {part}", flush=True)
        for name in ("seeds", "seconds", "steps", "versions", "reads", "results", "events", "complaints"):
            setattr(total, name, getattr(total, name) + getattr(part, name))
    print(f"in all: {total}")
    return not total.complaints


if __name__ == "__main__":
    arguments = [int(argument) for argument in sys.argv[1:]]
    sys.exit(0 if main(arguments[0] if arguments else 1_000, arguments[1] if len(arguments) > 1 else 0) else 1)
