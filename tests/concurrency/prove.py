"""Random histories and exhaustive exploration, as many as are asked for.

    python -m concurrency.prove HISTORIES [FIRST_SEED]

with `src`, `tests` and `tests/transaction` on the path. Ends with 1 where a judge found something.
"""

from __future__ import annotations

import sys

from concurrency.exhaustive import MORE_KINDS, explore
from concurrency.histories import LEVELS
from concurrency.random_histories import APPENDS_AND_COMPACTION, APPENDS_AND_READERS, CHANGES_AND_OPTIMIZE, EVERYTHING
from concurrency.trials import first_found, trials
from concurrency.wrong_rules import WRONG_RULES

SHARES = {
    "everything": (EVERYTHING, 70),
    "changes and OPTIMIZE": (CHANGES_AND_OPTIMIZE, 10),
    "appends and readers": (APPENDS_AND_READERS, 10),
    "appends and compaction": (APPENDS_AND_COMPACTION, 10),
}


def prove(histories: int, first_seed: int) -> bool:
    """Whether nothing was found in our rules, and something in each wrong one."""
    sound = True
    for name, (mix, share) in SHARES.items():
        came_to = trials(max(1, histories * share // 100), first_seed=first_seed, mix=mix)
        print(f"{name}, seeds from {first_seed}: {came_to}")
        for found in came_to.found:
            print(found)
            sound = False
    for level in LEVELS:
        explored = explore(level, MORE_KINDS, statements=3)
        print(f"every sequence of three statements of {len(MORE_KINDS)} kinds, {level}: {explored}")
        sound = sound and not explored.problems
        print("\n".join(explored.problems[:5]))
    for wrong in WRONG_RULES:
        with wrong.in_force():
            caught = first_found(wrong.mix, histories_max=wrong.histories_max, verdict=wrong.verdict)
        print(f"planted: {wrong.name}: {'NOT FOUND' if caught is None else f'found, {caught}'}")
        sound = sound and caught is not None
    return sound


if __name__ == "__main__":
    asked = [int(argument) for argument in sys.argv[1:]]
    sys.exit(0 if prove(asked[0] if asked else 20_000, asked[1] if len(asked) > 1 else 0) else 1)
