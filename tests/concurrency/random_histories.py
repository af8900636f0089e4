"""Random histories over few rows, so that statements meet."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Mapping, Sequence

from concurrency.conditions import EVERY, Change, Row, Where
from concurrency.executor import Manner
from concurrency.histories import LEVELS, History
from concurrency.statements import Delete, Insert, InsertSelect, Merge, Optimize, Statement, Update

KEYS, VALUES = 4, 4


@dataclasses.dataclass(frozen=True, kw_only=True)
class Mix:
    """What histories are made of."""

    kinds: Mapping[str, int]
    """Statements, each with its weight."""
    levels: Sequence[str] = LEVELS
    statements_max: int = 5


EVERYTHING = Mix(
    kinds={
        "insert": 20,
        "delete": 18,
        "update": 24,
        "guarded": 4,
        "insert select": 6,
        "merge": 14,
        "optimize": 10,
        "foreign": 3,
        "truncate": 1,
    }
)
APPENDS_AND_READERS = Mix(
    kinds={"insert": 10, "delete": 10, "insert select": 10, "guarded": 3},
    levels=("WriteSerializable",),
    statements_max=4,
)
CHANGES_AND_OPTIMIZE = Mix(kinds={"insert": 5, "delete": 10, "update": 5, "merge": 10, "optimize": 15})
APPENDS_AND_COMPACTION = Mix(kinds={"insert": 10, "delete": 10, "foreign": 10}, levels=("WriteSerializable",))


def random_history(rng: random.Random, mix: Mix = EVERYTHING) -> History:
    """Of one seed there is one."""
    count = rng.randint(2, mix.statements_max)
    statements = tuple(random_statement(rng, mix) for _ in range(count))
    return History(
        level=rng.choice(mix.levels),
        files=tuple(tuple(_row(rng) for _ in range(rng.randint(1, 3))) for _ in range(rng.randint(1, 3))),
        statements=statements,
        schedule=_schedule(rng, count),
        manner=_manner(rng),
    )


def _manner(rng: random.Random) -> Manner:
    statistics = rng.choice(["bounds", "bounds", "counts", "counts", "nothing"])
    return Manner(
        statistics=statistics,
        told_rows=rng.random() < 0.9,
        asks_again=rng.random() < 0.8,
        whole_files=rng.random() < 0.5,
        tracks_rows=rng.random() < 0.3 and statistics != "nothing",
    )


def random_statement(rng: random.Random, mix: Mix = EVERYTHING) -> Statement:
    (kind,) = rng.choices(list(mix.kinds), list(mix.kinds.values()))
    match kind:
        case "insert":
            return Insert(tuple(_row(rng) for _ in range(rng.randint(1, 2))))
        case "delete":
            return Delete(_where(rng))
        case "update":
            return Update(_where(rng), _change(rng))
        case "guarded":
            return Update(_where(rng), _change(rng), unless=_where(rng))
        case "insert select":
            return InsertSelect(_where(rng), _change(rng))
        case "merge":
            return _merge(rng)
        case "truncate":
            return Delete(EVERY)
        case _:
            chosen = rng.choice([(), (0,), (1,), (0, 1), (0, 2), (1, 2)])
            return Optimize(chosen, rows_per_file=rng.choice([1, 2, 3, 100]), leaves_word=kind == "optimize")


def _merge(rng: random.Random) -> Merge:
    keys = rng.sample(range(KEYS), rng.randint(1, 2))
    matched = rng.choice(["update", "update", "delete", "update below"])
    not_in_source = _where(rng) if rng.random() < 0.15 else None
    source = tuple(Row(key, rng.randrange(VALUES)) for key in keys)
    return Merge(source, matched=matched, inserts=rng.random() < 0.8, not_in_source=not_in_source)


def _row(rng: random.Random) -> Row:
    return Row(rng.randrange(KEYS), None if rng.random() < 0.1 else rng.randrange(VALUES))


def _where(rng: random.Random) -> Where:
    column = rng.choice("kv")
    return Where(column, rng.choice(["=", "=", "<", ">="]), rng.randrange(KEYS), told=rng.random() < 0.8)


def _change(rng: random.Random) -> Change:
    return Change(rng.choice("kvv"), rng.randrange(KEYS), rng.random() < 0.3)


def _schedule(rng: random.Random, count: int) -> tuple[int, ...]:
    order = [number for number in range(count) for _ in range(2)]
    rng.shuffle(order)
    return tuple(order)
