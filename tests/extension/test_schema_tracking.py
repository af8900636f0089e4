"""Streams with a schema log, in Spark. What they note and where they stop: tests/streaming/test_schema_tracking.py."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from anabranch.errors.streaming import (
    SchemaLocationConflictError,
    SchemaLocationOutsideCheckpointError,
    StreamedChangeNotAllowedError,
    StreamedMetadataEvolvedError,
)
from streaming.streams import finished

pytestmark = pytest.mark.spark


@pytest.fixture
def delta(native: SparkSession) -> SparkSession:
    return native


@dataclasses.dataclass
class Copying:
    """A stream with a schema log from one table into another."""

    delta: SparkSession
    source: str
    target: str
    checkpoint: str
    options: dict[str, Any] = dataclasses.field(default_factory=dict)

    def run(self) -> None:
        options = {"schemaTrackingLocation": self.checkpoint, **self.options}
        stream = self.delta.readStream.format("delta").options(**options).load(self.source)
        writer = stream.writeStream.format("delta").option("checkpointLocation", self.checkpoint)
        finished(writer.option("mergeSchema", True).trigger(availableNow=True).start(self.target))

    def fails(self, error: type[Exception]) -> Any:
        with pytest.raises(StreamingQueryException) as raised:
            self.run()
        assert isinstance(raised.value.__cause__, error), str(raised.value)[:2000]
        return raised.value.__cause__

    def rows(self) -> list[dict[str, Any]]:
        rows = self.delta.read.format("delta").load(self.target).orderBy("id").collect()
        return [row.asDict() for row in rows]

    def entries(self) -> list[Path]:
        folder = next(Path(self.checkpoint).glob("_schema_log_*"))
        return sorted(file for file in folder.iterdir() if file.name.isdigit())


@pytest.fixture
def copying(delta: SparkSession, path: str, tmp_path: Path) -> Copying:
    delta.sql(
        f"CREATE TABLE delta.`{path}` (id BIGINT, v STRING, p INT) USING delta PARTITIONED BY (p) "
        "TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"
    )
    delta.sql(f"INSERT INTO delta.`{path}` VALUES (1, 'a', 7)")
    return Copying(delta, path, str(tmp_path / "target"), str(tmp_path / "checkpoint"))


def test_columns_renamed_and_dropped_under_a_stream(copying: Copying) -> None:
    """Restarted after each change, as it is allowed for all streams, for this one, and by an option."""
    delta, path = copying.delta, copying.source
    copying.run()
    delta.sql(f"INSERT INTO delta.`{path}` VALUES (2, 'b', 7)")
    delta.sql(f"ALTER TABLE delta.`{path}` RENAME COLUMN v TO w")
    delta.sql(f"ALTER TABLE delta.`{path}` RENAME COLUMN p TO q")
    delta.sql(f"INSERT INTO delta.`{path}` VALUES (3, 'c', 8)")
    delta.sql(f"ALTER TABLE delta.`{path}` DROP COLUMN w")
    delta.sql(f"INSERT INTO delta.`{path}` VALUES (4, 9)")
    copying.fails(StreamedMetadataEvolvedError)
    refused = copying.fails(StreamedChangeNotAllowedError)
    assert (refused.kind, refused.version) == ("RENAME COLUMN", 4)
    metadata_path = json.loads(copying.entries()[0].read_text().splitlines()[1])["sourceMetadataPath"]
    jvm: Any = delta._jvm
    assert refused.checkpoint_hash == jvm.java.util.Objects.hashCode(metadata_path)
    setting = f"{refused.settings[0]}.ckpt_{refused.checkpoint_hash}"
    delta.conf.set(setting, "4")
    try:
        copying.fails(StreamedMetadataEvolvedError)
    finally:
        delta.conf.unset(setting)
    copying.options = {"allowSourceColumnDrop": "always"}
    copying.run()
    empty = {"v": None, "p": None, "w": None, "q": None}
    assert copying.rows() == [
        {**empty, "id": 1, "v": "a", "p": 7},
        {**empty, "id": 2, "v": "b", "p": 7},
        {**empty, "id": 3, "w": "c", "q": 8},
        {**empty, "id": 4, "q": 9},
    ]
    assert [file.name for file in copying.entries()] == ["0", "1", "2", "3"]


def test_a_stream_that_goes_on_stops_at_a_change(copying: Copying) -> None:
    """While it runs, not only with what is available; its entries are in delta-spark's form."""
    delta, path = copying.delta, copying.source
    stream = delta.readStream.format("delta").option("schemaLocation", copying.checkpoint).load(path)
    query = stream.writeStream.format("delta").option("checkpointLocation", copying.checkpoint).start(copying.target)
    query.processAllAvailable()
    delta.sql(f"ALTER TABLE delta.`{path}` ADD COLUMN x INT")
    delta.sql(f"INSERT INTO delta.`{path}` VALUES (2, 'b', 7, 5)")
    with pytest.raises(StreamingQueryException) as raised:
        query.awaitTermination(60)
    assert isinstance(raised.value.__cause__, StreamedMetadataEvolvedError)
    assert raised.value.__cause__.getCondition() == "DELTA_STREAMING_METADATA_EVOLUTION"
    copying.run()
    assert [(row["id"], row["x"]) for row in copying.rows()] == [(1, None), (2, 5)]
    form, entry = copying.entries()[-1].read_text().splitlines()
    entry_values = json.loads(entry)
    assert (form, entry_values["deltaCommitVersion"], entry_values["sourceMetadataPath"].endswith("/sources/0")) == (
        "v1",
        2,
        True,
    )
    assert json.loads(entry_values["partitionSchemaJson"])["fields"][0]["name"] == "p"


def test_where_the_log_may_lie(copying: Copying, tmp_path: Path) -> None:
    copying.options = {"schemaTrackingLocation": str(tmp_path / "elsewhere")}
    copying.fails(SchemaLocationOutsideCheckpointError)
    copying.delta.conf.set("spark.databricks.delta.streaming.allowSchemaLocationOutsideCheckpointLocation", "true")
    try:
        copying.run()
        copying.checkpoint = str(tmp_path / "another")
        copying.fails(SchemaLocationConflictError)
    finally:
        copying.delta.conf.unset("spark.databricks.delta.streaming.allowSchemaLocationOutsideCheckpointLocation")


def test_two_streams_of_one_query(copying: Copying, tmp_path: Path) -> None:
    """Each with a log of its own, by its id."""
    delta = copying.delta

    def start(name: str, *ids: str) -> Any:
        checkpoint = str(tmp_path / name)
        streams = [
            delta.readStream.format("delta")
            .options(
                schemaTrackingLocation=checkpoint, **({"streamingSourceTrackingId": tracking_id} if tracking_id else {})
            )
            .load(copying.source)
            for tracking_id in ids
        ]
        writer = streams[0].union(streams[1]).writeStream.format("delta").option("checkpointLocation", checkpoint)
        return writer.trigger(availableNow=True).start(copying.target)

    finished(start("apart", "a", "b"))
    assert [row["id"] for row in copying.rows()] == [1, 1]
    with pytest.raises(StreamingQueryException) as raised:
        finished(start("together", "", ""))
    assert isinstance(raised.value.__cause__, SchemaLocationConflictError)
