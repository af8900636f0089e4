"""Lies in logs and histories, each of which the judge must find, and sound histories, in which it must find nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from anabranch_judge.judgement import Judgement
from judge.planted_table import PlantedTable, delete, increase, insert, put


@pytest.fixture
def table(tmp_path: Path) -> PlantedTable:
    return PlantedTable(tmp_path / "t", {1: 100, 2: 200, 3: 300})


def kinds(judgement: Judgement) -> list[str]:
    return [fault.kind for fault in judgement.faults]


def test_a_serial_history_is_serializable(table: PlantedTable) -> None:
    table.rewrite({1: 105, 2: 200, 3: 300})
    table.record("w1-1", increase(1, 5), version=1)
    table.rewrite({1: 105, 3: 300, 4: 4})
    table.record("w2-1", delete(2), insert(4, 4), version=2, reads=[{"version": 1}])
    table.rewrite({4: 4, 1: 105, 3: 300}, data_change=False)
    judgement = table.judgement()
    assert (kinds(judgement), judgement.level) == ([], "Serializable")
    assert judgement.outcomes == {"committed": 2, "conflict": 0, "unknown": 0}


def test_an_update_computed_from_an_old_row_is_a_lost_update(table: PlantedTable) -> None:
    table.rewrite({1: 107, 2: 200, 3: 300})
    table.record("w1-1", increase(1, 7), version=1)
    table.rewrite({1: 105, 2: 200, 3: 300})
    table.record("w2-1", increase(1, 5), version=2)
    judgement = table.judgement()
    assert [fault.text for fault in judgement.faults] == [
        "version 2 of w2-1 (UPDATE of liar 1.0) writes k = 1, v = 105, computed from version 0. What version 1 of w1-1 "
        "(UPDATE of liar 1.0) made of that row, k = 1, v = 107, is lost"
    ]
    assert (kinds(judgement), judgement.level) == (["lost update"], None)


def test_a_row_that_was_read_and_overwritten_after_another_change_is_a_lost_update(table: PlantedTable) -> None:
    """The value is a constant that the writer computed from what it read."""
    table.rewrite({1: 107, 2: 200, 3: 300})
    table.record("w1-1", increase(1, 7), version=1)
    table.rewrite({1: 105, 2: 200, 3: 300})
    table.record("w2-1", put(1, 105), version=2, reads=[{"where": {"k": 1}, "rows": [{"k": 1, "v": 100}]}])
    judgement = table.judgement()
    assert kinds(judgement) == ["lost update"]
    assert "had read version 0" in judgement.faults[0].text


def test_a_change_that_a_stale_file_reverts_is_a_lost_update(table: PlantedTable) -> None:
    """A writer that replaces a file from an old version reverts rows that its statement does not concern."""
    table.rewrite({1: 107, 2: 200, 3: 300})
    table.record("w1-1", increase(1, 7), version=1)
    table.rewrite({1: 100, 2: 205, 3: 300})
    table.record("w2-1", increase(2, 5), version=2)
    judgement = table.judgement()
    assert kinds(judgement) == ["lost update"]
    assert "brings k = 1, v = 100 back" in judgement.faults[0].text


def test_a_deleted_row_that_comes_back_is_resurrected(table: PlantedTable) -> None:
    table.rewrite({1: 100, 3: 300})
    table.record("w1-1", delete(2), version=1)
    table.rewrite({1: 105, 2: 200, 3: 300})
    table.record("w2-1", increase(1, 5), version=2)
    judgement = table.judgement()
    assert kinds(judgement) == ["resurrected row"]
    assert "which version 1 of w1-1 (UPDATE of liar 1.0) had removed" in judgement.faults[0].text


def test_a_compaction_may_not_resurrect_rows(table: PlantedTable) -> None:
    table.rewrite({1: 100, 3: 300})
    table.record("w1-1", delete(2), version=1)
    table.rewrite({1: 100, 2: 200, 3: 300}, data_change=False)
    assert kinds(table.judgement()) == ["resurrected row", "broken feed"]


def test_an_inserted_row_that_another_statement_removes_is_lost(table: PlantedTable) -> None:
    table.rewrite({1: 100, 2: 200, 3: 300, 4: 4})
    table.record("w1-1", insert(4, 4), version=1)
    table.rewrite({1: 105, 2: 200, 3: 300})
    table.record("w2-1", increase(1, 5), version=2)
    judgement = table.judgement()
    assert kinds(judgement) == ["lost row"]
    assert "which came with version 1 of w1-1" in judgement.faults[0].text


def test_an_acknowledged_statement_that_is_in_no_version_is_lost(table: PlantedTable) -> None:
    table.record("w1-1", insert(4, 4))
    assert kinds(table.judgement()) == ["lost write"]


def test_two_statements_with_one_version_are_one_lost_write(table: PlantedTable) -> None:
    table.rewrite({1: 105, 2: 200, 3: 300})
    table.record("w1-1", increase(1, 5), version=1)
    table.record("w2-1", increase(2, 5), version=1)
    assert kinds(table.judgement()) == ["lost write"]


def test_a_statement_that_changes_nothing_needs_no_version(table: PlantedTable) -> None:
    table.record("w1-1", delete(9))
    assert kinds(table.judgement()) == []


def test_a_refused_statement_may_not_be_there(table: PlantedTable) -> None:
    table.rewrite({1: 100, 2: 200, 3: 300, 4: 4})
    table.record("w1-1", insert(4, 4), outcome="conflict")
    assert kinds(table.judgement()) == ["refused and written"]


@pytest.mark.parametrize("is_written", [False, True])
def test_a_killed_statement_is_there_wholly_or_not_at_all(table: PlantedTable, is_written: bool) -> None:
    table.record("w1-1", insert(4, 4), delete(1), outcome=None)
    if is_written:
        table.rewrite({2: 200, 3: 300, 4: 4})
    assert kinds(table.judgement()) == []


def test_a_part_of_a_statement_is_a_fault(table: PlantedTable) -> None:
    table.rewrite({1: 100, 2: 200, 3: 300, 4: 4})
    table.record("w1-1", insert(4, 4), delete(1), version=1)
    assert kinds(table.judgement()) == ["part of a statement"]


def test_a_statement_whose_name_is_in_two_commits_is_written_twice(table: PlantedTable) -> None:
    table.rewrite({1: 105, 2: 200, 3: 300}, userMetadata="w1-1")
    table.rewrite({1: 110, 2: 200, 3: 300}, userMetadata="w1-1")
    table.record("w1-1", increase(1, 5), outcome=None)
    assert "written twice" in kinds(table.judgement())


def test_a_retried_insert_is_written_twice(table: PlantedTable) -> None:
    """Without names in commits, the second one is a version that no statement explains."""
    table.rewrite({1: 100, 2: 200, 3: 300, 4: 4})
    table.commit([table.add({4: 4})])
    table.record("w1-1", insert(4, 4), version=1)
    assert kinds(table.judgement()) == ["written twice"]


def test_a_version_without_a_statement_is_a_fault_if_it_changes_rows(table: PlantedTable) -> None:
    table.record("w1-1", insert(9, 9), outcome="unknown")
    table.rewrite({1: 100, 2: 200, 3: 300, 4: 4})
    assert kinds(table.judgement()) == ["unexplained row"]


def test_a_feed_that_misses_a_row_is_broken(table: PlantedTable) -> None:
    changes = table.feed_file([("update_preimage", 1, 100), ("update_postimage", 1, 105)])
    table.rewrite({1: 105, 2: 205, 3: 300}, changes)
    table.record("w1-1", increase(1, 5), increase(2, 5), version=1)
    judgement = table.judgement()
    assert [fault.text for fault in judgement.faults] == [
        "the change files of version 1: the deletion of (k = 2, v = 200) is missing; the insertion of (k = 2, v = 205) is missing"
    ]


def test_a_feed_that_a_reader_returns_is_compared(table: PlantedTable) -> None:
    table.rewrite({1: 100, 2: 200, 3: 300, 4: 4})
    table.record("w1-1", insert(4, 4), version=1)
    row = {"k": 5, "v": 4, "_change_type": "insert", "_commit_version": 1, "_commit_timestamp": "2026-01-01"}
    table.events.append({"event": "feed", "reader": "liar", "from": 1, "to": 1, "rows": [row]})
    assert [fault.text for fault in table.judgement().faults] == [
        "the feed that liar read of version 1: the insertion of (k = 4, v = 4) is missing; "
        "an insertion of (k = 5, v = 4) did not happen"
    ]
    table.events[-1]["rows"] = [row | {"k": 4}]
    assert kinds(table.judgement()) == []


def test_a_wrong_size_of_a_file_is_a_fault(table: PlantedTable) -> None:
    """Readers look for the end of a Parquet file by it."""
    table.commit([table.add({4: 4}, size=1)])
    table.record("w1-1", insert(4, 4), version=1)
    judgement = table.judgement()
    assert kinds(judgement) == ["wrong file"]
    assert "has 1 bytes, and it has" in judgement.faults[0].text


def test_write_skew_is_allowed_by_snapshots_alone(table: PlantedTable) -> None:
    """Each of two statements reads what the other one changes."""
    both = [{"where": {"k": {"<=": 2}}, "version": 0}]
    table.rewrite({1: 0, 2: 200, 3: 300})
    table.record("w1-1", put(1, 0), version=1, reads=both)
    table.rewrite({1: 0, 2: 0, 3: 300})
    table.record("w2-1", put(2, 0), version=2, reads=both)
    judgement = table.judgement()
    assert (kinds(judgement), judgement.level) == ([], "SnapshotIsolation")
    witness = judgement.witnesses["WriteSerializable"]
    assert witness is not None
    assert witness.startswith("there is no serial order: w2-1 (UPDATE of liar 1.0), version 2, must come before w1-1")
    assert "w1-1 (UPDATE of liar 1.0), version 1, must come before w2-1" in witness


def test_a_delete_before_an_insert_that_landed_first_is_write_serializable(table: PlantedTable) -> None:
    """As Delta's default level allows: the DELETE does not see the row of the INSERT, and comes before it."""
    table.rewrite({1: 100, 2: 200, 3: 300, 4: 400})
    table.record("w1-1", insert(4, 400), version=1)
    table.rewrite({1: 100, 2: 200, 4: 400})
    table.record("w2-1", {"do": "delete", "where": {"v": {">=": 300}}}, version=2)
    judgement = table.judgement()
    assert (kinds(judgement), judgement.level) == ([], "WriteSerializable")
    assert "as version 0 has them" in str(judgement.witnesses["Serializable"])


