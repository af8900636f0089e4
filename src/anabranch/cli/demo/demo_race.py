"""The end of the demo: several processes change, delete, merge and compact the same files at once."""

from __future__ import annotations

import dataclasses
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anabranch.cli.demo.demo_writers import Landing, Loss, Statement, Writers, clash, race_of_writers, replayed
from anabranch.cli.output import count, listed
from anabranch.errors.arguments import DemoFailedError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Say = Callable[..., None]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RaceResult:
    """What the race did."""

    landings: tuple[tuple[Statement, Landing], ...]
    """In the order in which they were told."""
    losses: tuple[Loss, ...]

    def document(self) -> dict[str, Any]:
        """For programs."""
        return {
            "landings": [
                {"statement": statement.kind, **dataclasses.asdict(landing)} for statement, landing in self.landings
            ],
            "conflicts": [dataclasses.asdict(loss) for loss in self.losses],
        }

    def in_order(self) -> list[tuple[int, Statement]]:
        """Statements that changed the table, by version."""
        found = [(landing.version, statement) for statement, landing in self.landings if landing.version is not None]
        return sorted(found, key=lambda each: each[0])


def run_race(spark: SparkSession, writers: Writers, folder: Path, say: Say) -> RaceResult:
    """Let the writers race, tell it, and check that the result is that of the serial order.

    Raises `DemoFailedError`.
    """
    before = _newest(spark, folder)
    statements = race_of_writers()
    say()
    say("8. The race", style="bold")
    say(
        f"   Now the {len(statements)} writers change the same files at once: one updates, one deletes, one merges, one"
    )
    say("   compacts. Where a row is changed they hide the old one by a deletion vector; no file is copied.")
    landings = []
    for landing in writers.race(statements):
        statement = statements[writers.names.index(landing.writer)][landing.number]
        landings.append((statement, landing))
        _tell(statement, landing, say)
    reconciled = sum(1 for _, landing in landings if landing.landed_after)
    say(f"   {count(reconciled, 'commit')} landed behind others that had changed the same files; nobody was refused:")
    say("   only writers of the same rows conflict.")
    found, losses = _clash(writers, say)
    result = RaceResult(landings=(*landings, *found), losses=tuple(losses))
    _verify(spark, folder, result, since=before, say=say)
    return result


def _clash(writers: Writers, say: Say) -> tuple[list[tuple[Statement, Landing]], list[Loss]]:
    say()
    say("9. A true conflict", style="bold")
    statement = clash()
    say(f"   Two writers read the same version and update the same rows: {statement.words}.")
    landings, losses = [], []
    for event in writers.clash(statement):
        if isinstance(event, Loss):
            losses.append(event)
            say(f"   {event.writer} was refused with {event.error}:")
            for line in textwrap.wrap(event.message, 100):
                say(f"      {line}")
            say("   It executes its statement again, on what is there now:")
        else:
            landings.append((statement, event))
            _tell(statement, event, say)
    if len(losses) != 1:
        raise DemoFailedError(part="the true conflict", problem=f"{len(losses)} of two rivals were refused, not one")
    return landings, losses


def _tell(statement: Statement, landing: Landing, say: Say) -> None:
    if landing.version is None:
        say(f"   (no version)  {statement.kind:<8}  by {landing.writer}: {statement.words}: there was nothing to do")
        return
    say(f"   version {landing.version:>2}  {statement.kind:<8}  by {landing.writer}: {statement.words}")
    if landing.landed_after:
        versions = listed([str(version) for version in landing.landed_after])
        say(f"               read version {landing.read_version}, landed after {versions}")
    for line in landing.how:
        say(f"               {line}")


def _verify(spark: SparkSession, folder: Path, result: RaceResult, *, since: int, say: Say) -> None:
    say()
    say("10. Is it as if they had come one after the other?", style="bold")
    order = result.in_order()
    expected = replayed(spark, load(spark, folder, version=since), [statement for _, statement in order])
    table = load(spark, folder)
    rows = table.count()
    if rows != expected.count() or not table.exceptAll(expected).isEmpty():
        problem = "the table differs from what its statements give one after the other"
        raise DemoFailedError(part="the race", problem=problem)
    versions = f"{order[0][0]} to {order[-1][0]}"
    say(f"   Yes: the statements of versions {versions}, done one after the other by Spark without a table, give the")
    say(f"   same {rows:,} rows, value for value.")


def _newest(spark: SparkSession, folder: Path) -> int:
    from anabranch.tables import DeltaTable  # noqa: PLC0415 - only the demo loads Spark

    return int(DeltaTable.forPath(spark, str(folder)).history(1).collect()[0]["version"])


def load(spark: SparkSession, folder: Path, *, version: int | None = None) -> DataFrame:
    """The table, as it is or as it was."""
    reader = spark.read.format("delta")
    return (reader if version is None else reader.option("versionAsOf", version)).load(str(folder))
