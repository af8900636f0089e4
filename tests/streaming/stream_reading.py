"""Queries of which the rows of each batch are kept, on sessions of every kind."""

from __future__ import annotations

import dataclasses
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession

from streaming.streams import finished


@dataclasses.dataclass
class Reading:
    """A query and its checkpoint, which stays from run to run.

    Batches are kept in files: on Spark Connect a process of the server takes them.
    """

    checkpoint: Path

    def run(self, stream: DataFrame, **trigger: Any) -> Any:
        """Runs the stream to the end of what there is. Raises `StreamingQueryException`."""
        return finished(self.start(stream, **(trigger or {"availableNow": True})))

    def start(self, stream: DataFrame, **trigger: Any) -> Any:
        self._folder.mkdir(exist_ok=True)
        writer = stream.writeStream.foreachBatch(_taking(str(self._folder))).trigger(**trigger)
        return writer.option("checkpointLocation", str(self.checkpoint)).start()

    def fail_at(self, number: int) -> None:
        """The next run dies in this batch."""
        self._folder.mkdir(exist_ok=True)
        (self._folder / f"{number}.fails").touch()

    @property
    def batches(self) -> list[list[Row]]:
        files = sorted(self._folder.glob("*.rows"), key=lambda file: int(file.stem))
        return [pickle.loads(file.read_bytes()) for file in files]

    @property
    def sizes(self) -> list[int]:
        return [len(batch) for batch in self.batches]

    @property
    def rows(self) -> list[tuple[Any, ...]]:
        return sorted(tuple(row) for batch in self.batches for row in batch)

    @property
    def ids(self) -> list[int]:
        return sorted(row.id for batch in self.batches for row in batch)

    @property
    def _folder(self) -> Path:
        return self.checkpoint.with_name(f"{self.checkpoint.name}-batches")

    def offsets(self) -> list[str]:
        """What the checkpoint says of each batch."""
        files = sorted(
            (int(file.name), file) for file in (self.checkpoint / "offsets").iterdir() if file.name.isdigit()
        )
        return [file.read_text("utf-8").splitlines()[-1] for _, file in files]

    def forget_last_commit(self) -> None:
        """The process died before Spark noted that its last batch was done."""
        notes = self.checkpoint / "commits"
        newest = max(int(file.name) for file in notes.iterdir() if file.name.isdigit())
        (notes / str(newest)).unlink()
        (notes / f".{newest}.crc").unlink(missing_ok=True)


def stream(delta: SparkSession, path: str, **options: Any) -> DataFrame:
    return delta.readStream.format("delta").options(**options).load(path)


def put(delta: SparkSession, path: str, *ids: int) -> None:
    """One more commit, of one file."""
    delta.createDataFrame([(row_id, "v") for row_id in ids], "id long, v string").coalesce(1).write.format(
        "delta"
    ).mode("append").save(path)


def _taking(folder: str) -> Callable[[DataFrame, int], None]:
    """What runs for each batch. It travels to the server by value, and so names no module of the tests."""

    def take(batch: DataFrame, number: int) -> None:
        import pickle
        from pathlib import Path

        fails, kept = Path(folder, f"{number}.fails"), Path(folder, f"{number}.rows")
        if fails.exists():
            fails.unlink()
            raise ValueError("the process dies")
        rows = batch.collect()
        if kept.exists() and sorted(pickle.loads(kept.read_bytes())) != sorted(rows):
            raise AssertionError("a batch that is read again has other rows")
        kept.write_bytes(pickle.dumps(rows))

    return take
