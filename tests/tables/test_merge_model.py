"""MERGE against a model of it in a few lines of Python, over random statements, one after the other on one table."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from unittest import mock

import pytest
from pyspark.sql import SparkSession

from anabranch.commands.dml import file_sample
from anabranch.commands.merge import merge_rows, merge_sample
from anabranch.errors.dml import AmbiguousMergeError
from anabranch.tables import DeltaMergeBuilder, DeltaTable

pytestmark = [pytest.mark.spark, pytest.mark.long]

STATEMENTS = 8
Values = tuple[int | None, int | None]
"""`k` and `v`."""
Test = Callable[[Values, Values], bool | None]
"""Of a row of the table and a row of the source; what a clause does not see, it does not look at."""
NONE: Values = (None, None)


@dataclass(frozen=True)
class Case:
    """The same in SQL and in Python."""

    sql: str
    test: Test


@dataclass(frozen=True)
class Clause:
    """`becomes` is None for a row that is deleted."""

    condition: Case | None
    sql: dict[str, str] | None
    becomes: Callable[[Values, Values], Values] | None

    def applies(self, row: Values, source_row: Values) -> bool:
        return self.condition is None or self.condition.test(row, source_row) is True


def compared(a: int | None, b: int | None, test: Callable[[int, int], bool]) -> bool | None:
    return None if a is None or b is None else test(a, b)


EQUAL = Case("t.k = s.k", lambda t, s: compared(t[0], s[0], lambda a, b: a == b))
ON = [
    *[EQUAL] * 4,
    Case("t.k <=> s.k", lambda t, s: t[0] == s[0]),
    Case("t.k = s.k AND t.v >= 0", lambda t, s: EQUAL.test(t, s) and compared(t[1], 0, lambda a, b: a >= b)),
    Case("t.k = s.k + 1", lambda t, s: compared(t[0], s[0], lambda a, b: a == b + 1)),
    Case("t.k < s.k AND s.k < 3", lambda t, s: compared(t[0], s[0], lambda a, b: a < b < 3)),
    Case("false", lambda t, s: False),
]
OF_BOTH = [
    Case("t.v < s.v", lambda t, s: compared(t[1], s[1], lambda a, b: a < b)),
    Case("s.v % 2 = 0", lambda t, s: compared(s[1], 0, lambda a, b: a % 2 == b)),
    Case("t.v IS NULL", lambda t, s: t[1] is None),
]
OF_SOURCE = [
    Case("v > 0", lambda t, s: compared(s[1], 0, lambda a, b: a > b)),
    Case("s.k IS NOT NULL", lambda t, s: s[0] is not None),
]
OF_TARGET = [
    Case("v > 2", lambda t, s: compared(t[1], 2, lambda a, b: a > b)),
    Case("t.k < 4", lambda t, s: compared(t[0], 4, lambda a, b: a < b)),
]


def added(a: int | None, b: int | None) -> int | None:
    return None if a is None or b is None else a + b


def clauses(draw: random.Random, kind: str) -> list[Clause]:
    """Up to two clauses of one kind; only the last may have no condition."""
    conditions = {"matched": OF_BOTH, "not matched": OF_SOURCE, "by source": OF_TARGET}[kind]
    number = draw.choice([0, 1, 1, 2])
    made = []
    for index in range(number):
        last = index == number - 1
        condition = None if last and draw.random() < 0.5 else draw.choice(conditions)
        made.append(action(draw, kind, condition))
    return made


def action(draw: random.Random, kind: str, condition: Case | None) -> Clause:
    if kind == "not matched":
        if draw.random() < 0.5:
            return Clause(condition, None, lambda t, s: s)
        return Clause(condition, {"k": "k", "v": "v + 100"}, lambda t, s: (s[0], added(s[1], 100)))
    if draw.random() < 0.4:
        return Clause(condition, None, None)
    if kind == "by source":
        return Clause(condition, {"v": "v - 10"}, lambda t, s: (t[0], added(t[1], -10)))
    return Clause(condition, {"v": "t.v + s.v"}, lambda t, s: (t[0], added(t[1], s[1])))


LIMITS = [
    (merge_rows, "FILTERED_BYTES_MIN"),
    (file_sample, "SAMPLED_BYTES_MIN"),
    (file_sample, "FILES_MIN"),
    (merge_sample, "COLUMNS_RATIO_MIN"),
]


class Ambiguous(Exception):
    pass


def model(
    rows: Sequence[Values],
    source: Sequence[Values],
    on: Case,
    matched: Sequence[Clause],
    not_matched: Sequence[Clause],
    by_source: Sequence[Clause],
) -> tuple[list[Values], tuple[int, int, int]]:
    """The rows afterwards, and how many were updated, deleted and inserted."""
    left: list[Values] = []
    updated = deleted = 0
    only_delete = len(matched) == 1 and matched[0].condition is None and matched[0].becomes is None
    for row in rows:
        partners = [source_row for source_row in source if on.test(row, source_row) is True]
        of = [
            (clause, source_row)
            for source_row in partners
            for clause in [first(matched, row, source_row)]
            if clause is not None
        ]
        if len(of) > 1 and not only_delete:
            raise Ambiguous
        if not partners:
            clause = first(by_source, row, NONE)
            of = [] if clause is None else [(clause, NONE)]
        if not of:
            left.append(row)
            continue
        clause, source_row = of[0]
        if clause.becomes is None:
            deleted += 1
        else:
            updated += 1
            left.append(clause.becomes(row, source_row))
    new = []
    for source_row in source:
        if not any(on.test(row, source_row) is True for row in rows):
            clause = first(not_matched, NONE, source_row)
            if clause is not None and clause.becomes is not None:
                new.append(clause.becomes(NONE, source_row))
    return left + new, (updated, deleted, len(new))


def first(clauses: Sequence[Clause], row: Values, source_row: Values) -> Clause | None:
    return next((clause for clause in clauses if clause.applies(row, source_row)), None)


def some_rows(draw: random.Random, count: int) -> list[Values]:
    def value() -> int | None:
        return None if draw.random() < 0.1 else draw.randint(-1, 6)

    return [(value(), value()) for _ in range(count)]


def built(
    table: DeltaTable, source: Any, on: Case, matched: list[Clause], not_matched: list[Clause], by_source: list[Clause]
) -> DeltaMergeBuilder:
    builder = table.alias("t").merge(source.alias("s"), on.sql)
    for clause in matched:
        sql = None if clause.condition is None else clause.condition.sql
        builder = builder.whenMatchedDelete(sql) if clause.sql is None else builder.whenMatchedUpdate(sql, clause.sql)
    for clause in not_matched:
        sql = None if clause.condition is None else clause.condition.sql
        if clause.sql is None:
            builder = builder.whenNotMatchedInsertAll(sql)
        else:
            builder = builder.whenNotMatchedInsert(sql, clause.sql)
    for clause in by_source:
        sql = None if clause.condition is None else clause.condition.sql
        if clause.sql is None:
            builder = builder.whenNotMatchedBySourceDelete(sql)
        else:
            builder = builder.whenNotMatchedBySourceUpdate(sql, clause.sql)
    return builder


@contextlib.contextmanager
def reads_conditions_first() -> Iterator[None]:
    """A small table is read as a large one: by Parquet's statistics, and whole rows only of files with changes."""
    with contextlib.ExitStack() as limits:
        for module, limit in LIMITS:
            limits.enter_context(mock.patch.object(module, limit, 0))
        yield


