"""Random histories over few rows, so that statements meet."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Mapping, Sequence

from concurrency.conditions import EVERY, Change, Row, Where
from concurrency.histories import LEVELS, History
from concurrency.merging import MATCHED, Merge
from concurrency.played_table import Manner
from concurrency.statements import (
    Delete,
    Insert,
    InsertSelect,
    Optimize,
    ReplaceWhere,
    Restore,
    Rewriting,
    Statement,
    Update,
)

KEYS, VALUES = 4, 4


@dataclasses.dataclass(frozen=True, kw_only=True)
class Mix:
    """What histories are made of."""

    kinds: Mapping[str, int]
    """Statements, each with its weight."""
    levels: Sequence[str] = LEVELS
    statements_max: int = 5
    vectors: bool = True


EVERYTHING = Mix(
    kinds={
        "insert": 20,
        "delete": 18,
        "update": 24,
        "guarded": 4,
        "insert select": 6,
        "merge": 16,
        "optimize": 9,
        "zorder": 3,
        "purge": 2,
        "foreign": 3,
        "rewriting": 4,
        "replace where": 2,
        "truncate": 1,
        "overwrite": 1,
        "restore": 2,
    }
)
APPENDS_AND_READERS = Mix(
    kinds={"insert": 10, "delete": 10, "insert select": 10, "guarded": 3},
    levels=("WriteSerializable",),
    statements_max=4,
)
CHANGES_AND_OPTIMIZE = Mix(
    kinds={"insert": 5, "delete": 10, "update": 5, "merge": 10, "optimize": 9, "zorder": 3, "purge": 3}
)
APPENDS_AND_COMPACTION = Mix(kinds={"insert": 10, "delete": 10, "foreign": 10}, levels=("WriteSerializable",))
MERGES_AND_COMPACTION = Mix(kinds={"insert": 5, "delete": 5, "update": 3, "merge": 20, "foreign": 15, "optimize": 3})
WITHOUT_VECTORS = Mix(
    kinds={"insert": 10, "delete": 10, "update": 12, "merge": 8, "optimize": 5, "insert select": 5, "replace where": 3},
    vectors=False,
)
SHARES = {
    "everything": (EVERYTHING, 60),
    "changes and OPTIMIZE": (CHANGES_AND_OPTIMIZE, 10),
    "appends and readers": (APPENDS_AND_READERS, 5),
    "appends and compaction": (APPENDS_AND_COMPACTION, 5),
    "merges and compaction": (MERGES_AND_COMPACTION, 15),
    "without vectors": (WITHOUT_VECTORS, 5),
}
"""Of a hundred histories, how many are of which mix."""


def random_history(rng: random.Random, mix: Mix = EVERYTHING) -> History:
    """Of one seed there is one."""
    count = rng.randint(2, mix.statements_max)
    history = History(
        level=rng.choice(mix.levels),
        files=(),
        statements=tuple(random_statement(rng, mix) for _ in range(count)),
        schedule=_schedule(rng, count),
        manner=_manner(rng, vectors=mix.vectors),
    )
    return history.with_files(
        tuple(tuple(_row(rng) for _ in range(rng.randint(1, 3))) for _ in range(rng.randint(1, 3)))
    )


def _manner(rng: random.Random, *, vectors: bool) -> Manner:
    statistics = rng.choice(["bounds", "bounds", "counts", "counts", "nothing"])
    return Manner(
        statistics=statistics,
        told_rows=rng.random() < 0.9,
        asks_again=rng.random() < 0.8,
        whole_files=rng.random() < 0.5,
        tracks_rows=rng.random() < 0.3 and statistics != "nothing",
        vectors=vectors,
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
        case "replace where":
            return ReplaceWhere(_where(rng), tuple(_row(rng) for _ in range(rng.randint(0, 2))))
        case "rewriting":
            return Rewriting(rng.choice([Delete(_where(rng)), Update(_where(rng), _change(rng)), _merge(rng)]))
        case "truncate":
            return Delete(EVERY)
        case "overwrite":
            return ReplaceWhere(EVERY, tuple(_row(rng) for _ in range(rng.randint(0, 2))))
        case "restore":
            return Restore(())
        case _:
            return _optimize(rng, kind)


def _merge(rng: random.Random) -> Merge:
    keys = rng.sample(range(KEYS), rng.randint(1, 2))
    return Merge(
        tuple(Row(key, rng.randrange(VALUES)) for key in keys),
        matched=rng.choice(["update", "update", "update below", *MATCHED]),
        inserts=rng.random() < 0.8,
        not_in_source=_where(rng) if rng.random() < 0.15 else None,
        orphans=rng.choice(["delete", "update"]),
        tells_changes=rng.random() < 0.5,
    )


def _optimize(rng: random.Random, kind: str) -> Optimize:
    chosen = rng.choice([(), (0,), (1,), (0, 1), (0, 2), (1, 2)])
    ordered = kind == "zorder" or (kind == "foreign" and rng.random() < 0.5)
    return Optimize(
        () if kind == "purge" else chosen,
        rows_per_file=rng.choice([1, 2, 3, 100]),
        leaves_word=kind != "foreign" and not (ordered and rng.random() < 0.5),
        ordered=ordered,
        purges=kind == "purge",
    )


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
