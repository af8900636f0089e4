"""A writer of the soak: a process with a Spark session of its own, run as `python writer.py FOLDER NAME NUMBER SEED`.

Its journal says before each statement what it is about to do, and afterwards the result. It works until a file
`stop` lies in the folder; who kills it needs no leave.
"""

from __future__ import annotations

import faulthandler
import json
import os
import random
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from anabranch.cli.demo.demo_flights import small_session
from anabranch.errors.base import DeltaError
from soak.model import Statement
from soak.statements import KINDS, Author, Kind, execute, level_of

USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"
IDS_OF_A_STATEMENT = 100
STATEMENTS_OF_A_PROCESS = 10_000


def newest_version(path: Path) -> int:
    """The newest version; -1 where there is none."""
    log = path / "_delta_log"
    names = [name for name in os.listdir(log) if len(name) == 25] if log.exists() else []
    return max((int(name[:20]) for name in names), default=-1)


class Writer:
    """One process's work."""

    def __init__(self, folder: Path, name: str, number: int, seed: int) -> None:
        self.folder, self.name, self.number = folder, name, number
        self.chance = random.Random(seed)
        self.journal = (folder / "journals" / f"{name}.jsonl").open("a", buffering=1)
        scratch = folder / "scratch" / name
        scratch.mkdir(parents=True)
        self.spark: SparkSession = small_session(name, scratch=scratch, cores=1)
        self.spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
        self.count = 0
        self.counted = {kind.name: 0 for kind in KINDS}

    def run(self) -> None:
        for kind in KINDS:
            properties = {
                **kind.properties,
                "delta.isolationLevel": level_of(kind.name),
                "delta.checkpointInterval": "7",
            }
            columns = ["id", "n"]
            self.perform(kind, {"kind": "create", "columns": columns, "rows": [], "properties": properties})
        while not (self.folder / "stop").exists():
            kind = self.next_table()
            self.perform(kind, self.next_statement(kind))
        for kind in KINDS:
            self.perform(kind, {"kind": "read", "version": None})
        self.spark.stop()

    def next_table(self) -> Kind:
        """Mostly the one that all are at in this half minute: a writer on another table meets no conflict."""
        if self.chance.random() < 0.8:
            return KINDS[int(time.time() / 30) % len(KINDS)]
        return self.chance.choice(KINDS)

    def next_statement(self, kind: Kind) -> Statement:
        path = self.path(kind)
        base = (self.number * STATEMENTS_OF_A_PROCESS + self.count + 1) * IDS_OF_A_STATEMENT
        columns = self.spark.read.format("delta").load(str(path)).columns
        statement = Author(self.chance, kind, columns, self.counted[kind.name], newest_version(path), base).statement()
        if statement["kind"] == "replace_table":
            statement["properties"]["delta.isolationLevel"] = level_of(kind.name)
        return statement

    def path(self, kind: Kind) -> Path:
        return self.folder / "tables" / kind.name

    def perform(self, kind: Kind, statement: Statement) -> None:
        path, spark = self.path(kind), self.spark
        self.count += 1
        name = f"{self.name}-{self.count}"
        retries = self.chance.choice([0, 0, 3])
        spark.conf.set("spark.anabranch.conflictRetries", str(retries))
        spark.conf.set(USER_METADATA, name)
        begun = time.monotonic()
        self._note(begins=name, table=kind.name, statement=statement, newest=newest_version(path))
        outcome: dict[str, Any] = {}
        try:
            frame = execute(spark, statement, str(path))
            if statement["kind"] == "read":
                assert frame is not None
                rows = frame.collect()
                self.counted[kind.name] = len(rows)
                outcome = {"columns": frame.columns, "rows": sorted(list(row) for row in rows)}
        except Exception as error:
            outcome = {"error": described(error)}
        self._note(ends=name, newest=newest_version(path), seconds=round(time.monotonic() - begun, 2), **outcome)

    def _note(self, **facts: Any) -> None:
        self.journal.write(json.dumps(facts) + "\n")


def described(error: Exception) -> dict[str, Any]:
    """What the judge needs of an error."""
    description: dict[str, Any] = {"type": type(error).__name__, "message": str(error)[:2000]}
    if isinstance(error, PySparkException):
        description["condition"] = error.getCondition()
    if isinstance(error, DeltaError):
        facts = error.facts()
        description["delta"] = True
        description.update({name: facts[name] for name in ("version", "operation", "read_version") if name in facts})
        description["reason"] = str(facts.get("reason", ""))
    else:
        description["trace"] = traceback.format_exc()[-3000:]
    return description


def main() -> None:
    faulthandler.register(signal.SIGUSR1)
    folder, name, number, seed = sys.argv[1:]
    Writer(Path(folder), name, int(number), int(seed)).run()


if __name__ == "__main__":
    main()