@pytest.mark.parametrize(("seed", "vectors"), [(1, "true"), (2, "false")], ids=["vectors", "rewriting"])
def test_random_statements(delta: SparkSession, path: str, seed: int, vectors: str) -> None:
    """Covers race 45 in the main: equal rows are distinguished by their positions."""
    draw = random.Random(seed)
    schema = "k int, v int"
    expected = some_rows(draw, 9)
    writer = delta.createDataFrame(expected, schema).repartition(2).write.format("delta")
    writer.option("delta.enableDeletionVectors", vectors).save(path)
    table = DeltaTable.forPath(delta, path)
    for number in range(STATEMENTS):
        source = list(dict(some_rows(draw, 5)).items()) if draw.random() < 0.7 else some_rows(draw, 4)
        on = draw.choice(ON)
        kinds = [clauses(draw, kind) for kind in ("matched", "not matched", "by source")]
        if not any(kinds):
            continue
        story = f"statement {number} of seed {seed}: {expected} with {source} on {on.sql}: {kinds}"
        merging = built(table, delta.createDataFrame(source, schema), on, *kinds)
        reading = reads_conditions_first() if draw.random() < 0.5 else contextlib.nullcontext()
        try:
            expected, counts = model(expected, source, on, *kinds)
        except Ambiguous:
            with reading, pytest.raises(AmbiguousMergeError):
                merging.execute()
        else:
            with reading:
                assert tuple(merging.execute().collect()[0]) == (sum(counts), *counts), story
        rows = [(row.k, row.v) for row in table.toDF().collect()]
        assert sorted(rows, key=str) == sorted(expected, key=str), story