def test_a_cycle_over_three_statements_is_found(table: PlantedTable) -> None:
    """The DELETE missed the INSERT's row, and another statement that it sees had read that row."""
    table.rewrite({1: 100, 2: 200, 3: 300, 4: 400})
    table.record("w1-1", insert(4, 400), version=1)
    table.rewrite({1: 500, 2: 200, 3: 300, 4: 400})
    table.record("w2-1", put(1, 500), version=2, reads=[{"where": {"k": 4}, "rows": [{"k": 4, "v": 400}]}])
    table.rewrite({2: 200, 4: 400})
    table.record("w3-1", {"do": "delete", "where": {"v": {">=": 300}}}, version=3)
    judgement = table.judgement()
    assert judgement.witnesses["Serializable"] is not None
    assert judgement.witnesses["WriteSerializable"] is not None


def test_rows_of_two_versions_are_a_torn_read(table: PlantedTable) -> None:
    table.rewrite({1: 105, 2: 205, 3: 300})
    table.record("w1-1", increase(1, 5), increase(2, 5), version=1)
    rows = [{"k": 1, "v": 100}, {"k": 2, "v": 205}, {"k": 3, "v": 300}]
    table.record("r1-1", version=None, reads=[{"rows": rows}])
    judgement = table.judgement()
    assert kinds(judgement) == ["torn read"]
    assert judgement.level is None


def test_a_read_that_differs_from_its_version_is_torn(table: PlantedTable) -> None:
    table.record("r1-1", reads=[{"version": 0, "where": {"k": 1}, "rows": [{"k": 1, "v": 99}]}])
    table.record("r1-2", reads=[{"version": 7}])
    assert kinds(table.judgement()) == ["torn read", "torn read"]


def test_statements_without_versions_are_matched_by_what_they_do(table: PlantedTable) -> None:
    """Two writers add the same number to one row: either may be first."""
    table.record("w1-1", increase(1, 5))
    table.record("w2-1", increase(1, 5))
    table.record("w3-1", {"do": "upsert", "row": {"k": 9, "v": 9}})
    table.record("w3-2", {"do": "insert if absent", "row": {"k": 9, "v": 1}})
    table.rewrite({1: 105, 2: 200, 3: 300})
    table.rewrite({1: 105, 2: 200, 3: 300, 9: 9})
    table.rewrite({1: 110, 2: 200, 3: 300, 9: 9})
    judgement = table.judgement()
    assert (kinds(judgement), judgement.level) == ([], "Serializable")
