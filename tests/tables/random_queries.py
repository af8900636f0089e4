"""Random queries that join a table with itself and with batches, and DuckDB, which runs them on any rows."""

from __future__ import annotations

import dataclasses
import random
from collections import Counter
from collections.abc import Mapping, Sequence

import duckdb

KeyValue = tuple[int | None, int | None]

VALUES: tuple[int | None, ...] = (None, 0, 1, 2)
DOMAIN: tuple[KeyValue, ...] = tuple((k, v) for k in VALUES for v in VALUES)
"""Every row that a table may have."""
BATCHES: dict[str, tuple[KeyValue, ...]] = {
    "one_key": ((1, 1), (1, 2)),
    "two_keys": ((0, 1), (2, 0), (2, 2)),
    "with_null": ((1, None), (None, 0)),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Mix:
    """What queries are made of, each with its weight."""

    operators: Mapping[str, int]
    joins: Mapping[str, int]
    conditions: Mapping[str, int]


EVERYTHING = Mix(
    operators={
        "join": 12,
        "exists": 2,
        "group": 4,
        "window": 2,
        "filter": 2,
        "project": 2,
        "union": 2,
        "limit": 1,
    },
    joins={"JOIN": 6, "LEFT JOIN": 4, "RIGHT JOIN": 2, "FULL JOIN": 1, "SEMI JOIN": 2, "ANTI JOIN": 2},
    conditions={
        "a.k = b.k": 8,
        "a.k IS NOT DISTINCT FROM b.k": 4,
        "a.k = b.k AND a.v >= b.v": 4,
        "a.k = b.k AND a.v = b.v": 2,
        "a.v = b.k": 1,
        "a.k = b.k + 1": 1,
        "a.k < b.k": 1,
        "a.k = b.k OR a.v = b.v": 1,
        "coalesce(a.k, 0) = coalesce(b.k, 0)": 1,
        "a.k = b.k AND a.v > 0": 1,
    },
)
OUTER_JOINS = Mix(
    operators={"join": 10, "group": 1, "filter": 1},
    joins={"JOIN": 4, "LEFT JOIN": 4, "RIGHT JOIN": 2},
    conditions={"a.k IS NOT DISTINCT FROM b.k": 4, "a.k = b.k": 2, "a.v = b.v": 1},
)
"""Joins by keys that may be NULL, and that a join below may have made NULL."""
_FILTERS = ("k = 1", "v > 0", "k IS NULL", "k IS NOT NULL", "v IS NULL OR v < 2", "k <= v")
_PROJECTIONS = ("k, v", "v AS k, k AS v", "k + 1 AS k, v", "coalesce(k, 0) AS k, v", "k, k AS v")
_GROUPS = (
    "SELECT k, max(v) AS v FROM ({r}) r GROUP BY k",
    "SELECT k, count(*) AS v FROM ({r}) r GROUP BY k",
    "SELECT min(k) AS k, v FROM ({r}) r GROUP BY v",
    "SELECT k, v FROM ({r}) r GROUP BY k, v",
    "SELECT max(k) AS k, count(*) AS v FROM ({r}) r",
    "SELECT k + 1 AS k, max(v) AS v FROM ({r}) r GROUP BY k + 1",
)
_WINDOWS = (
    "lead(v) OVER (PARTITION BY k ORDER BY v NULLS FIRST)",
    "CAST(row_number() OVER (PARTITION BY k ORDER BY v NULLS FIRST) AS BIGINT)",
    "max(v) OVER (PARTITION BY k)",
    "min(k) OVER (PARTITION BY v)",
)


def random_query(rng: random.Random, mix: Mix = EVERYTHING, *, depth: int = 3) -> str:
    """A query with columns `k` and `v`. `{t}` is the table, and batches have their own names."""
    if depth == 0:
        return f"SELECT k, v FROM {'{t}' if rng.random() < 0.55 else rng.choice(list(BATCHES))}"

    def below() -> str:
        return random_query(rng, mix, depth=rng.choice([0, depth - 1, depth - 1]))

    match _chosen(rng, mix.operators):
        case "join":
            return _join(rng, mix, below(), below())
        case "exists":
            negation = rng.choice(["", "NOT "])
            if rng.random() < 0.3:
                return f"SELECT k, v FROM ({below()}) a WHERE k {negation}IN (SELECT k FROM ({below()}) b)"
            exists = f"{negation}EXISTS (SELECT 1 FROM ({below()}) b WHERE {_chosen(rng, mix.conditions)})"
            return f"SELECT k, v FROM ({below()}) a WHERE {exists}"
        case "group":
            return rng.choice(_GROUPS).replace("{r}", below())
        case "window":
            return f"SELECT k, {rng.choice(_WINDOWS)} AS v FROM ({below()}) r"
        case "filter":
            return f"SELECT k, v FROM ({below()}) r WHERE {rng.choice(_FILTERS)}"
        case "project":
            return f"SELECT {rng.choice(_PROJECTIONS)} FROM ({below()}) r"
        case "union":
            return f"SELECT k, v FROM ({below()}) a UNION ALL SELECT k, v FROM ({below()}) b"
        case _:
            return f"SELECT k, v FROM ({below()}) r ORDER BY k NULLS FIRST, v NULLS FIRST LIMIT {rng.randint(1, 3)}"


def _join(rng: random.Random, mix: Mix, one: str, other: str) -> str:
    kind = _chosen(rng, mix.joins)
    sides = "a" if kind in ("SEMI JOIN", "ANTI JOIN") else "ab"
    columns = f"{rng.choice(sides)}.k AS k, {rng.choice(sides)}.v AS v"
    return f"SELECT {columns} FROM ({one}) a {kind} ({other}) b ON {_chosen(rng, mix.conditions)}"


def _chosen(rng: random.Random, weights: Mapping[str, int]) -> str:
    (chosen,) = rng.choices(list(weights), list(weights.values()))
    return chosen


class OtherEngine:
    """DuckDB, with the batches as tables."""

    def __init__(self) -> None:
        self._connection = duckdb.connect()
        for name, rows in BATCHES.items():
            self._put(name, rows)

    def run(self, query: str, rows: Sequence[KeyValue]) -> Counter[KeyValue]:
        """What a query returns of a table of these rows."""
        self._put("t", rows)
        return Counter(self._connection.execute(query.replace("{t}", "t")).fetchall())

    def _put(self, name: str, rows: Sequence[KeyValue]) -> None:
        self._connection.execute(f"CREATE OR REPLACE TABLE {name} (k BIGINT, v BIGINT)")
        if rows:
            self._connection.executemany(f"INSERT INTO {name} VALUES (?, ?)", rows)
