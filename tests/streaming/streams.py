"""Streams of few files, run to their end."""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from anabranch.tables import DeltaTable

WAIT_S = 60
FIRST_FILE_S = 1_700_000_000


@dataclasses.dataclass(frozen=True)
class Feed:
    """A folder of JSON files, each of which becomes one batch, and the checkpoint of its reader."""

    folder: Path
    columns: str = "id long, v string"

    def put(self, *rows: dict[str, Any]) -> None:
        """One more file."""
        number = len(list(self.folder.iterdir()))
        text = "\n".join(json.dumps(row) for row in rows)
        file = self.folder / f"{number:03}.json"
        file.write_text(text, "utf-8")
        # Spark takes files in the order of their age.
        os.utime(file, (FIRST_FILE_S + number, FIRST_FILE_S + number))

    @property
    def checkpoint(self) -> Path:
        return self.folder.with_name(self.folder.name + "-checkpoint")

    def frame(self, delta: SparkSession, columns: str | None = None) -> DataFrame:
        """The stream, one file a batch."""
        reader = delta.readStream.schema(columns or self.columns).option("maxFilesPerTrigger", 1)
        return reader.json(str(self.folder))

    def forget_last_batch(self) -> None:
        """Spark's own note that the last batch is done was never written, as after a crash."""
        commits = self.checkpoint / "commits"
        last = max(int(file.name) for file in commits.iterdir() if file.name.isdigit())
        (commits / str(last)).unlink()
        (commits / f".{last}.crc").unlink(missing_ok=True)


def writer(stream: DataFrame, feed: Feed, mode: str = "append", **options: Any) -> Any:
    """Ready to be started; it ends when the files there are have been read."""
    prepared = stream.writeStream.format("delta").outputMode(mode).trigger(availableNow=True)
    return prepared.option("checkpointLocation", str(feed.checkpoint)).options(**options)


def run(stream: DataFrame, feed: Feed, path: str, mode: str = "append", **options: Any) -> Any:
    """The query, when it has come to its end. Raises what made it fail."""
    return finished(writer(stream, feed, mode, **options).start(path))


def finished(query: Any) -> Any:
    """The query, when it has come to its end."""
    assert query.awaitTermination(WAIT_S) in {True, None}
    return query


def rows(delta: SparkSession, path: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in delta.read.format("delta").load(path).collect())


def last(delta: SparkSession, path: str) -> Any:
    return DeltaTable.forPath(delta, path).history(1).first()


def applications(path: str, version: int) -> list[dict[str, Any]]:
    """The `txn` actions of one commit."""
    commit = Path(path) / "_delta_log" / f"{version:020}.json"
    actions = [json.loads(line) for line in commit.read_text("utf-8").splitlines()]
    return [action["txn"] for action in actions if "txn" in action]
