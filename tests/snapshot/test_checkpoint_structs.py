"""Statistics and partition values as columns of a checkpoint."""

from __future__ import annotations

import datetime
import io
import json
from pathlib import Path

import deltalake
import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from anabranch.clock import SystemClock
from anabranch.protocol.actions import Metadata
from anabranch.protocol.actions_json import encode_actions
from anabranch.protocol.log_paths import checkpoint_path, commit_path
from anabranch.snapshot.checkpointing import write_checkpoint
from anabranch.snapshot.snapshot_cache import SnapshotCache
from anabranch.storage.local.local_store import LocalStore
from log.log_in_memory import PROTOCOL, CountedUuids, LogInMemory, add, metadata


def field(name: str, kind: object) -> dict[str, object]:
    return {"name": name, "type": kind, "nullable": True, "metadata": {}}


SCHEMA = {
    "type": "struct",
    "fields": [
        field("i", "integer"),
        field("d", "date"),
        field("t", "timestamp"),
        field("n", "timestamp_ntz"),
        field("s", {"type": "struct", "fields": [field("x", "double"), field("y", "string")]}),
        field("b", "boolean"),
        field("a", {"type": "array", "elementType": "string", "containsNull": True}),
        field("day", "date"),
        field("number", "integer"),
    ],
}
STATISTICS = {
    "numRecords": 7,
    "minValues": {
        "i": -5,
        "d": "2024-02-29",
        "t": "2024-02-29T10:11:12.345Z",
        "n": "2024-02-29T10:11:12.345",
        "s": {"x": 1.5, "y": 'q"\\"tightBounds":true'},
    },
    "maxValues": {"i": 2**31 - 1, "s": {"y": "z"}},
    "nullCount": {"i": 0, "s": {"x": 1}, "b": 2, "a": 3},
    "tightBounds": False,
}


def log_with(statistics: list[str | None], **configuration: str) -> LogInMemory:
    log = LogInMemory.empty()
    shaped = msgspec.structs.replace(
        metadata(**configuration), schema_string=json.dumps(SCHEMA), partition_columns=["day", "number"]
    )
    files = [
        msgspec.structs.replace(
            add(f"file-{number}", stats=text),
            partition_values={"day": None if number else "2024-02-29", "number": str(number)},
        )
        for number, text in enumerate(statistics)
    ]
    log.commit(PROTOCOL, shaped, *files)
    write_checkpoint(log.store, log.snapshots().latest(), clock=log.clock, new_uuid=CountedUuids())
    return log


def adds_of(log: LogInMemory) -> list[dict[str, object]]:
    rows = pq.read_table(io.BytesIO(log.store.read(checkpoint_path(0)))).to_pylist()
    return [row["add"] for row in rows if row["add"]]


def test_statistics_are_typed() -> None:
    log = log_with([json.dumps(STATISTICS), None], delta__checkpoint__writeStatsAsStruct="true")
    first, second = adds_of(log)
    assert second["stats_parsed"] is None
    parsed = first["stats_parsed"]
    assert isinstance(parsed, dict)
    assert parsed["numRecords"] == 7
    assert parsed["minValues"] == {
        "i": -5,
        "d": datetime.date(2024, 2, 29),
        "t": datetime.datetime(2024, 2, 29, 10, 11, 12, 345_000, tzinfo=datetime.UTC),
        "n": datetime.datetime(2024, 2, 29, 10, 11, 12, 345_000),
        "s": {"x": 1.5, "y": 'q"\\"tightBounds":true'},
    }
    assert parsed["maxValues"]["i"] == 2**31 - 1
    assert parsed["nullCount"] == {"i": 0, "d": None, "t": None, "n": None, "s": {"x": 1, "y": None}, "b": 2, "a": 3}
    assert parsed["tightBounds"] is False
    assert first["partitionValues_parsed"] == {"day": datetime.date(2024, 2, 29), "number": 0}
    assert second["partitionValues_parsed"] == {"day": None, "number": 1}
    assert first["stats"] == json.dumps(STATISTICS)


@pytest.mark.parametrize("configuration", [{}, {"delta__checkpoint__writeStatsAsStruct": "false"}])
def test_by_default_statistics_are_json_only(configuration: dict[str, str]) -> None:
    """Delta writes the columns by default; here a property of the table turns them on."""
    file = adds_of(log_with([json.dumps(STATISTICS)], **configuration))[0]
    assert file["stats"] == json.dumps(STATISTICS)
    assert not {"stats_parsed", "partitionValues_parsed"} & file.keys()


def test_without_json_the_struct_is_enough() -> None:
    """The JSON that readers of ours see is made from the columns."""
    log = log_with(
        [json.dumps(STATISTICS), None, '{"numRecords":3}'],
        delta__checkpoint__writeStatsAsStruct="true",
        delta__checkpoint__writeStatsAsJson="false",
    )
    assert "stats" not in adds_of(log)[0]
    stats = log.snapshots().latest().files.columns("stats")["stats"].to_pylist()
    assert json.loads(stats[0]) == STATISTICS
    assert stats[1] is None
    assert json.loads(stats[2]) == {"numRecords": 3}


@pytest.mark.parametrize("configuration", [{}, {"delta__checkpoint__writeStatsAsJson": "false"}])
def test_statistics_are_never_lost(configuration: dict[str, str]) -> None:
    log = log_with([json.dumps(STATISTICS)], **configuration)
    assert log.snapshots().latest().files.columns("stats")["stats"].to_pylist() == [json.dumps(STATISTICS)]


@pytest.mark.parametrize("statistics", ["", "{", '{"numRecords":"x"}', '{"minValues":{"i":99999999999999}}', "[]"])
def test_odd_statistics_do_no_harm(statistics: str) -> None:
    log = log_with([statistics, json.dumps(STATISTICS)], delta__checkpoint__writeStatsAsStruct="true")
    parsed = [row["stats_parsed"] for row in adds_of(log)]
    assert parsed[0]["minValues"]["i"] is None  # type: ignore[index]
    assert parsed[1]["minValues"]["i"] == -5  # type: ignore[index]


def test_delta_rs_reads_them(tmp_path: Path) -> None:
    root = str(tmp_path / "table")
    deltalake.write_deltalake(root, pa.table({"id": [1, 2], "day": ["a", "b"]}), partition_by=["day"])
    store = LocalStore(root)
    latest = SnapshotCache(store, SystemClock()).latest()
    fields = {name: getattr(latest.metadata, name) for name in Metadata.__struct_fields__}
    changed = Metadata(**fields | {"configuration": {"delta.checkpoint.writeStatsAsStruct": "true"}})
    store.put(commit_path(1), encode_actions([changed]))
    snapshot = SnapshotCache(store, SystemClock()).latest()
    write_checkpoint(store, snapshot, clock=SystemClock(), new_uuid=CountedUuids())
    store.delete(commit_path(0))
    assert sorted(deltalake.DeltaTable(root).to_pyarrow_table()["id"].to_pylist()) == [1, 2]
