"""One writer of the demo: a process with a Spark session of its own.

Started as `python -m anabranch.cli.demo.demo_worker`. Reads JSON objects from standard input, one a line: first its
name and table, then orders. Reports events as JSON objects on standard output, one a line.
"""

from __future__ import annotations

import functools
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anabranch.cli.demo.demo_flights import small_session
from anabranch.cli.demo.demo_statements import Statement, run
from anabranch.clock import SystemClock
from anabranch.snapshot.snapshot_cache import SnapshotCache
from anabranch.storage.local.local_store import LocalStore
from anabranch.table_report.commit_text import landed_after, reconciled_in_words

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS_PER_FILE = 10_000
USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"


def main() -> None:
    """Execute orders until standard input ends."""
    task = json.loads(sys.stdin.readline())
    name, table = str(task["name"]), str(task["table"])
    spark = small_session(name, scratch=Path(task["scratch"]), cores=1)
    say(event="ready")
    for line in sys.stdin:
        order = json.loads(line)
        if order["do"] == "append":
            append(spark, name, table, order["months"])
        elif order["do"] == "execute":
            execute(spark, name, table, order["statements"])
        else:
            conflict(spark, name, table, Statement.of(order["statement"]))
    spark.stop()


def append(spark: SparkSession, name: str, table: str, months: list[tuple[int, str]]) -> None:
    """Append the flights of each month as one commit."""
    for month, file in months:

        def write(file: str = file) -> None:
            frame = spark.read.parquet(file)
            frame.write.format("delta").mode("append").option("maxRecordsPerFile", ROWS_PER_FILE).save(table)

        say(event="committed", month=month, **with_note(spark, table, f"month {month} by {name}", write))


def execute(spark: SparkSession, name: str, table: str, statements: list[dict[str, Any]]) -> None:
    """Execute one statement after the other."""
    for number, document in enumerate(statements):
        statement = Statement.of(document)
        note = f"statement {number + 1} of {name}"
        commit = with_note(spark, table, note, functools.partial(run, spark, table, statement))
        say(event="committed", number=number, **commit)


def conflict(spark: SparkSession, name: str, table: str, statement: Statement) -> None:
    """Prepare an UPDATE, and commit it at the next line of input. Execute it again if it loses to a conflict."""
    from anabranch.commands.dml.update import prepare_update  # noqa: PLC0415
    from anabranch.commands.table_access import table_at  # noqa: PLC0415 - only the demo loads Spark
    from anabranch.errors.commits import DeltaConcurrentModificationException  # noqa: PLC0415
    from anabranch.spark.session.delta_session import DeltaSession  # noqa: PLC0415

    note = f"conflict by {name}"
    spark.conf.set(USER_METADATA, note)
    table_ref = table_at(DeltaSession.of(spark), table)
    with prepare_update(table_ref, statement.values, statement.condition) as prepared:
        say(event="prepared")
        sys.stdin.readline()
        started = time.perf_counter()
        try:
            prepared.commit()
        except DeltaConcurrentModificationException as error:
            say(event="conflict", error=type(error).__name__, message=error.getMessage())
            run(spark, table, statement)
    say(event="committed", number=0, seconds=round(time.perf_counter() - started, 2), **commit_with(table, note))


def with_note(spark: SparkSession, table: str, note: str, work: Callable[[], None]) -> dict[str, Any]:
    """Do the work with `note` as its commit's user metadata, and describe that commit."""
    spark.conf.set(USER_METADATA, note)
    started = time.perf_counter()
    work()
    return {"seconds": round(time.perf_counter() - started, 2), **commit_with(table, note)}


def commit_with(table: str, note: str) -> dict[str, Any]:
    """The version of the commit with this note, and how it was reconciled; None where there is no such commit."""
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
    """Write one event to standard output."""
    sys.stdout.write(json.dumps(facts) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
