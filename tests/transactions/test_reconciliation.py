"""What a commit says of how it was fitted behind others."""

from __future__ import annotations

from typing import Any

import pytest

from anabranch.protocol.log_paths import commit_path
from anabranch.transactions.conflicts.rebase_report import (
    Reconciliation,
    parsed_versions,
    reconciliation_of,
    version_ranges,
)
from anabranch.transactions.proposed_commit import Operation
from concurrency.conditions import Change, Row, Where
from concurrency.scenes import Scene
from concurrency.statements import Delete, Insert, InsertSelect, Optimize, Statement, Update
from transactions.table_on_memory import add, created, id_is, rival_of

SIX = [Row(k, k) for k in range(6)]
FOREIGN = Optimize(leaves_word=False)


def key(value: int) -> Where:
    return Where("k", "=", value)


def tags_of(ours: Statement, *winners: Statement, level: str = "WriteSerializable") -> dict[str, Any]:
    """The tags of ours behind the winners."""
    scene = Scene(level, SIX[:3], SIX[3:])
    assert scene.meets(ours, *winners) is None
    tags: dict[str, Any] = scene.commit()[0]["commitInfo"].get("tags", {})
    return tags


def test_no_other_commit_landed_first() -> None:
    assert tags_of(Delete(key(0))) == {}


def test_marks_that_went_through_compactions() -> None:
    """The rows are counted by version, and only those that ours deletes."""
    ours = Delete(Where("v", ">=", 4))
    assert tags_of(ours, Optimize()) == {"anabranch.landedAfter": "1", "anabranch.movedRows": '{"1":2}'}
    assert tags_of(ours, Optimize(), Delete(key(0)), Optimize((0,), rows_per_file=3)) == {
        "anabranch.landedAfter": "1-3",
        "anabranch.movedRows": '{"1":2,"3":2}',
    }
    assert tags_of(ours, Optimize((0,))) == {"anabranch.landedAfter": "1"}


def test_relocated_rows() -> None:
    assert tags_of(Delete(Where("v", ">=", 4)), FOREIGN) == {
        "anabranch.landedAfter": "1",
        "anabranch.foundRows": '{"1":2}',
    }


def test_vectors_that_were_united() -> None:
    """Only files count in which a winner has hidden rows, too."""
    assert tags_of(Delete(Where("v", ">=", 2)), Delete(key(0)), Update(key(1), Change("v", 0, False))) == {
        "anabranch.landedAfter": "1-2",
        "anabranch.unitedVectors": "1",
    }


def test_appends_that_were_not_read() -> None:
    """Those that files cannot rule out; nothing is said where the level does not allow it."""
    high, low = Insert((Row(9, 9),)), Insert((Row(0, 0),))
    assert tags_of(Delete(Where("v", ">=", 5)), high, low, high) == {
        "anabranch.landedAfter": "1-3",
        "anabranch.standsBefore": "1,3",
    }
    assert tags_of(Delete(Where("v", ">=", 5)), low, level="Serializable") == {"anabranch.landedAfter": "1"}
    assert "anabranch.standsBefore" not in tags_of(Insert((Row(1, 1),)), high)


def test_appends_that_were_not_read_where_files_decide() -> None:
    first = created(add("a"))
    ours = rival_of(first).read(id_is(3), add("a"))
    first.append(add("b", ids=(0, 5)))
    first.append(add("c", ids=(50, 60)))
    version = ours.commit([add("d")]).version
    assert b'"anabranch.standsBefore":"1"' in first.store.read(commit_path(version))


def test_optimize_behind_deletes() -> None:
    assert tags_of(Optimize(), Delete(key(0)), Delete(Where("v", ">=", 4))) == {
        "anabranch.landedAfter": "1-2",
        "anabranch.carriedRows": "3",
    }


def test_optimize_that_leaves_a_part_out() -> None:
    scene = Scene("Serializable", SIX[:2], SIX[2:4], SIX[4:])
    one, two = scene.begins(Optimize((0,))), scene.begins(Optimize((1, 2)))
    transaction = scene.played.table.begin(Operation(name="OPTIMIZE"))
    scene.lands(Delete(Where("k", "<", 2)), Delete(key(3)))
    transaction.commit_bins((*one.actions, *two.actions), (*one.bins, *two.bins))
    assert scene.commit()[0]["commitInfo"]["tags"] == {
        "anabranch.landedAfter": "1-2",
        "anabranch.carriedRows": "1",
        "anabranch.leftOutBins": "1",
    }


def test_tags_are_made_at_every_attempt() -> None:
    """The rebase of an attempt that was not committed is not counted twice."""
    scene = Scene("WriteSerializable", SIX[:3], SIX[3:])
    ours = scene.begins(Delete(key(4)))
    scene.lands(Optimize())
    assert scene.ends_late(ours, Delete(key(1)), Delete(key(0))) is None
    assert scene.commit()[0]["commitInfo"]["tags"] == {
        "anabranch.landedAfter": "1-3",
        "anabranch.movedRows": '{"1":1}',
    }


def test_read_as_written() -> None:
    how = Reconciliation(
        moved_rows={14: 3, 16: 2},
        relocated_rows={15: 1},
        united_vectors=2,
        serialized_before=(14, 15, 16, 20),
        carried_rows=7,
        left_out_bins=1,
    )
    assert reconciliation_of(how.tags()) == how
    assert Reconciliation().tags() == {}
    assert reconciliation_of(None) == reconciliation_of({}) == Reconciliation()


@pytest.mark.parametrize(
    "text", ["", "{", "[1]", '{"a":1}', '{"1":-1}', '{"1":"x"}', "1" * 3_000, "5-", "-5", "1;2", "x", None, 7]
)
def test_tags_of_others(text: object) -> None:
    """A malformed tag is ignored, whichever engine wrote it."""
    names = ("movedRows", "foundRows", "unitedVectors", "standsBefore", "carriedRows", "leftOutBins")
    assert reconciliation_of({f"anabranch.{name}": text for name in names}) == Reconciliation()


def test_stretches_of_versions() -> None:
    assert version_ranges([]) == ""
    assert version_ranges([5, 3, 4, 9]) == "3-5,9"
    assert parsed_versions("3-5,9") == (3, 4, 5, 9)
    assert parsed_versions("0-999999999999") == (0, 999999999999)
    assert version_ranges(range(0, 1_000, 2)).count(",") == 19
    assert parsed_versions("9-3") == (9, 3)


def test_a_reader_says_nothing_of_rows() -> None:
    """It hides none."""
    assert tags_of(InsertSelect(key(4), Change("k", 9, False)), Optimize()) == {"anabranch.landedAfter": "1"}
