"""`make fuzz INPUTS=1000000`: random inputs for every parser of bytes that others wrote, with bounds of time and memory.

A fault is an error that is none of the parser's own, more than a second, or more than a gigabyte. Its input is shrunk and
printed, and the program ends with 1.
"""

from __future__ import annotations

import dataclasses
import os
import random
import resource
import sys
import time
import traceback

from fuzz.mutations import mutated, shrunk
from fuzz.parsers import Parser, parsers

SECONDS_MAX = 1.0
MEMORY_MAX = 1 << 30
"""What the process may need more than it had at the start of a parser."""


@dataclasses.dataclass(kw_only=True)
class Outcome:
    """What a parser made of its inputs."""

    inputs: int = 0
    refused: int = 0
    slowest_s: float = 0.0
    fault: str | None = None


def fuzzed(parser: Parser, *, inputs: int, seed: int) -> Outcome:
    """The outcome of a number of random inputs, or of those up to the first fault."""
    rng, outcome = random.Random(f"{seed} {parser.name}"), Outcome()
    for data in parser.inputs:
        parser.parse(data)  # what is changed afterwards must be right before
    before = resident_bytes()
    for number in range(inputs):
        data = mutated(rng.choice(parser.inputs), parser.inputs, rng)
        start = time.thread_time()
        problem = problem_of(parser, data, outcome)
        outcome.inputs += 1
        outcome.slowest_s = max(outcome.slowest_s, time.thread_time() - start)
        if problem is None and outcome.slowest_s > SECONDS_MAX:
            problem = f"it takes {outcome.slowest_s:.1f} seconds"
        if problem is None and number % 256 == 0 and resident_bytes() - before > MEMORY_MAX:
            problem = f"it keeps {(resident_bytes() - before) >> 20} MiB"
        if problem is not None:
            short = shrunk(data, lambda shorter: problem_of(parser, shorter, Outcome()) is not None)
            outcome.fault = f"{problem}\n  input: {short!r}"
            return outcome
    return outcome


def problem_of(parser: Parser, data: bytes, outcome: Outcome) -> str | None:
    """The error of a parser that is none of its own; None without one."""
    try:
        parser.parse(data)
    except parser.errors:
        outcome.refused += 1
    except Exception as error:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        return f"{type(error).__name__}: {str(error)[:200]} at {frame.filename}:{frame.lineno}"
    return None


def resident_bytes() -> int:
    """The memory of this process."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def main() -> int:
    inputs, seed = int(sys.argv[1]), int(sys.argv[2])
    limit = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (16 << 30, limit))  # one allocation that is too large fails here
    every = parsers()
    shares = sum(parser.share for parser in every)
    faults = 0
    for parser in every:
        outcome = fuzzed(parser, inputs=int(inputs * parser.share / shares) + 1, seed=seed)
        line = f"{parser.name}: {outcome.inputs:,} inputs, {outcome.refused:,} refused, slowest {outcome.slowest_s * 1000:.0f} ms"
        print(line, flush=True)
        if outcome.fault is not None:
            faults += 1
            print(f"  FAULT: {outcome.fault}", flush=True)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
