"""What depends on the version: row ids, timestamps; and what no commit may do."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import msgspec
import pytest

from anabranch.errors.commits import (
    AppendOnlyTableError,
    InvalidCommitError,
    MalformedDomainError,
    NumbersExhaustedError,
    RowIdsNeedStatisticsError,
)
from anabranch.errors.protocol import UnsupportedFeatureError
from anabranch.protocol.actions import Action, SetTransaction
from anabranch.protocol.log_paths import commit_path
from anabranch.transactions.proposed_commit import Operation
from transactions.log_linter import lint
from transactions.table_on_memory import (
    PLAIN,
    Writer,
    add,
    created,
    domain,
    features,
    id_is,
    metadata,
    remove,
    rival_of,
    with_properties,
    writer,
)

TRACKED = features("appendOnly", "invariants", "rowTracking", "domainMetadata", "deletionVectors")
TIMED = features("appendOnly", "invariants", "inCommitTimestamp")
TIMES_ON = with_properties(metadata(), enableInCommitTimestamps="true")


def info(table: Writer, version: int) -> dict[str, Any]:
    return dict(json.loads(table.store.read(commit_path(version)).splitlines()[0])["commitInfo"])


def ids_of(table: Writer, path: str) -> tuple[int | None, int | None]:
    file = table.table.snapshots.latest().files.at_path(path)[0]
    return file.base_row_id, file.default_row_commit_version


def commits_of(table: Writer) -> list[str]:
    return [file.path for file in table.store.list_from("_delta_log") if file.path.endswith(".json")]


def spoil(table: Writer, *actions: dict[str, Any], timestamp_ms: int | None = None) -> None:
    """A commit by another program."""
    version = table.table.snapshots.latest().version + 1
    first = {
        "commitInfo": {"operation": "WRITE"} | ({} if timestamp_ms is None else {"inCommitTimestamp": timestamp_ms})
    }
    table.store.put(commit_path(version), "".join(json.dumps(action) + "\n" for action in (first, *actions)).encode())


def row_id_mark(configuration: str) -> dict[str, Any]:
    return {"domainMetadata": {"domain": "delta.rowTracking", "configuration": configuration, "removed": False}}


# Row ids


def test_row_ids_are_consecutive() -> None:
    table = created(add("a", rows=10), protocol=TRACKED)
    table.append(add("b", rows=3), add("c", rows=4))
    assert [ids_of(table, name) for name in "abc"] == [(0, 0), (10, 1), (13, 1)]
    assert lint(table.store) == []


def test_row_ids_are_assigned_at_every_attempt() -> None:
    """Covers race 80: no overlap after a rebase, and the mark never falls."""
    table = created(protocol=TRACKED)
    ours = table.begin()
    rival = rival_of(table)
    rival.append(add("w1", rows=7))
    rival.append(add("w2", rows=5))
    ours.commit([add("a", rows=2)])
    assert ids_of(table, "a") == (12, 3)
    assert lint(table.store) == []


def test_file_that_stays_keeps_its_row_ids() -> None:
    """Covers race 83: hiding rows of a file is no new file."""
    table = created(add("a", rows=10), protocol=TRACKED)
    file = table.table.snapshots.latest().files.to_actions()[0]
    table.append(add("b", rows=3))
    table.rewrite(file, add("a", vector="v1", rows=10), where=id_is(5), name="DELETE")
    assert ids_of(table, "a") == (0, 0)
    assert info(table, 2)["tags"]["delta.rowTracking.preserved"] == "true"
    assert lint(table.store) == []


def test_row_ids_assigned_by_a_winner_are_kept() -> None:
    """A winner has numbered the files that were there; ours removes and keeps them by those numbers."""
    first = created(add("a", rows=10), protocol=features("appendOnly", "invariants", "deletionVectors"))
    ours = first.begin("DELETE")
    numbered = msgspec.structs.replace(add("a", rows=10), data_change=False)
    rival_of(first).commit([TRACKED, numbered], name="ROW TRACKING BACKFILL")
    ours.commit([remove(add("a")), add("a", vector="v", rows=10)])
    assert ids_of(first, "a") == (0, 1)
    assert b'"baseRowId":0' in first.store.read(commit_path(2))


def test_copied_rows_without_ids_are_owned_up_to() -> None:
    table = created(add("a"), protocol=TRACKED)
    file = table.table.snapshots.latest().files.to_actions()[0]
    table.rewrite(file, add("a2"), where=id_is(5))
    assert info(table, 1)["tags"]["delta.rowTracking.preserved"] == "false"


def test_file_without_row_count_gets_no_row_ids() -> None:
    table = created(protocol=TRACKED)
    with pytest.raises(RowIdsNeedStatisticsError, match="numRecords"):
        table.append(add("a", ids=None))


LAST = 2**63 - 1


@pytest.mark.parametrize("mark", [LAST, LAST - 2])
def test_row_ids_end_where_a_long_does(mark: int) -> None:
    """Covers attack A10: another writer gave out the last ids there are."""
    table = created(protocol=TRACKED)
    spoil(table, row_id_mark(json.dumps({"rowIdHighWaterMark": mark})))
    with pytest.raises(NumbersExhaustedError, match="row ids"):
        table.append(add("a", rows=3))
    assert len(commits_of(table)) == 2, "nothing was written"
    assert table.begin().commit([SetTransaction(app_id="app", version=1)]).version == 2


def test_last_row_ids_are_assigned() -> None:
    table = created(protocol=TRACKED)
    spoil(table, row_id_mark(json.dumps({"rowIdHighWaterMark": LAST - 3})))
    table.append(add("a", rows=3))
    assert ids_of(table, "a") == (LAST - 2, 2)


@pytest.mark.parametrize(
    "configuration", ["", "{", "[]", '{"rowIdHighWaterMark":"x"}', f'{{"rowIdHighWaterMark":{2**63}}}']
)
def test_malformed_high_water_mark_is_reported(configuration: str) -> None:
    table = created(protocol=TRACKED)
    spoil(table, row_id_mark(configuration))
    with pytest.raises(MalformedDomainError, match=r"delta\.rowTracking"):
        table.append(add("a"))


def test_suspended_row_tracking_gives_no_ids() -> None:
    table = created(add("a"), protocol=TRACKED, described=with_properties(metadata(), rowTrackingSuspended="true"))
    assert ids_of(table, "a") == (None, None)


# Timestamps


def test_in_commit_timestamps_rise_though_the_clock_does_not() -> None:
    """Covers race 81, fault F28: the clock stops, then falls back an hour."""
    table = created(protocol=TIMED, described=TIMES_ON)
    first_ms = info(table, 0)["inCommitTimestamp"]
    table.append(add("a"))
    table.clock.time_ms -= 3_600_000
    ours = table.begin()
    rival_of(table).append(add("w"))
    committed = ours.commit([add("b")])

    times = [info(table, version)["inCommitTimestamp"] for version in range(4)]
    assert times == [first_ms, first_ms + 1, first_ms + 2, first_ms + 3]
    assert committed.timestamp_ms == times[3]
    assert committed.snapshot.timestamp_ms == times[3]
    assert lint(table.store) == []


def test_turning_timestamps_on_is_noted() -> None:
    """Readers get the version and time of the change, which are greater than those of the file before."""
    table = created()
    table.append(add("a"))
    ours = table.begin()
    rival_of(table).append(add("w"))
    table.clock.time_ms -= 1_000
    committed = ours.commit([TIMED, TIMES_ON])

    noted = committed.snapshot.metadata.configuration
    assert noted["delta.inCommitTimestampEnablementVersion"] == "3"
    assert noted["delta.inCommitTimestampEnablementTimestamp"] == str(committed.timestamp_ms)
    before = table.store.head(commit_path(2))
    assert before is not None
    assert committed.timestamp_ms > before.modified_ms
    assert info(table, 3)["inCommitTimestamp"] == committed.timestamp_ms


def test_new_table_with_timestamps_needs_no_note() -> None:
    table = created(protocol=TIMED, described=TIMES_ON)
    assert table.table.snapshots.latest().metadata.configuration == {"delta.enableInCommitTimestamps": "true"}


def test_timestamps_turned_on_by_a_winner_are_kept_to() -> None:
    """Covers race 76."""
    first = created()
    ours = first.begin()
    rival_of(first).commit([TIMED, TIMES_ON])
    ours.commit([add("a")])
    assert info(first, 2)["inCommitTimestamp"] > info(first, 1)["inCommitTimestamp"]


def test_timestamps_end_where_a_long_does() -> None:
    """Covers attack A10: another writer dated a commit to the end of time; turning the timestamps off is the way out."""
    table = created(protocol=TIMED, described=TIMES_ON)
    spoil(table, timestamp_ms=LAST)
    with pytest.raises(NumbersExhaustedError, match="enableInCommitTimestamps"):
        table.append(add("a"))
    assert len(commits_of(table)) == 2, "nothing was written"
    table.commit([with_properties(metadata(), enableInCommitTimestamps="false")])
    table.append(add("a"))
    table.commit([TIMES_ON])
    assert info(table, 4)["inCommitTimestamp"] < LAST


def test_versions_end_where_a_long_does() -> None:
    """Covers attack A10."""
    table = created()
    last = dataclasses.replace(table.table.snapshots.latest(), version=LAST)
    with pytest.raises(NumbersExhaustedError, match="version"):
        table.table.begin_at(Operation(name="WRITE"), snapshot=last).commit([add("a")])
    assert len(commits_of(table)) == 1, "nothing was written"


@pytest.mark.parametrize("version", [2**63, -(2**63) - 1])
def test_numbers_that_no_reader_takes_are_not_written(version: int) -> None:
    table = created()
    with pytest.raises(InvalidCommitError, match="a reader would refuse it"):
        table.begin().commit([SetTransaction(app_id="app", version=version)])
    assert len(commits_of(table)) == 1


# What no commit may do

HERE = add("here")


@pytest.mark.parametrize(
    ("actions", "violation"),
    [
        ([add("a"), add("a")], "adds a twice"),
        ([remove(HERE), remove(HERE)], "removes here twice"),
        ([remove(HERE), HERE], "both adds and removes"),
        ([remove(add("gone"))], "removes gone"),
        ([remove(add("here", vector="v"))], "removes here"),
        ([add("here", vector="v")], "with another deletion vector"),
        ([SetTransaction(app_id="x", version=1), SetTransaction(app_id="x", version=2)], "application 'x' twice"),
        ([metadata(properties={"a": "1"}), metadata(properties={"a": "2"})], "more than one Metadata"),
        ([metadata(partition_by=["nowhere"])], "no column of its schema"),
        ([metadata(partition_by=["date"]), add("a")], "no value for the partition columns date"),
    ],
)
def test_commits_that_would_damage_the_table(actions: list[Action], violation: str) -> None:
    table = created(HERE, protocol=features("appendOnly", "invariants", "deletionVectors"))
    with pytest.raises(InvalidCommitError, match=violation) as raised:
        table.commit(actions)
    assert raised.value.version == 1
    assert table.store.head(commit_path(1)) is None


def test_vector_and_domain_need_their_features() -> None:
    table = created(HERE)
    with pytest.raises(InvalidCommitError, match="deletionVectors"):
        table.commit([add("a", vector="v")])
    with pytest.raises(InvalidCommitError, match="domainMetadata"):
        table.commit([domain("x")])


@pytest.mark.parametrize("actions", [[metadata()], [PLAIN], [add("a")]])
def test_first_commit_needs_protocol_and_metadata(actions: list[Action]) -> None:
    table = writer()
    with pytest.raises(InvalidCommitError, match="needs `protocol` and `metaData`"):
        table.commit(actions)


def test_append_only_table() -> None:
    table = created(HERE, described=with_properties(metadata(), appendOnly="true"))
    with pytest.raises(AppendOnlyTableError, match="append-only"):
        table.begin("DELETE").commit([remove(HERE)])
    table.optimize([HERE], [add("there")])
    table.append(add("more"))
    assert lint(table.store) == []


def test_table_that_we_cannot_write() -> None:
    """A feature that a winner brings is refused by its name."""
    table = created()
    with pytest.raises(UnsupportedFeatureError, match="fromTheFuture"):
        table.commit([features("appendOnly", "invariants", "fromTheFuture")])


def test_tags_of_a_live_file_may_change() -> None:
    table = created(HERE)
    table.commit([msgspec.structs.replace(HERE, tags={"x": "y"}, data_change=False)])
    assert table.table.snapshots.latest().files.count == 1
