"""The processes of `changer.py`, and what readers that need no Spark see of their tables."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from anabranch.tables import DeltaTable
from interop.readers import READERS

WRITERS = int(os.environ.get("ANABRANCH_CHANGERS", "5"))
CHANGER = Path(__file__).with_name("changer.py")


class Changers:
    """The processes."""

    def __init__(self, scratch: Path) -> None:
        path = os.pathsep.join(filter(None, sys.path))
        self.logs = [scratch / f"writer-{writer}.log" for writer in range(WRITERS)]
        self.processes = []
        for writer, log in enumerate(self.logs):
            folder = scratch / f"writer-{writer}"
            folder.mkdir()
            with log.open("ab") as errors:
                process = subprocess.Popen(
                    [sys.executable, str(CHANGER), str(folder)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    text=True,
                    env={**os.environ, "PYTHONPATH": path},
                )
            self.processes.append(process)
        for writer in range(WRITERS):
            assert self.answer(writer) == {"ready": True}

    def begin(self, work: str, table: str, *, count: int, retries: int = 0) -> None:
        """Let all of them begin."""
        for writer, process in enumerate(self.processes):
            task = {"work": work, "table": table, "writer": writer, "seed": writer, "count": count, "retries": retries}
            assert process.stdin is not None
            process.stdin.write(json.dumps(task) + "\n")
            process.stdin.flush()

    def end(self) -> list[dict[str, Any]]:
        """What each of them did."""
        return [self.answer(writer) for writer in range(WRITERS)]

    def answer(self, writer: int) -> dict[str, Any]:
        stdout = self.processes[writer].stdout
        assert stdout is not None
        line = stdout.readline()
        assert line, self.logs[writer].read_text(errors="replace")[-3000:]
        answer = json.loads(line)
        assert isinstance(answer, dict)
        return answer

    def stop(self) -> None:
        for process in self.processes:
            process.kill()
            process.communicate()


def make(native: SparkSession, path: str, rows: int, amount: int) -> DeltaTable:
    """Rows with ids from 0 and the same amount each, in one file."""
    frame = native.range(0, rows, 1, 1).withColumn("n", F.lit(amount).cast("long"))
    frame.write.format("delta").option("delta.checkpointInterval", "7").save(path)
    return DeltaTable.forPath(native, path)


def seen_by_all(path: str) -> dict[int, int]:
    """`n` by id, where all readers must agree and each id be there once."""
    by_reader = {}
    for name, read in READERS.items():
        rows = read(path).select(["id", "n"]).to_pylist()
        by_reader[name] = {row["id"]: row["n"] for row in rows}
        assert len(by_reader[name]) == len(rows), f"{name} sees an id twice"
    first, *others = by_reader.values()
    assert all(other == first for other in others)
    return first
