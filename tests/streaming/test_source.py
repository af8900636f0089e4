"""Positions of a stream, files between them, and what a stream does about commits that are more than additions."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import msgspec
import pytest
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from anabranch.errors.arguments import InvalidOptionError
from anabranch.errors.dml import ChangesDataSchemaError
from anabranch.errors.log import TableNotFoundError, TimestampAfterLatestCommitError, VersionNotFoundError
from anabranch.errors.streaming import (
    ExcludeRegexError,
    StartGivenTwiceError,
    StreamedColumnsRemappedError,
    StreamedCommitMissingError,
    StreamedLogMissingError,
    StreamedRowsChangedError,
    StreamedRowsDeletedError,
    StreamedSchemaChangedAfterStartError,
    StreamedSchemaChangedError,
    StreamedTableReplacedError,
    StreamOffsetError,
    StreamOffsetTooNewError,
    StreamOffsetVersionError,
)
from anabranch.protocol.actions import AddFile, Metadata
from anabranch.protocol.log_paths import commit_path
from anabranch.storage.memory_store import MemoryStore
from anabranch.streaming.source_offset import BASE_INDEX, SourceOffset, parse_offset
from anabranch.streaming.source_options import SourceOptions
from anabranch.streaming.stream_source import Outstanding
from streaming.micro_batches import Checkpoint, Killed, Sink, all_of, batches_of, names, run, source
from transactions.table_on_memory import SCHEMA, Writer, add, created, features, metadata, remove

ID = "table-1"


def at(version: int, index: int = -1, *, snapshot: bool = False) -> str:
    """A position as delta-spark writes it."""
    return (
        f'{{"sourceVersion":1,"reservoirId":"{ID}","reservoirVersion":{version},"index":{index},'
        f'"isStartingVersion":{"true" if snapshot else "false"}}}'
    )


def aged(path: str, time: int, size: int = 100) -> AddFile:
    return msgspec.structs.replace(add(path), modification_time=time, size=size)


def described(writer: Writer) -> Metadata:
    return writer.table.snapshots.latest().metadata


def describe(writer: Writer, schema: StructType, **properties: str) -> None:
    """ALTER TABLE."""
    changed = msgspec.structs.replace(
        described(writer),
        schema_string=schema.json(),
        configuration={**described(writer).configuration, **properties},
    )
    writer.commit([changed], name="CHANGE COLUMN")


def with_column(name: str = "extra", kind: Any = None) -> StructType:
    return StructType([*SCHEMA.fields, StructField(name, kind or StringType())])


# Positions.


@pytest.mark.parametrize(
    ("offset", "text"),
    [
        (SourceOffset(table_id=ID, version=3), at(3)),
        (SourceOffset(table_id=ID, version=0, index=7, is_initial_snapshot=True), at(0, 7, snapshot=True)),
        (SourceOffset(table_id=ID, version=5, index=0), at(5, 0)),
    ],
)
def test_positions_are_in_the_checkpoint_as_delta_spark_writes_them(offset: SourceOffset, text: str) -> None:
    assert offset.to_json() == text
    assert parse_offset(text, table_id=ID, table="t") == offset


def test_a_position_at_a_change_of_metadata_is_of_the_third_form() -> None:
    text = SourceOffset(table_id=ID, version=2, index=-20).to_json()
    assert json.loads(text)["sourceVersion"] == 3
    assert parse_offset(text, table_id=ID, table="t").index == -20


def test_keys_in_another_order_and_spaces_are_read() -> None:
    text = json.dumps(dict(reversed(json.loads(at(3, 2)).items())), indent=1)
    assert parse_offset(text, table_id=ID, table="t") == SourceOffset(table_id=ID, version=3, index=2)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", StreamOffsetError),
        ("17", StreamOffsetError),
        ("{}", StreamOffsetError),
        (at(1).replace('"index":-1', '"index":"x"'), StreamOffsetError),
        (at(1).replace("false", "1"), StreamOffsetError),
        (at(1).replace('sourceVersion":1', 'sourceVersion":0'), StreamOffsetVersionError),
        (at(1).replace('sourceVersion":1', 'sourceVersion":2'), StreamOffsetVersionError),
        (at(1).replace('sourceVersion":1', 'sourceVersion":4'), StreamOffsetTooNewError),
        (at(1).replace(ID, "other"), StreamedTableReplacedError),
    ],
)
def test_positions_that_mean_nothing_are_refused(text: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        parse_offset(text, table_id=ID, table="t")


# The order of files, and how many at once.


def test_the_table_as_it_is_then_what_is_added() -> None:
    """Old files first; those of one age by path."""
    writer = created(aged("c", 1), aged("a", 2), aged("b", 2), aged("d", 0))
    stream, checkpoint, sink = source(writer), Checkpoint(), Sink()
    run(stream, checkpoint, sink)
    assert (sink.files, checkpoint.offsets) == (["d", "c", "a", "b"], [at(1)])
    writer.append(add("e"), add("f"))
    writer.append(add("g"))
    run(stream, checkpoint, sink)
    assert sink.batches[1] == ["e", "f", "g"]
    assert checkpoint.offsets == [at(1), at(3)]


def test_a_limit_of_files_cuts_snapshot_and_commits() -> None:
    writer = created(aged("a", 1), aged("b", 2), aged("c", 3))
    writer.append(add("d"), add("e"))
    stream, checkpoint, sink = source(writer, maxFilesPerTrigger=2), Checkpoint(), Sink()
    run(stream, checkpoint, sink)
    assert [len(files) for files in sink.batches.values()] == [2, 2, 1]
    assert sorted(sink.files) == ["a", "b", "c", "d", "e"]
    writer.append(add("f"), add("g"), add("h"))
    run(stream, checkpoint, sink)
    assert [sink.batches[3], sink.batches[4]] == [["f", "g"], ["h"]]
    assert checkpoint.offsets == [at(1, 1, snapshot=True), at(1, 3, snapshot=True), at(2), at(2, 1), at(3)]


def test_a_limit_of_bytes_is_passed_by_one_file() -> None:
    writer = created()
    writer.append(aged("a", 1, 60), aged("b", 1, 60), aged("c", 1, 500), aged("d", 1, 10))
    assert batches_of(writer, startingVersion=1, maxBytesPerTrigger="100b") == [["a", "b"], ["c"], ["d"]]
    assert batches_of(writer, startingVersion=1, maxBytesPerTrigger="1k") == [["a", "b", "c", "d"]]
    both = {"maxBytesPerTrigger": "1k", "maxFilesPerTrigger": 3}
    assert batches_of(writer, startingVersion=1, **both) == [["a", "b", "c"], ["d"]]


def test_a_thousand_files_where_nothing_was_said() -> None:
    writer = created()
    writer.append(*(add(f"{number:05}") for number in range(1_500)))
    assert [len(files) for files in batches_of(writer, startingVersion=1)] == [1_000, 500]


def test_in_order_of_event_time_the_snapshot_is_one_batch() -> None:
    """No watermark moves while it is read, so no row of it comes too late."""
    writer = created(*(aged(name, 1) for name in "abcde"))
    stream, checkpoint, sink = source(writer, maxFilesPerTrigger=1, withEventTimeOrder="true"), Checkpoint(), Sink()
    writer.append(add("f"), add("g"))
    run(stream, checkpoint, sink)
    assert list(sink.batches.values()) == [["a", "b", "c", "d", "e"], ["f"], ["g"]]


def test_a_trigger_of_what_is_available_ends_there() -> None:
    writer = created(add("a"))
    stream, checkpoint, sink = source(writer, maxFilesPerTrigger=1), Checkpoint(), Sink()
    stream.prepare_for_available_now()
    writer.append(add("b"), add("c"))
    assert stream.latest_offset(None) == at(1)
    writer.append(add("d"))
    run(stream, checkpoint, sink)
    assert sink.files == ["a", "b", "c"]
    run(source(writer), checkpoint, sink)
    assert sink.files == ["a", "b", "c", "d"]


def test_a_trigger_without_limits_takes_all_at_once() -> None:
    writer = created(add("a"), add("b"))
    writer.append(add("c"))
    assert source(writer, maxFilesPerTrigger=1).latest_offset(None, is_limited=False) == at(2)


def test_an_empty_table_waits_for_its_first_rows() -> None:
    writer = created()
    stream, checkpoint, sink = source(writer), Checkpoint(), Sink()
    run(stream, checkpoint, sink)
    assert (sink.files, checkpoint.offsets) == ([], [at(1)])
    writer.append(add("a"))
    run(stream, checkpoint, sink)
    assert sink.files == ["a"]


# Where it starts.


def test_a_starting_version_reads_commits_from_there() -> None:
    writer = created(add("a"))
    writer.append(add("b"))
    writer.append(add("c"))
    assert all_of(writer, startingVersion=0) == ["a", "b", "c"]
    assert all_of(writer, startingVersion=2) == ["c"]
    with pytest.raises(VersionNotFoundError) as raised:
        all_of(writer, startingVersion=3)
    assert (raised.value.earliest, raised.value.latest) == (0, 2)


def test_latest_reads_what_lands_after_the_start() -> None:
    """The first position says where that was, so that a restart does not move it."""
    writer = created(add("a"))
    checkpoint, sink = Checkpoint(), Sink()
    run(source(writer, startingVersion="latest"), checkpoint, sink)
    assert (sink.files, checkpoint.offsets) == ([], [at(1)])
    writer.append(add("b"))
    again = dataclasses.replace(checkpoint, offsets=list(checkpoint.offsets), done=0)
    run(source(writer, startingVersion="latest"), again, sink)
    assert sink.files == ["b"]


def test_a_starting_timestamp_is_that_of_a_commit_or_before_it() -> None:
    writer = created(add("a"))
    times = [writer.clock.now_ms()]
    for name in "bc":
        writer.clock.time_ms += 60_000
        writer.append(add(name))
        times.append(writer.clock.now_ms())
    assert all_of(writer, startingTimestamp=times[1]) == ["b", "c"]
    assert all_of(writer, startingTimestamp=times[1] + 1) == ["c"]
    assert all_of(writer, startingTimestamp=0) == ["a", "b", "c"]
    with pytest.raises(TimestampAfterLatestCommitError):
        all_of(writer, startingTimestamp=times[2] + 1)


def test_paths_may_be_left_out() -> None:
    writer = created(add("a/1"), add("b/1"))
    options = SourceOptions.parse({"excludeRegex": "^a/"})
    assert options.exclude is not None
    assert options.exclude.search("a/1") is not None
    assert options.exclude.search("b/a/1") is None
    assert writer.table.snapshots.latest().version == 0


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"startingVersion": "1", "startingTimestamp": "2024-01-01"}, StartGivenTwiceError),
        ({"startingVersion": "-1"}, InvalidOptionError),
        ({"startingVersion": "newest"}, InvalidOptionError),
        ({"maxFilesPerTrigger": "0"}, InvalidOptionError),
        ({"maxFilesPerTrigger": "many"}, InvalidOptionError),
        ({"maxBytesPerTrigger": "10 apples"}, InvalidOptionError),
        ({"ignoreDeletes": "maybe"}, InvalidOptionError),
        ({"versionAsOf": "1"}, InvalidOptionError),
        ({"endingVersion": "1"}, InvalidOptionError),
        ({"excludeRegex": "("}, ExcludeRegexError),
        ({"schemaTrackingLocation": "/c/schemas", "failOnDataLoss": "false"}, InvalidOptionError),
        ({"allowSourceColumnDrop": "yes"}, InvalidOptionError),
    ],
)
def test_options_that_mean_nothing_are_refused(options: dict[str, str], error: type[Exception]) -> None:
    with pytest.raises(error):
        SourceOptions.parse(options)


def test_sizes_are_written_as_spark_writes_them() -> None:
    sizes = {"1000": 1000, "10k": 10 * 1024, "3 MB": 3 * 1024**2, "2g": 2 * 1024**3}
    for text, size in sizes.items():
        assert SourceOptions.parse({"maxbytespertrigger": text}).bytes_max == size


# Commits that are more than additions.


def test_compactions_give_no_rows() -> None:
    writer = created(add("a"), add("b"))
    stream, checkpoint, sink = source(writer), Checkpoint(), Sink()
    run(stream, checkpoint, sink)
    writer.optimize([add("a"), add("b")], [add("ab")])
    run(stream, checkpoint, sink)
    writer.append(add("c"))
    run(stream, checkpoint, sink)
    assert sink.files == ["a", "b", "c"]


def recorded() -> Metadata:
    return metadata(properties={"delta.enableChangeDataFeed": "true"})


def changed_table() -> Writer:
    """Version 1 deletes, 2 changes, 3 hides rows by a vector, 4 adds."""
    writer = created(add("a"), add("b"), add("c"), protocol=features("deletionVectors"), described=recorded())
    writer.commit([remove(add("a"))], name="DELETE")
    writer.commit([remove(add("b")), add("b2")], name="UPDATE")
    writer.commit([remove(add("c")), add("c", vector="v")], name="MERGE")
    writer.append(add("d"))
    return writer


def test_deletions_and_changes_stop_a_stream_without_options() -> None:
    writer = changed_table()
    with pytest.raises(StreamedRowsDeletedError) as deleted:
        all_of(writer, startingVersion=0)
    assert (deleted.value.version, deleted.value.path) == (1, "a")
    with pytest.raises(StreamedRowsChangedError) as changed:
        all_of(writer, startingVersion=1, ignoreDeletes="true")
    assert (changed.value.version, changed.value.operation) == (2, "UPDATE")
    with pytest.raises(StreamedRowsChangedError) as hidden:
        all_of(writer, startingVersion=3, ignoreDeletes="true")
    assert (hidden.value.version, hidden.value.operation) == (3, "MERGE")


@pytest.mark.parametrize("option", ["ignoreChanges", "ignoreFileDeletion"])
def test_with_changes_ignored_files_come_again(option: str) -> None:
    assert all_of(changed_table(), startingVersion=0, **{option: "true"}) == ["a", "b", "c", "b2", "c", "d"]


def test_commits_of_changes_are_skipped_whole() -> None:
    assert all_of(changed_table(), startingVersion=0, skipChangeCommits="true") == ["a", "b", "c", "d"]


def test_changes_are_read_with_their_signs() -> None:
    """Files with vectors stay with their removals: one batch has both."""
    batches = batches_of(changed_table(), startingVersion=1, readChangeFeed="true", maxFilesPerTrigger=1)
    assert batches == [["-a"], ["-b"], ["+b2"], ["-c", "+c"], ["+d"]]


# Columns.


def test_a_new_column_stops_the_stream_and_a_restart_goes_on() -> None:
    writer = created(add("a"))
    checkpoint, sink = Checkpoint(), Sink()
    stream = source(writer)
    run(stream, checkpoint, sink)
    writer.append(add("b"))
    describe(writer, with_column())
    writer.append(add("c"))
    with pytest.raises(StreamedSchemaChangedError) as raised:
        run(stream, checkpoint, sink)
    assert (raised.value.version, raised.value.helps_to_restart) == (2, True)
    assert "extra is new (string)" in raised.value.explain()
    run(source(writer), checkpoint, sink)
    assert sink.files == ["a", "b", "c"]


def test_properties_and_comments_do_not_stop_it() -> None:
    writer = created(add("a"))
    checkpoint, sink = Checkpoint(), Sink()
    stream = source(writer)
    run(stream, checkpoint, sink)
    commented = [with_metadata(SCHEMA.fields[0], comment="key"), *SCHEMA.fields[1:]]
    describe(writer, StructType(commented), **{"delta.logRetentionDuration": "interval 9 days"})
    writer.append(add("b"))
    run(stream, checkpoint, sink)
    assert sink.files == ["a", "b"]


def with_metadata(field: StructField, **extra: str) -> StructField:
    return StructField(field.name, field.dataType, field.nullable, {**field.metadata, **extra})


def test_another_type_may_need_a_start_from_scratch() -> None:
    """Where rows of before do not fit; a wider type is a matter of a restart."""
    narrow, other = (
        StructType([StructField("id", kind), *SCHEMA.fields[1:]]) for kind in (IntegerType(), StringType())
    )
    for before, after, helps in ((narrow, SCHEMA, True), (SCHEMA, other, False)):
        writer = created(add("a"), described=metadata(before))
        stream, checkpoint, sink = source(writer), Checkpoint(), Sink()
        run(stream, checkpoint, sink)
        describe(writer, after)
        with pytest.raises(StreamedSchemaChangedError) as raised:
            run(stream, checkpoint, sink)
        assert raised.value.helps_to_restart is helps


def test_a_column_that_may_be_null_now_stops_a_stream_that_promised_otherwise() -> None:
    strict = StructType([StructField("id", LongType(), False), *SCHEMA.fields[1:]])
    writer = created(add("a"), described=metadata(strict))
    stream, checkpoint, sink = source(writer), Checkpoint(), Sink()
    run(stream, checkpoint, sink)
    describe(writer, SCHEMA)
    with pytest.raises(StreamedSchemaChangedError, match="allows nulls"):
        run(stream, checkpoint, sink)
    run(source(writer), checkpoint, sink)


def test_rows_from_before_a_change_of_type_are_not_read_as_what_they_are_not() -> None:
    writer = created(add("a"), described=metadata(with_column(kind=StringType())))
    describe(writer, with_column(kind=LongType()))
    assert all_of(writer) == ["a"]
    with pytest.raises(StreamedSchemaChangedAfterStartError) as raised:
        all_of(writer, startingVersion=0)
    assert not raised.value.helps_to_restart
    assert "after version 0" in raised.value.explain()


def test_rows_removed_with_a_wider_type_are_not_read_as_what_it_was_before() -> None:
    """Covers bug B111: also on a restart at such a commit, and not by a stream that reads added rows."""
    narrow = StructType([StructField("id", IntegerType()), *SCHEMA.fields[1:]])
    writer = created(add("a"), described=metadata(SCHEMA, properties={"delta.enableChangeDataFeed": "true"}))
    restored = msgspec.structs.replace(described(writer), schema_string=narrow.json())
    writer.commit([restored, remove(add("a")), add("b")], name="RESTORE")
    with pytest.raises(ChangesDataSchemaError, match="id was of type bigint") as raised:
        all_of(writer, startingVersion=1, readChangeFeed="true")
    assert raised.value.version == 1
    assert all_of(writer, startingVersion=1, ignoreChanges="true") == ["b"]
    writer.append(add("c"))
    assert all_of(writer, startingVersion=2, readChangeFeed="true") == ["+c"]


def mapped(names_by_id: dict[int, str]) -> StructType:
    return StructType(
        [
            StructField(
                name,
                LongType(),
                True,
                {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": f"c{number}"},
            )
            for number, name in names_by_id.items()
        ]
    )


@pytest.mark.parametrize(("columns", "what"), [({1: "id", 2: "w"}, "renamed to w"), ({1: "id"}, "v was dropped")])
def test_a_renamed_or_dropped_column_stops_a_stream_that_has_rows_of_before_to_read(
    columns: dict[int, str], what: str
) -> None:
    properties = {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "2"}
    before = metadata(mapped({1: "id", 2: "v"}), properties=properties)
    writer = created(add("a"), protocol=features("columnMapping"), described=before)
    stream, checkpoint, sink = source(writer), Checkpoint(), Sink()
    run(stream, checkpoint, sink)
    writer.append(add("b"))
    describe(writer, mapped(columns))
    writer.append(add("c"))
    for query in (stream, source(writer)):
        with pytest.raises(StreamedColumnsRemappedError, match=what):
            run(query, checkpoint, sink)
    assert all_of(writer) == ["a", "b", "c"]


def test_a_stream_that_had_read_all_before_a_column_was_renamed_goes_on_after_a_restart() -> None:
    properties = {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "2"}
    before = metadata(mapped({1: "id", 2: "v"}), properties=properties)
    writer = created(add("a"), protocol=features("columnMapping"), described=before)
    stream, checkpoint, sink = source(writer), Checkpoint(), Sink()
    run(stream, checkpoint, sink)
    describe(writer, mapped({1: "id", 2: "w"}))
    writer.append(add("b"))
    with pytest.raises(StreamedColumnsRemappedError):
        run(stream, checkpoint, sink)
    run(source(writer), checkpoint, sink)
    assert sink.files == ["a", "b"]


# Tables and logs that are gone.


def test_a_recreated_table_is_not_read_on() -> None:
    writer = created(add("a"))
    checkpoint, sink = Checkpoint(), Sink()
    stream = source(writer)
    run(stream, checkpoint, sink)
    another = created(add("x"), described=metadata(table_id="table-2"))
    with pytest.raises(StreamedTableReplacedError) as raised:
        run(source(another), checkpoint, sink)
    assert (raised.value.id_read, raised.value.id_found) == (ID, "table-2")


def test_a_table_dropped_under_the_stream_is_reported() -> None:
    writer = created(add("a"))
    stream = source(writer)
    start = stream.latest_offset(None)
    store: Any = writer.store
    for version in range(1):
        store.delete(commit_path(version))
    with pytest.raises(TableNotFoundError):
        stream.latest_offset(start)


def cleaned_up() -> tuple[Writer, Checkpoint, Sink]:
    """A stream that has read version 0 of a log that begins with version 3."""
    writer = created(add("a"))
    checkpoint, sink = Checkpoint(), Sink()
    run(source(writer), checkpoint, sink)
    for number in range(1, 15):
        writer.append(add(f"f{number:02}"))
    store: Any = writer.store
    for version in range(3):
        store.delete(commit_path(version))
    return writer, checkpoint, sink


def test_commits_cleaned_up_before_they_were_read_are_an_error() -> None:
    writer, checkpoint, sink = cleaned_up()
    with pytest.raises(StreamedLogMissingError) as raised:
        run(source(writer), checkpoint, sink)
    assert (raised.value.version, raised.value.earliest) == (1, 3)
    assert sink.files == ["a"]


def test_or_are_left_out_if_the_user_says_so() -> None:
    writer, checkpoint, sink = cleaned_up()
    run(source(writer, failOnDataLoss="false"), checkpoint, sink)
    assert sink.files == ["a", *(f"f{number:02}" for number in range(3, 15))]


def test_a_planned_batch_whose_last_commit_is_gone_is_not_read_in_part() -> None:
    writer = created(add("a"))
    writer.append(add("b"))
    with pytest.raises(StreamedCommitMissingError):
        source(writer).batch(at(1), at(3))


# Lagging behind.


def test_what_is_outstanding_is_counted_once() -> None:
    writer = created(aged("a", 1, 10), aged("b", 2, 20), aged("c", 3, 30))
    writer.append(aged("d", 4, 40))
    stream = source(writer, startingVersion=0, maxFilesPerTrigger=2)
    assert stream.outstanding() is None
    start = stream.latest_offset(None)
    assert stream.outstanding() == Outstanding(files=2, size_bytes=70)
    end = stream.latest_offset(start)
    assert end is not None
    assert names(stream.batch(start, end)) == ["c", "d"]
    assert stream.outstanding() == Outstanding(files=0, size_bytes=0)


# Restarts.


@pytest.mark.parametrize("options", [{}, {"startingVersion": 0}, {"readChangeFeed": "true"}], ids=str)
def test_killed_at_every_point_and_started_again_nothing_is_lost_or_doubled(options: dict[str, Any]) -> None:
    """Covers fault F52, the source's part. Also while the table grows, is compacted and a stream is limited to a file at a time."""

    def grow(writer: Writer) -> None:
        writer.append(add("d"), add("e"))
        writer.optimize([add("a"), add("b")], [add("ab")])
        writer.append(add("f"))

    def outcome(deaths: int) -> tuple[list[str], int]:
        writer = created(aged("a", 1), aged("b", 2), aged("c", 3), described=recorded())
        checkpoint, sink, points = Checkpoint(), Sink(), 0

        def kill(_: str) -> None:
            nonlocal points
            points += 1
            if points == deaths:
                raise Killed

        for stage in (lambda: None, lambda: grow(writer)):
            stage()
            for _ in range(2):
                try:
                    run(source(writer, maxFilesPerTrigger=1, **options), checkpoint, sink, kill)
                except Killed:
                    continue
                break
        return sink.files, points

    expected, points = outcome(deaths=0)
    assert len(expected) == len(set(expected)) == 6
    assert points > 25
    for deaths in range(1, points + 1):
        assert outcome(deaths)[0] == expected, f"killed at point {deaths}"


def test_a_checkpoint_of_delta_spark_is_gone_on_from() -> None:
    """It ended in the middle of the first snapshot, in the middle of a commit, and behind one."""
    writer = created(aged("a", 1), aged("b", 2), aged("c", 3))
    writer.append(add("d"), add("e"))
    for offset, rest in (
        (at(0, 0, snapshot=True), ["b", "c", "d", "e"]),
        (at(1), ["d", "e"]),
        (at(1, 0), ["e"]),
        (at(2), []),
    ):
        sink = Sink()
        run(source(writer), Checkpoint(offsets=[offset], done=1), sink)
        assert sink.files == rest
    assert SourceOffset(table_id=ID, version=1).index == BASE_INDEX


def test_the_store_is_only_read() -> None:
    writer = created(add("a"))
    store = writer.store
    assert isinstance(store, MemoryStore)
    before = sorted(file.path for file in store.list_from("_delta_log", start_after=""))
    all_of(writer)
    assert sorted(file.path for file in store.list_from("_delta_log", start_after="")) == before
