"""Many random histories, run and judged."""

from __future__ import annotations

import dataclasses
import random
import time
from collections import Counter

from anabranch.errors.base import DeltaError
from concurrency.histories import History, run
from concurrency.judges import is_needless, table_at_every_version, violations
from concurrency.random_histories import EVERYTHING, Mix, random_history
from concurrency.shrinking import shrunk


@dataclasses.dataclass(frozen=True, kw_only=True)
class FaultyHistory:
    """A history that no judge lets pass."""

    seed: int
    history: History
    """The smallest of its kind."""
    problems: tuple[str, ...]

    def __str__(self) -> str:
        return f"seed {self.seed}, shrunk:\n{self.history.in_words()}\n  " + "\n  ".join(self.problems)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Trials:
    """What many histories came to."""

    histories: int
    seconds: float
    """Of this process's own work."""
    commits: int
    refusals: Counter[str]
    needless: int
    """Statements that were refused although they would have done the same at that place."""
    faults: tuple[FaultyHistory, ...]

    def __str__(self) -> str:
        rate = self.histories / self.seconds if self.seconds else 0
        return (
            f"{self.histories} histories, {rate:.0f} a second: {len(self.faults)} violations; {self.commits} commits, "
            f"{self.refusals.total()} conflicts, {self.needless} of them needless; {dict(self.refusals)}"
        )


def problems_of(history: History) -> list[str]:
    """What is wrong, in words. An error that is no conflict is wrong too."""
    try:
        return violations(run(history))
    except (DeltaError, AssertionError) as error:
        return [f"{type(error).__name__}: {error}"]


def first_fault(mix: Mix, *, histories_max: int, verdict: str = "") -> FaultyHistory | None:
    """The first history that shows a fault of which a judge says `verdict`."""
    for seed in range(histories_max):
        history = random_history(random.Random(seed), mix)
        if _shows(history, verdict):
            return _faulty_history(seed, history, verdict)
    return None


def trials(count: int, *, first_seed: int = 0, mix: Mix = EVERYTHING, faults_max: int = 3) -> Trials:
    """Run `count` histories, fewer if faults are found."""
    began = time.process_time()
    commits, needless, done = 0, 0, 0
    refusals: Counter[str] = Counter()
    faults: list[FaultyHistory] = []
    for seed in range(first_seed, first_seed + count):
        history = random_history(random.Random(seed), mix)
        done += 1
        try:
            outcome = run(history)
            tables = table_at_every_version(outcome.played)
            problems = violations(outcome, tables)
        except (DeltaError, AssertionError):
            faults.append(_faulty_history(seed, history))
        else:
            commits += len(outcome.commits)
            refusals.update(f"{type(refusal.error).__name__} {refusal.error.reason}" for refusal in outcome.refusals)
            needless += sum(is_needless(refusal, tables) for refusal in outcome.refusals)
            if problems:
                faults.append(_faulty_history(seed, history))
        if len(faults) >= faults_max:
            break
    return Trials(
        histories=done,
        seconds=time.process_time() - began,
        commits=commits,
        refusals=refusals,
        needless=needless,
        faults=tuple(faults),
    )


def _shows(history: History, verdict: str) -> bool:
    return any(verdict in problem for problem in problems_of(history))


def _faulty_history(seed: int, history: History, verdict: str = "") -> FaultyHistory:
    smallest = shrunk(history, lambda smaller: _shows(smaller, verdict))
    return FaultyHistory(seed=seed, history=smallest, problems=tuple(problems_of(smallest)))
