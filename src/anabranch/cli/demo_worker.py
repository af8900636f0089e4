"""One writer of the demo: a process with a Spark session of its own that appends months to a table.

Started as `python -m anabranch.cli.demo_worker`. Reads its task, one JSON object, from the first line of standard
input, and starts to write at the second. Says what happens as JSON objects on standard output, one a line.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from anabranch.cli.commit_words import landed_after
from anabranch.cli.demo_spark import small_session
from anabranch.clock import SystemClock
from anabranch.snapshot.snapshots import Snapshots
from anabranch.storage.local import LocalStore

ROWS_PER_FILE = 10_000


def main() -> None:
    """The life of the process."""
    task = json.loads(sys.stdin.readline())
    name, table = str(task["name"]), str(task["table"])
    spark = small_session(name, scratch=Path(task["scratch"]), cores=1)
    say(event="ready")
    if not sys.stdin.readline():
        return  # Whoever started us has gone.
    for month, file in task["months"]:
        note = f"month {month} by {name}"
        started = time.perf_counter()
        (
            spark.read.parquet(file)
            .write.format("delta")
            .mode("append")
            .option("maxRecordsPerFile", ROWS_PER_FILE)
            .option("userMetadata", note)
            .save(table)
        )
        seconds = time.perf_counter() - started
        say(event="landed", month=month, seconds=round(seconds, 2), **landing(table, note))
    spark.stop()


def landing(table: str, note: str) -> dict[str, Any]:
    """At which version the commit with this note stands, and which it had to come after."""
    for entry in Snapshots(LocalStore(table), SystemClock()).history():
        if entry.info is not None and entry.info.user_metadata == note:
            return {
                "version": entry.version,
                "read_version": entry.info.read_version,
                "landed_after": list(landed_after(entry.info)),
            }
    raise AssertionError(f"{note} is not in the history of {table}")


def say(**facts: Any) -> None:
    """One line for whoever started this process."""
    sys.stdout.write(json.dumps(facts) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
