"""One process of the soak of streams, which is killed at any time: `soaking.py PART FOLDER`.

Says what it does on standard output, one word or more a line: "ready", what it has done, "failed" with the reason.
"""

from __future__ import annotations

import random
import shutil
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from anabranch.cli.demo.demo_flights import small_session
from anabranch.exceptions import DeltaConcurrentModificationException

FOLDER = Path(sys.argv[2])
SOURCE = f"delta.`{FOLDER}/source`"
ROWS = 20
"""Of a file of the feed."""
END_SECONDS = 240
"""A stream that has to read what there is ends within this time."""


def say(*words: object) -> None:
    print(*words, flush=True)


def appending(spark: SparkSession) -> Any:
    """Rows of the feed into the source."""
    feed = spark.readStream.schema("id long, v string").option("maxFilesPerTrigger", 5).json(f"{FOLDER}/feed")
    return writer(feed, "appending"), "source"


def skipping(spark: SparkSession) -> Any:
    """Each row that was appended, as it was then."""
    options = {"skipChangeCommits": True, "startingVersion": 0, "maxFilesPerTrigger": 3}
    source = spark.readStream.format("delta").options(**options).load(f"{FOLDER}/source")
    return writer(source, "skipping"), "skipped"


def ignoring(spark: SparkSession) -> Any:
    """Each row at least once, from the table as it is at the start."""
    source = spark.readStream.format("delta").option("ignoreChanges", True).load(f"{FOLDER}/source")
    return writer(source, "ignoring"), "ignored"


def writer(stream: Any, name: str) -> Any:
    """Spark 4.3 does not start again what died while its first offset was written, and says to delete the checkpoint."""
    checkpoint = FOLDER / "checkpoints" / name
    if not any(checkpoint.glob("offsets/[0-9]*")):
        shutil.rmtree(checkpoint, ignore_errors=True)
    return stream.writeStream.format("delta").option("checkpointLocation", str(checkpoint))


def run(spark: SparkSession, *makes: Callable[[SparkSession], Any]) -> None:
    """Queries that go on until the process is killed."""
    queries = [target.start(f"{FOLDER}/{name}") for target, name in (make(spark) for make in makes)]
    say("ready")
    spark.streams.awaitAnyTermination()
    raise AssertionError([query.exception() for query in queries])


def finish(spark: SparkSession) -> None:
    """What there is, to its end."""
    for make in (appending, skipping, ignoring):
        target, name = make(spark)
        query = target.trigger(availableNow=True).start(f"{FOLDER}/{name}")
        if not query.awaitTermination(END_SECONDS):
            raise AssertionError(f"{name} finds no end: {query.lastProgress}")
    say("done")


def change(spark: SparkSession) -> None:
    """MERGE, OPTIMIZE and VACUUM side by side, each over and over."""
    chance = random.Random()

    def merge() -> str:
        first = chance.randrange(1 + ROWS * len(list((FOLDER / "feed").iterdir())))
        when = "WHEN MATCHED AND s.id % 5 = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET v = concat(t.v, '!')"
        rows = f"SELECT explode(sequence({first}, {first + chance.randrange(9)})) AS id"
        spark.sql(f"MERGE INTO {SOURCE} t USING ({rows}) s ON t.id = s.id {when}").collect()
        return "merged"

    def insert() -> str:
        """A MERGE that adds alone is no change of rows: its own are read."""
        rows = f"SELECT -{chance.randrange(1, 2**60)} AS id, 'a' AS v"
        spark.sql(f"MERGE INTO {SOURCE} t USING ({rows}) s ON t.id = s.id WHEN NOT MATCHED THEN INSERT *").collect()
        return "inserted"

    def optimize() -> str:
        spark.sql(f"OPTIMIZE {SOURCE}").collect()
        time.sleep(2)
        return "optimized"

    def vacuum() -> str:
        spark.sql(f"VACUUM {SOURCE}").collect()
        time.sleep(5)
        return "vacuumed"

    failures: list[BaseException] = []

    def repeat(*statements: Callable[[], str]) -> None:
        try:
            while not failures:
                try:
                    say(chance.choice(statements)())
                except DeltaConcurrentModificationException:
                    say("conflict")
        except BaseException as failure:
            failures.append(failure)

    threads = [
        threading.Thread(target=repeat, args=statements) for statements in ((merge, insert), (optimize,), (vacuum,))
    ]
    for thread in threads:
        thread.start()
    say("ready")
    for thread in threads:
        thread.join()
    raise failures[0]


def main() -> None:
    part = sys.argv[1]
    scratch = FOLDER / "scratch" / part
    scratch.mkdir(parents=True, exist_ok=True)
    try:
        spark = small_session(part, scratch=scratch, cores=1)
        if part == "append":
            run(spark, appending)
        elif part == "read":
            run(spark, skipping, ignoring)
        elif part == "change":
            change(spark)
        else:
            finish(spark)
            spark.stop()
    except BaseException:
        say("failed", traceback.format_exc())
        raise


if __name__ == "__main__":
    main()
