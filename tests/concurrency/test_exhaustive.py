"""Every sequence of up to three statements over a table of three rows, each reading every version there was.

Covers judge C7 at small scope: all kinds of statements, both levels, the real conflict checks. Of the sequences of three
a run has those that a seventh of the kinds begin, by its turn; `make prove` has all at once.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from concurrency.exhaustive import (
    ALL_KINDS,
    DESCRIPTION_KINDS,
    FEW_KINDS,
    FEW_TRANSACTION_KINDS,
    NUMBERED_KINDS,
    PARTS,
    TRANSACTION_KINDS,
    TRANSACTIONS,
    explore,
)
from concurrency.histories import LEVELS
from concurrency.merging import MATCHED, Merge
from concurrency.played_table import Manner
from concurrency.statements import (
    InsertAbsent,
    Numbered,
    Optimize,
    ReplaceWhere,
    ReserveNumbers,
    Restore,
    Rewriting,
    Statement,
    Update,
)
from concurrency.wrong_rules import WRONG_RULES, WrongRule
from concurrency.wrong_transactions import WRONG_TRANSACTIONS
from turns import turn

RecordProperty = Callable[[str, object], None]

MANNERS = [
    Manner(statistics="counts"),
    Manner(statistics="nothing"),
    Manner(reevaluates=False),
    Manner(names_rows=False),
    Manner(whole_files=True, tracks_rows=True),
    Manner(vectors=False),
]


SHARES = 7
SHARE = turn() % SHARES
LEVEL = LEVELS[turn() % len(LEVELS)]
"""After 14 turns every sequence was played on each level; `make prove` plays all of them."""


def report(record_property: RecordProperty, words: str) -> None:
    """Show the figures at the end of the run."""
    record_property("told", words)


@pytest.mark.long
def test_three_statements_of_all_kinds(record_property: RecordProperty) -> None:
    explored = explore(LEVEL, ALL_KINDS, statements=3, begun_by=ALL_KINDS[SHARE::SHARES])
    report(
        record_property,
        f"sequences of three statements of {len(ALL_KINDS)} kinds, part {SHARE + 1} of {SHARES}, {LEVEL}: {explored}",
    )
    assert explored.problems == []
    assert explored.states > 1_000
    assert explored.refusals > 200


@pytest.mark.long
def test_three_statements_with_transactions(record_property: RecordProperty) -> None:
    explored = explore(LEVEL, FEW_TRANSACTION_KINDS, statements=3, begun_by=FEW_TRANSACTION_KINDS[SHARE::SHARES])
    report(
        record_property,
        f"sequences of three of {len(FEW_TRANSACTION_KINDS)} kinds with transactions of two statements, part {SHARE + 1} "
        f"of {SHARES}, {LEVEL}: {explored}",
    )
    assert explored.problems == []
    assert explored.refusals > 100


@pytest.mark.long
def test_two_transactions(record_property: RecordProperty) -> None:
    explored = explore(LEVEL, TRANSACTION_KINDS, statements=2)
    kinds = f"{len(TRANSACTION_KINDS)} kinds, of which {len(TRANSACTIONS)} are transactions of two statements"
    report(record_property, f"every pair of {kinds}, {LEVEL}: {explored}")
    assert explored.problems == []
    assert explored.refusals > 500


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("manner", [Manner(describes=True), Manner(describes=True, tracks_rows=True)], ids=str)
def test_two_statements_on_rows_and_on_descriptions(
    level: str, manner: Manner, record_property: RecordProperty
) -> None:
    explored = explore(level, DESCRIPTION_KINDS, statements=2, manner=manner)
    report(
        record_property, f"every pair of statements of {len(DESCRIPTION_KINDS)} kinds, {level}, {manner}: {explored}"
    )
    assert explored.problems == []
    assert explored.refusals > 100


@pytest.mark.parametrize("level", LEVELS)
def test_three_statements_on_a_table_with_an_identity_column(level: str, record_property: RecordProperty) -> None:
    manner = Manner(describes=True, numbers_rows=True)
    explored = explore(level, NUMBERED_KINDS, statements=3, manner=manner)
    report(record_property, f"every three statements of {len(NUMBERED_KINDS)} kinds with numbers, {level}: {explored}")
    assert explored.problems == []
    assert explored.commits > 1_000


@pytest.mark.long
def test_three_statements_on_rows_and_on_descriptions(record_property: RecordProperty) -> None:
    explored = explore(
        LEVEL,
        DESCRIPTION_KINDS,
        statements=3,
        manner=Manner(describes=True),
        begun_by=DESCRIPTION_KINDS[SHARE::SHARES],
    )
    report(
        record_property,
        f"sequences of three of {len(DESCRIPTION_KINDS)} kinds, part {SHARE + 1} of {SHARES}, {LEVEL}: {explored}",
    )
    assert explored.problems == []


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(
    "manner", [*MANNERS[:2], *(pytest.param(manner, marks=pytest.mark.long) for manner in MANNERS[2:])], ids=str
)
def test_two_statements_of_all_kinds(level: str, manner: Manner, record_property: RecordProperty) -> None:
    explored = explore(level, ALL_KINDS, statements=2, manner=manner)
    report(record_property, f"every pair of statements of {len(ALL_KINDS)} kinds, {level}, {manner}: {explored}")
    assert explored.problems == []


def test_no_kind_is_left_out() -> None:
    """Statements of every class, MERGE with every clause, OPTIMIZE of every sort."""
    kinds = {type(kind) for kind in (*ALL_KINDS, *DESCRIPTION_KINDS, *TRANSACTION_KINDS, *PARTS)} - {Numbered}
    # The simulation has a class of its own.
    statements = {kind for kind in Statement.__subclasses__() if kind.__module__.startswith("concurrency.")}
    assert kinds == {*statements, InsertAbsent} - {ReserveNumbers}
    merges = [kind for kind in ALL_KINDS if isinstance(kind, Merge)]
    assert {merge.matched for merge in merges} == set(MATCHED)
    assert {merge.orphans for merge in merges if merge.not_in_source} == {"delete", "update"}
    assert {merge.inserts for merge in merges} == {merge.tells_changes for merge in merges} == {True, False}
    optimizes = [kind for kind in ALL_KINDS if isinstance(kind, Optimize)]
    assert {(optimize.leaves_word, optimize.ordered) for optimize in optimizes} == {
        (a, b) for a in (True, False) for b in (True, False)
    }
    assert any(optimize.purges for optimize in optimizes)
    assert any(isinstance(kind, Update) and kind.change.column == "k" for kind in ALL_KINDS)
    assert {type(kind.statement).__name__ for kind in ALL_KINDS if isinstance(kind, Rewriting)} == {"Delete", "Update"}
    assert {str(kind.where) for kind in ALL_KINDS if isinstance(kind, ReplaceWhere)} >= {"true"}
    assert any(isinstance(kind, Restore) for kind in ALL_KINDS)


@pytest.mark.parametrize("wrong", WRONG_TRANSACTIONS[:2], ids=lambda wrong: wrong.name)
def test_it_finds_a_wrong_rule_for_transactions(wrong: WrongRule) -> None:
    with wrong.in_force():
        explored = explore("Serializable", FEW_TRANSACTION_KINDS, statements=2, begun_by=FEW_TRANSACTION_KINDS[9:10])
    assert explored.problems


def test_it_finds_a_wrong_rule() -> None:
    with WRONG_RULES[0].in_force():
        assert explore("Serializable", FEW_KINDS, statements=2).problems
