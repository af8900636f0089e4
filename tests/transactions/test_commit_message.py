"""The line that each commit leaves in the log of a program."""

from __future__ import annotations

import logging

import pytest

from anabranch.transactions.commit import commit_loop
from anabranch.transactions.proposed_commit import Operation
from transactions.table_on_memory import add, created, metadata, rival_of


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "anabranch.commit"]


def test_a_commit_is_one_line(caplog: pytest.LogCaptureFixture) -> None:
    made = created()
    size = add("a").size
    with caplog.at_level(logging.INFO, logger="anabranch.commit"):
        made.table.begin(Operation(name="WRITE")).commit(
            [add("a"), add("b")], metrics={"numFiles": 2, "numOutputRows": 7, "numDeletedRows": 0}
        )
    root = made.store.root
    assert lines(caplog) == [
        f"{root}: version 1, WRITE: 7 rows written, 2 files added ({2 * size} bytes), 0 files removed, 0 ms"
    ]
    assert caplog.records[0].levelno == logging.INFO


def test_the_line_names_the_commits_that_landed_first(caplog: pytest.LogCaptureFixture) -> None:
    ours = created()
    winner, late = rival_of(ours), ours.begin()
    for number in range(3):
        winner.append(add(f"w{number}"))
    caplog.clear()
    with caplog.at_level(logging.INFO, logger="anabranch.commit"):
        late.commit([add("ours")])
    (line,) = lines(caplog)
    assert line.startswith(f"{ours.store.root}: version 4, WRITE: 1 file added")
    assert line.endswith("rebased over versions 1-3 in 2 attempts")


@pytest.mark.parametrize(
    ("metrics", "rows"),
    [
        ({"numTargetRowsInserted": 2, "numTargetRowsUpdated": 1, "numTargetRowsDeleted": 0, "numOutputRows": 9},
         "2 rows inserted, 1 row updated, "),
        ({"numUpdatedRows": 4, "numCopiedRows": 3}, "4 rows updated, "),
        ({"numDeletedRows": 5}, "5 rows deleted, "),
        ({"numDeletedRows": 5, "numOutputRows": 6}, "5 rows deleted, 6 rows written, "),
        ({}, ""),
    ],
)  # fmt: skip
def test_rows_are_those_that_changed(metrics: dict[str, int], rows: str, caplog: pytest.LogCaptureFixture) -> None:
    made = created()
    with caplog.at_level(logging.INFO, logger="anabranch.commit"):
        made.table.begin(Operation(name="MERGE")).commit([add("a")], metrics=metrics)
    assert f"version 1, MERGE: {rows}1 file added" in lines(caplog)[0]


def test_without_info_no_line_is_made(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    made = created()
    monkeypatch.setattr(commit_loop, "commit_message", lambda *_, **__: pytest.fail("a line was made"))
    with caplog.at_level(logging.WARNING, logger="anabranch.commit"):
        made.append(add("a"))
    assert lines(caplog) == []


def test_a_line_that_cannot_be_made_is_no_failure(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commit is in the log by then, so nothing may raise."""

    def broken(*_: object, **__: object) -> str:
        raise ValueError("a metric of another writer")

    made = created()
    monkeypatch.setattr(commit_loop, "commit_message", broken)
    with caplog.at_level(logging.INFO, logger="anabranch.commit"):
        assert made.append(add("a")).version == 1
    (line,) = lines(caplog)
    assert line == f"{made.store.root}: version 1 could not be described"


def test_a_commit_of_a_description_counts_no_rows(caplog: pytest.LogCaptureFixture) -> None:
    made = created()
    changed = metadata(properties={"delta.appendOnly": "true"})
    with caplog.at_level(logging.INFO, logger="anabranch.commit"):
        made.commit([changed], name="SET TBLPROPERTIES")
    assert "version 1, SET TBLPROPERTIES: 0 files added (0 bytes), 0 files removed" in lines(caplog)[0]
