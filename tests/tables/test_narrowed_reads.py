"""Which rows of a table a query depends on, as its plan shows it: queries at random, run on tables that differ in others."""

from __future__ import annotations

import dataclasses
import os
import random
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import pytest
from pyspark.sql import SparkSession

from anabranch.commands.dml.query_reads import scan_of
from anabranch.commands.dml.target_table import TargetRows
from anabranch.commands.table_access import TableRef
from anabranch.spark.native import plan_joins
from anabranch.spark.native.plan_reading import own_reads
from anabranch.transactions.rows.deletion_vector_actions import StoredVectors
from session_kinds import classic, table_ref
from tables.random_queries import BATCHES, DOMAIN, EVERYTHING, OUTER_JOINS, KeyValue, Mix, OtherEngine, random_query

pytestmark = [pytest.mark.spark, pytest.mark.long, classic]

QUERIES = int(os.environ.get("ANABRANCH_QUERIES", "30"))
MIXES = {"everything": EVERYTHING, "outer joins": OUTER_JOINS}
TABLES = 40
"""Pairs of tables for each query."""
SCHEMA = "k long, v long"


@pytest.fixture(scope="module")
def table(native: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TableRef]:
    """A table with every row once, and views of the batches, of which nothing is known when a query is planned."""
    path = str(tmp_path_factory.mktemp("narrowed") / "t")
    native.createDataFrame(DOMAIN, SCHEMA).repartitionByRange(4, "k").write.format("delta").save(path)
    for name, rows in BATCHES.items():
        native.createDataFrame(rows, SCHEMA).coalesce(1).localCheckpoint().createOrReplaceTempView(name)
    yield table_ref(native, path)
    for name in BATCHES:
        native.catalog.dropTempView(name)


def rows_that_matter(spark: SparkSession, table: TableRef, query: str) -> set[KeyValue]:
    """The rows on which a query depends as its plan shows it."""
    snapshot = table.latest()
    vectors = StoredVectors(table.delta_log.store, random.Random(0))
    reads = own_reads(spark.sql(query.replace("{t}", f"delta.`{table.path}`")), table.path, snapshot.schema)
    if reads is None:
        return set(DOMAIN)
    matter: set[KeyValue] = set()
    for read in reads:
        scan = scan_of(table, snapshot, vectors, read, at_snapshot=True)
        if scan.reevaluate is None:
            return set(DOMAIN)
        target = TargetRows(table, snapshot, vectors, alias=read.names)
        matter |= {(row.k, row.v) for row in read.select(target.read(scan.files).frame).collect()}
    return matter


def table_of(rng: random.Random, rows: list[KeyValue]) -> list[KeyValue]:
    """Some of these rows, some of them twice."""
    return [row for row in rows for _ in range(rng.choice([0, 0, 0, 1, 1, 2]))]


@dataclasses.dataclass(frozen=True)
class Trials:
    """What queries at random showed."""

    narrowed: int
    """For how many of them some rows do not matter."""
    fault: str | None
    """A query, and two tables that differ in rows that do not matter and for which it has other results."""


def trials(spark: SparkSession, table: TableRef, count: int, *, mix: Mix = EVERYTHING, first_seed: int = 0) -> Trials:
    """Queries are judged until one shows a fault."""
    engine, narrowed = OtherEngine(), 0
    for seed in range(first_seed, first_seed + count):
        rng = random.Random(seed)
        query = random_query(rng, mix)
        matter = rows_that_matter(spark, table, query)
        others = [row for row in DOMAIN if row not in matter]
        narrowed += bool(others)
        for _ in range(TABLES if others else 0):
            same = table_of(rng, [row for row in DOMAIN if row in matter])
            one, other = ([*same, *table_of(rng, others)] for _ in range(2))
            if engine.run(query, one) != engine.run(query, other):
                return Trials(narrowed, f"seed {seed}: {query}\n  {others} do not matter\n  {one}\n  {other}")
    return Trials(narrowed, None)


def test_the_other_engine_gives_the_same_rows(native: SparkSession, table: TableRef) -> None:
    """Else it could not judge."""
    for seed in range(1000, 1000 + max(10, QUERIES // 10)):
        query = random_query(random.Random(seed))
        of_spark = native.sql(query.replace("{t}", f"delta.`{table.path}`")).collect()
        assert Counter(map(tuple, of_spark)) == OtherEngine().run(query, DOMAIN), query


@pytest.mark.parametrize("name", MIXES)
def test_a_query_depends_on_no_row_that_its_plan_leaves_out(
    native: SparkSession, table: TableRef, name: str, record_property: Callable[[str, object], None]
) -> None:
    """Set ANABRANCH_QUERIES for more of them."""
    result = trials(native, table, QUERIES, mix=MIXES[name])
    assert result.fault is None, result.fault
    record_property("told", f"reads of queries, {name}: {QUERIES}, of which {result.narrowed} are narrowed")
    assert result.narrowed >= QUERIES / 4


@dataclasses.dataclass(frozen=True, kw_only=True)
class WrongRule:
    """A rule that looks right, and from which seed on a query soon shows that it is not."""

    rule: Any
    seed: int


def _every_plan(self: plan_joins.Joins, plan: Any) -> bool:
    return True


MATCHING = plan_joins._SIDES_THAT_MUST_MATCH
WRONG_RULES: dict[str, WrongRule] = {
    "the side of an outer join that is kept whole counts only where it matches": WrongRule(
        rule=mock.patch.dict(MATCHING, LeftOuter=(0, 1), RightOuter=(0, 1)), seed=28
    ),
    "an anti-join keeps rows with a match": WrongRule(rule=mock.patch.dict(MATCHING, LeftAnti=(0, 1)), seed=83),
    "the other side is the same though it reads the table": WrongRule(
        rule=mock.patch.object(plan_joins.Joins, "_is_repeatable_plan", _every_plan), seed=14
    ),
}


@pytest.mark.parametrize("name", WRONG_RULES)
def test_the_judge_finds_rules_that_are_wrong(native: SparkSession, table: TableRef, name: str) -> None:
    wrong = WRONG_RULES[name]
    with wrong.rule:
        assert trials(native, table, 3, first_seed=wrong.seed).fault is not None
