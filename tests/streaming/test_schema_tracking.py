"""Streams with a schema log: what they note, where they stop, and with which columns they go on."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from pyspark.sql.types import DataType, IntegerType, LongType, StringType, StructField, StructType

from anabranch.errors.streaming import (
    SchemaLocationConflictError,
    SchemaLogOfOtherTableError,
    SchemaLogStartError,
    SchemaLogUnreadableError,
    StreamedChangeNotAllowedError,
    StreamedMetadataEvolvedError,
    StreamedSchemaChangedError,
)
from anabranch.protocol.actions import Action, Metadata
from anabranch.storage.memory_store import MemoryStore
from anabranch.streaming.schema_log import SchemaLog, TrackedMetadata
from anabranch.streaming.schema_log_access import check_allowed
from anabranch.streaming.schema_tracking import SchemaTracking, merge_changes, read_snapshot
from anabranch.streaming.source_log import commits_from
from anabranch.streaming.source_options import SourceOptions
from anabranch.streaming.stream_source import StreamSource
from streaming.micro_batches import Checkpoint, Killed, Sink, run
from streaming.micro_batches import source as untracked
from transactions.table_on_memory import Writer, add, created, features, metadata, remove, rival_of

SOURCE = "file:/checkpoint/sources/0"
HASH = -903663869
"""Of `SOURCE`, as Java has it."""
BOTH = {"allowSourceColumnRename": "always", "allowSourceColumnDrop": "always"}


def mapped(names: dict[int, str], kind: DataType | None = None) -> StructType:
    def field(number: int, name: str) -> StructField:
        mapping = {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": f"c{number}"}
        return StructField(name, kind or LongType(), True, mapping)

    return StructType([field(number, name) for number, name in names.items()])


def table(**properties: str) -> Writer:
    """Columns `id` and `v`, and a file `a`."""
    mapping = {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "2", **properties}
    described = metadata(mapped({1: "id", 2: "v"}), properties=mapping)
    return created(add("a"), protocol=features("columnMapping"), described=described)


def describing(writer: Writer, schema: StructType | None = None, **properties: str) -> Metadata:
    now = writer.table.snapshots.latest().metadata
    text = now.schema_string if schema is None else schema.json()
    configuration = {**now.configuration, **properties}
    return msgspec.structs.replace(now, schema_string=text, configuration=configuration)


def describe(writer: Writer, names: dict[int, str], *files: Action) -> None:
    writer.commit([describing(writer, mapped(names)), *files], name="CHANGE COLUMN")


@dataclasses.dataclass
class Query:
    """A query over its restarts, each of which creates the stream again."""

    writer: Writer
    options: dict[str, str] = dataclasses.field(default_factory=dict)
    settings: dict[str, str] = dataclasses.field(default_factory=dict)
    schemas: MemoryStore = dataclasses.field(default_factory=MemoryStore)
    checkpoint: Checkpoint = dataclasses.field(default_factory=Checkpoint)
    sink: Sink = dataclasses.field(default_factory=Sink)
    columns: dict[str, list[str]] = dataclasses.field(default_factory=dict)
    """With which columns each file was read."""

    def start(self) -> StreamSource:
        """Raises `StreamedChangeNotAllowedError`."""
        table = rival_of(self.writer).table
        snapshot = table.snapshots.latest()
        options = SourceOptions.parse({"schemaTrackingLocation": "/checkpoint", **self.options})
        log = self.log(snapshot.metadata.id)
        if log.current is not None:
            first = log.current.version
            merge_changes(
                log, commits_from(table.store, first, upto=snapshot.version, table="t", fail_on_data_loss=False)
            )
        check_allowed(log, snapshot, options, self.settings.get, table="t", source_path=SOURCE)
        return StreamSource(
            table.snapshots,
            table="t",
            snapshot=snapshot,
            options=options,
            to_milliseconds=int,
            tracking=SchemaTracking(log, table="t", snapshot=snapshot, source_path=SOURCE),
        )

    def log(self, table_id: str = "table-1") -> SchemaLog:
        return SchemaLog(self.schemas, table="t", table_id=table_id)

    def run(self, kill: Callable[[str], None] = lambda point: None) -> None:
        """Runs to the end, or to the next change."""
        stream = self.start()
        try:
            run(stream, self.checkpoint, self.sink, kill)
        finally:
            for file in self.sink.files:
                self.columns.setdefault(file, stream.read_snapshot.schema.fieldNames())

    def evolves(self) -> StreamedMetadataEvolvedError:
        with pytest.raises(StreamedMetadataEvolvedError) as raised:
            self.run()
        return raised.value

    def entries(self) -> list[dict[str, Any]]:
        texts = [self.schemas.read(file.path).decode() for file in self.schemas.list_from("_schema_log_table-1")]
        return [json.loads(text.removeprefix("v1\n")) for text in texts]


# What is read with which columns.


def renamed_and_dropped() -> Query:
    """A stream whose table changed: `b` with the old columns, `c` behind a rename, `d` behind a drop."""
    query = Query(table())
    query.run()
    query.writer.append(add("b"))
    describe(query.writer, {1: "id", 2: "w"})
    query.writer.append(add("c"))
    describe(query.writer, {1: "id"}, add("d"))
    return query


def test_each_file_is_read_with_the_columns_that_it_was_written_with() -> None:
    query = renamed_and_dropped()
    evolution = query.evolves()
    assert (evolution.version, "v" in evolution.difference) == (2, True)
    assert query.checkpoint.offsets[-2:] == [
        f'{{"sourceVersion":3,"reservoirId":"table-1","reservoirVersion":2,"index":{index},"isStartingVersion":false}}'
        for index in (-20, -19)
    ]
    with pytest.raises(StreamedChangeNotAllowedError) as refused:
        query.run()
    assert (refused.value.kind, refused.value.version, refused.value.checkpoint_hash) == ("RENAME COLUMN", 2, HASH)
    query.options = BOTH
    assert query.evolves().version == 4
    query.run()
    assert query.columns == {"a": ["id", "v"], "b": ["id", "v"], "c": ["id", "w"], "d": ["id"]}
    assert [entry["deltaCommitVersion"] for entry in query.entries()] == [0, 2, 4]
    assert query.sink.files == ["a", "b", "c", "d"]


@pytest.mark.parametrize("point", ["planned", "noted", "read", "written", "done"])
@pytest.mark.parametrize("number", range(8))
def test_killed_anywhere_nothing_is_read_twice_or_with_other_columns(point: str, number: int) -> None:
    query = renamed_and_dropped()
    query.options = BOTH
    left = [number]

    def kill(at: str) -> None:
        if at == point:
            left[0] -= 1
            if left[0] == -1:
                raise Killed

    for _ in range(8):
        try:
            query.run(kill)
            break
        except (Killed, StreamedMetadataEvolvedError):
            continue
    assert query.columns == {"a": ["id", "v"], "b": ["id", "v"], "c": ["id", "w"], "d": ["id"]}
    assert query.sink.files == ["a", "b", "c", "d"]


def test_what_is_available_ends_before_a_change() -> None:
    query = renamed_and_dropped()
    stream = query.start()
    stream.prepare_for_available_now()
    with pytest.raises(StreamedMetadataEvolvedError):
        run(stream, query.checkpoint, query.sink)
    assert query.sink.files == ["a", "b"]


def test_new_columns_and_properties_need_a_restart_and_no_permission() -> None:
    query = Query(table())
    query.run()
    describe(query.writer, {1: "id", 2: "v", 3: "x"}, add("b"))
    query.writer.commit([describing(query.writer, **{"delta.appendOnly": "true"}), add("c")], name="SET TBLPROPERTIES")
    query.writer.commit([describing(query.writer, owner="me"), add("d")], name="SET TBLPROPERTIES")
    query.writer.commit([features("columnMapping", "deletionVectors"), add("e")], name="UPGRADE PROTOCOL")
    assert "x is new" in query.evolves().difference
    assert [query.evolves().version, query.evolves().version] == [2, 4]
    query.run()
    assert query.sink.files == ["a", "b", "c", "d", "e"]
    assert query.columns["b"] == ["id", "v", "x"]


def test_changes_with_no_file_between_them_are_one() -> None:
    query = Query(table(), options=BOTH)
    query.run()
    describe(query.writer, {1: "id", 2: "w"})
    describe(query.writer, {1: "id", 2: "w", 3: "x"})
    describe(query.writer, {1: "id", 3: "x"}, add("b"))
    query.evolves()
    assert query.evolves().version == 3
    query.run()
    assert query.columns["b"] == ["id", "x"]
    entries = [(entry["deltaCommitVersion"], entry.get("previousMetadataSeqNum")) for entry in query.entries()]
    assert entries == [(0, None), (1, None), (2, 0), (3, None)]


def test_changes_that_are_merged_are_allowed_from_where_the_stream_was() -> None:
    """What was renamed and renamed again is reported as one change, from the name that the target knows."""
    query = Query(table())
    query.run()
    describe(query.writer, {1: "id", 2: "w"})
    describe(query.writer, {1: "id", 2: "z"})
    query.evolves()
    with pytest.raises(StreamedChangeNotAllowedError, match="v was renamed to z") as refused:
        query.run()
    assert (refused.value.before, refused.value.version) == (0, 2)


# Who may say that it goes on.


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("allowSourceColumnRename", "always"),
        ("allowSourceColumnRenameAndDrop", "ALWAYS"),
        (f"allowSourceColumnRename.ckpt_{HASH}", "2"),
        (f"allowSourceColumnRenameAndDrop.ckpt_{HASH}", "always"),
        (f"allowSourceColumnRename.ckpt_{HASH}", "3"),
        ("allowSourceColumnRename", "2"),
        ("allowSourceColumnRename.ckpt_1", "always"),
        ("allowSourceColumnDrop", "always"),
    ],
)
def test_settings_let_a_stream_go_on(setting: str, value: str) -> None:
    query = renamed_and_dropped()
    query.evolves()
    query.settings = {f"spark.databricks.delta.streaming.{setting}": value}
    right = {"allowSourceColumnRename": "always", f"allowSourceColumnRename.ckpt_{HASH}": "2"}
    if setting.startswith("allowSourceColumnRenameAndDrop") or right.get(setting) == value:
        assert query.evolves().version == 4
    else:
        with pytest.raises(StreamedChangeNotAllowedError, match=f"allowSourceColumnRename.ckpt_{HASH} = 2"):
            query.run()


def test_an_option_is_for_one_change() -> None:
    query = renamed_and_dropped()
    query.evolves()
    query.options = {"allowSourceColumnRename": "2"}
    assert query.evolves().version == 4
    with pytest.raises(StreamedChangeNotAllowedError) as refused:
        query.run()
    assert (refused.value.kind, refused.value.options) == ("DROP COLUMN", ("allowSourceColumnDrop",))


def test_renames_and_drops_are_reported_together() -> None:
    query = Query(table())
    query.run()
    describe(query.writer, {1: "key"}, add("b"))
    query.evolves()
    with pytest.raises(StreamedChangeNotAllowedError) as refused:
        query.run()
    assert refused.value.kind == "RENAME AND DROP COLUMN"
    assert refused.value.settings == ("spark.databricks.delta.streaming.allowSourceColumnRenameAndDrop",)


def test_a_wider_type_needs_a_word_and_another_has_no_way_on() -> None:
    for kind, option in ((LongType(), "allowSourceColumnTypeChange"), (StringType(), None)):
        narrow = metadata(mapped({1: "id"}, IntegerType()), properties={"delta.columnMapping.mode": "name"})
        query = Query(created(add("a"), protocol=features("columnMapping"), described=narrow))
        query.run()
        query.writer.commit([describing(query.writer, mapped({1: "id"}, kind)), add("b")], name="CHANGE COLUMN")
        query.evolves()
        if option is None:
            query.options = {**BOTH, "allowSourceColumnTypeChange": "always"}
            with pytest.raises(StreamedSchemaChangedError) as stopped:
                query.run()
            assert not stopped.value.helps_to_restart
            continue
        with pytest.raises(StreamedChangeNotAllowedError, match="bigint"):
            query.run()
        query.options = {option: "1"}
        query.run()
        assert query.sink.files == ["a", "b"]


# Where it begins.


def test_from_an_old_version_the_first_columns_are_those_of_then() -> None:
    query = Query(table(), options={"startingVersion": "0", **BOTH})
    describe(query.writer, {1: "id", 2: "w"}, add("b"))
    assert query.evolves().version == 0
    assert query.evolves().version == 1
    query.run()
    assert query.columns == {"a": ["id", "v"], "b": ["id", "w"]}


def test_the_table_as_it_is_may_change_before_anything_was_read() -> None:
    """The first entry counts no more, and a change before which no row was read needs no permission."""
    query = Query(table())
    query.start().latest_offset(None)
    describe(query.writer, {1: "id", 2: "w"}, add("b"))
    assert query.evolves().version == 1
    query.run()
    assert query.columns == {"a": ["id", "w"], "b": ["id", "w"]}


def test_a_log_may_be_begun_later() -> None:
    """It begins with the columns of the batch that was planned last."""
    query = renamed_and_dropped()
    without = Query(query.writer, options=BOTH)
    start = untracked(query.writer).latest_offset(None)
    assert start is not None
    without.checkpoint.offsets = [json.dumps({**json.loads(start), "reservoirVersion": 1})]
    assert without.evolves().version == 0
    assert without.evolves().version == 2
    assert without.evolves().version == 4
    without.run()
    assert without.columns == {"a": ["id", "v"], "b": ["id", "v"], "c": ["id", "w"], "d": ["id"]}


def test_a_batch_across_a_change_has_no_columns() -> None:
    query = renamed_and_dropped()
    other = Query(query.writer)
    text = json.dumps({**json.loads(query.checkpoint.offsets[0]), "reservoirVersion": 4})
    other.checkpoint.offsets = [query.checkpoint.offsets[0], text]
    other.checkpoint.done = 1
    with pytest.raises(SchemaLogStartError) as raised:
        other.run()
    assert (raised.value.start, raised.value.end) == (1, 3)


# The log itself.

ENTRY = (
    'v1\n{"tableId":"table-1","deltaCommitVersion":3,"dataSchemaJson":"{\\"type\\":\\"struct\\",\\"fields\\":[{\\"name\\":'
    '\\"p\\",\\"type\\":\\"long\\",\\"nullable\\":true,\\"metadata\\":{}}]}","partitionSchemaJson":"{\\"type\\":\\"struct\\",'
    '\\"fields\\":[{\\"name\\":\\"p\\",\\"type\\":\\"long\\",\\"nullable\\":true,\\"metadata\\":{}}]}","sourceMetadataPath":'
    '"file:/checkpoint/sources/0","tableConfigurations":{"delta.appendOnly":"true"},"protocolJson":"{\\"protocol\\":'
    '{\\"minReaderVersion\\":1,\\"minWriterVersion\\":2}}","previousMetadataSeqNum":1}'
)
"""As delta-spark writes it."""


def test_entries_are_those_of_delta_spark() -> None:
    schemas = MemoryStore()
    schemas.put("_schema_log_table-1/7", ENTRY.encode())
    current = SchemaLog(schemas, table="t", table_id="table-1").current
    assert current is not None
    assert (current.version, current.partition_columns, current.previous) == (3, ("p",), 1)
    assert "v1\n" + current.to_json() == ENTRY
    bare = json.loads(ENTRY.removeprefix("v1\n"))
    for name in ("tableConfigurations", "protocolJson", "previousMetadataSeqNum"):
        del bare[name]
    old = TrackedMetadata.from_json(json.dumps(bare))
    assert (old.configuration, old.protocol, old.previous) == (None, None, None)
    snapshot = table().table.snapshots.latest()
    assert old.of_snapshot(snapshot).metadata.configuration == snapshot.metadata.configuration


@pytest.mark.parametrize(
    "text", ["", "v1", "v2\n{}", "v1\n{}", "v1\n[]", ENTRY.replace("struct", "strict"), ENTRY[:-30], "v1\n7"]
)
def test_invalid_entries_are_reported(text: str) -> None:
    schemas = MemoryStore()
    schemas.put("_schema_log_table-1/0", text.encode())
    with pytest.raises(SchemaLogUnreadableError):
        SchemaLog(schemas, table="t", table_id="table-1")


def test_a_log_of_another_table_or_of_two_streams_is_refused() -> None:
    schemas = MemoryStore()
    schemas.put("_schema_log_table-2/0", ENTRY.encode())
    with pytest.raises(SchemaLogOfOtherTableError):
        SchemaLog(schemas, table="t", table_id="table-2")
    one, other = (SchemaLog(schemas, table="t", table_id="table-1") for _ in range(2))
    entry = TrackedMetadata.from_json(ENTRY.removeprefix("v1\n"))
    one.append(entry)
    one.append(entry)
    with pytest.raises(SchemaLocationConflictError):
        other.append(entry)
    named = SchemaLog(schemas, table="t", table_id="table-1", tracking_id="b")
    named.append(entry)
    assert named.location.endswith("/_schema_log_table-1_b")


def test_columns_of_partitions_and_properties_come_from_the_log() -> None:
    query = Query(table())
    query.run()
    snapshot = query.writer.table.snapshots.latest()
    describe(query.writer, {1: "id", 2: "w"}, remove(add("a")))
    read = read_snapshot(query.writer.table.snapshots.latest(), query.log())
    assert read.schema == snapshot.schema
    assert read.version == 1
