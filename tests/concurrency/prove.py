"""Random histories and exhaustive exploration, as many as the arguments say.

    python -m concurrency.prove HISTORIES [FIRST_SEED]

with `src` and `tests` on the path. Ends with 1 where a judge found something.
"""

from __future__ import annotations

import itertools
import sys

from concurrency.exhaustive import ALL_KINDS, DESCRIPTION_KINDS, FEW_TRANSACTION_KINDS, explore
from concurrency.histories import LEVELS
from concurrency.played_table import AS_USUAL, Manner
from concurrency.random_histories import SHARES
from concurrency.trials import first_fault, trials
from concurrency.wrong_rules import WRONG_RULES
from concurrency.wrong_transactions import WRONG_TRANSACTIONS

PRINTED_EVERY = 50_000


def prove(histories: int, first_seed: int) -> bool:
    """Whether nothing was found in our rules, and something in each wrong one."""
    sound = True
    for name, (mix, share) in SHARES.items():
        count = max(1, histories * share // 100)
        for first in range(first_seed, first_seed + count, PRINTED_EVERY):
            result = trials(min(PRINTED_EVERY, first_seed + count - first), first_seed=first, mix=mix)
            print(f"{name}, seeds {first} to {first + result.histories - 1}: {result}")
            for fault in result.faults:
                print(fault)
                sound = False
    small_scopes = [
        (ALL_KINDS, AS_USUAL),
        (DESCRIPTION_KINDS, Manner(describes=True)),
        (FEW_TRANSACTION_KINDS, AS_USUAL),
    ]
    for level, (kinds, manner) in itertools.product(LEVELS, small_scopes):
        explored = explore(level, kinds, statements=3, manner=manner)
        print(f"every sequence of three statements of {len(kinds)} kinds, {level}: {explored}")
        sound = sound and not explored.problems
        print("\n".join(explored.problems[:5]))
    for wrong in (*WRONG_RULES, *WRONG_TRANSACTIONS):
        with wrong.in_force():
            caught = first_fault(wrong.mix, histories_max=wrong.histories_max, verdict=wrong.verdict)
        print(f"planted: {wrong.name}: {'NOT FOUND' if caught is None else f'found, {caught}'}")
        sound = sound and caught is not None
    return sound


if __name__ == "__main__":
    arguments = [int(argument) for argument in sys.argv[1:]]
    sys.exit(0 if prove(arguments[0] if arguments else 20_000, arguments[1] if len(arguments) > 1 else 0) else 1)
