"""One writer of the demo: a process with a Spark session of its own.

Started as `python -m anabranch.cli.demo.demo_worker`. Reads JSON objects from standard input, one a line: first its
name and table, then what to do. Says what happens as JSON objects on standard output, one a line.
"""

from __future__ import annotations

import functools
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anabranch.cli.commit_text import landed_after, reconciled_in_words
from anabranch.cli.demo.demo_flights import small_session
from anabranch.cli.demo.demo_writers import Statement, run
from anabranch.clock import SystemClock
from anabranch.snapshot.snapshot_cache import SnapshotCache
from anabranch.storage.local.local_store import LocalStore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS_PER_FILE = 10_000
USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"


def main() -> None:
    """The life of the process: until whoever started it has no more to say."""
    task = json.loads(sys.stdin.readline())
    name, table = str(task["name"]), str(task["table"])
    spark = small_session(name, scratch=Path(task["scratch"]), cores=1)
    say(event="ready")
    for line in sys.stdin:
        order = json.loads(line)
        if order["do"] == "append":
            append(spark, name, table, order["months"])
        elif order["do"] == "race":
            race(spark, name, table, order["statements"])
        else:
            clash(spark, name, table, Statement.of(order["statement"]))
    spark.stop()


def append(spark: SparkSession, name: str, table: str, months: list[tuple[int, str]]) -> None:
    """Append the flights of each month as one commit."""
    for month, file in months:

        def write(file: str = file) -> None:
            frame = spark.read.parquet(file)
            frame.write.format("delta").mode("append").option("maxRecordsPerFile", ROWS_PER_FILE).save(table)

        say(event="landed", month=month, **noted(spark, table, f"month {month} by {name}", write))


def race(spark: SparkSession, name: str, table: str, statements: list[dict[str, Any]]) -> None:
    """Execute one statement after the other."""
    for number, document in enumerate(statements):
        statement = Statement.of(document)
        note = f"statement {number + 1} of {name}"
        say(event="landed", number=number, **noted(spark, table, note, functools.partial(run, spark, table, statement)))


def clash(spark: SparkSession, name: str, table: str, statement: Statement) -> None:
    """Do all of an UPDATE but its commit; commit when told to. If that loses, execute it again."""
    from anabranch.commands.dml.update import prepare_update  # noqa: PLC0415
    from anabranch.commands.table_access import table_at  # noqa: PLC0415 - only the demo loads Spark
    from anabranch.errors.commits import DeltaConcurrentModificationException  # noqa: PLC0415
    from anabranch.spark.session.delta_session import DeltaSession  # noqa: PLC0415

    note = f"clash by {name}"
    spark.conf.set(USER_METADATA, note)
    table_ref = table_at(DeltaSession.of(spark), table)
    with prepare_update(table_ref, statement.values, statement.condition) as prepared:
        say(event="prepared")
        sys.stdin.readline()
        started = time.perf_counter()
        try:
            prepared.commit()
        except DeltaConcurrentModificationException as conflict:
            say(event="lost", error=type(conflict).__name__, message=conflict.getMessage())
            run(spark, table, statement)
    say(event="landed", number=0, seconds=round(time.perf_counter() - started, 2), **landing(table, note))


def noted(spark: SparkSession, table: str, note: str, work: Callable[[], None]) -> dict[str, Any]:
    """Do it, and say where its commit, which carries the note, stands."""
    spark.conf.set(USER_METADATA, note)
    started = time.perf_counter()
    work()
    return {"seconds": round(time.perf_counter() - started, 2), **landing(table, note)}


def landing(table: str, note: str) -> dict[str, Any]:
    """At which version the commit with this note stands, and how it came there; None where there is no such commit."""
    for entry in SnapshotCache(LocalStore(table), SystemClock()).history():
        if entry.info is not None and entry.info.user_metadata == note:
            return {
                "version": entry.version,
                "read_version": entry.info.read_version,
                "landed_after": list(landed_after(entry.info)),
                "how": list(reconciled_in_words(entry.info)),
            }
    return {"version": None, "read_version": None, "landed_after": [], "how": []}


def say(**facts: Any) -> None:
    """One line for whoever started this process."""
    sys.stdout.write(json.dumps(facts) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
