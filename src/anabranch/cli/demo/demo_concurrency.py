"""The end of the demo: several processes update, delete, merge and compact the same files at once."""

from __future__ import annotations

import dataclasses
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anabranch.cli.demo.demo_statements import Statement, conflicting_update, replayed, statements_by_writer
from anabranch.cli.demo.demo_writers import WriterCommit, WriterConflict, Writers
from anabranch.errors.arguments import DemoFailedError
from anabranch.text_format import count, listed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Say = Callable[..., None]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ConcurrentChanges:
    """The commits and conflicts of the concurrent writers."""

    commits: tuple[tuple[Statement, WriterCommit], ...]
    """Commits in the order in which the writers reported them, each with its statement."""
    conflicts: tuple[WriterConflict, ...]

    def document(self) -> dict[str, Any]:
        return {
            "landings": [
                {"statement": statement.kind, **dataclasses.asdict(commit)} for statement, commit in self.commits
            ],
            "conflicts": [dataclasses.asdict(conflict) for conflict in self.conflicts],
        }

    def in_order(self) -> list[tuple[int, Statement]]:
        """The statements that changed the table, each with its version, by version."""
        changes = [(commit.version, statement) for statement, commit in self.commits if commit.version is not None]
        return sorted(changes, key=lambda change: change[0])


def change_concurrently(spark: SparkSession, writers: Writers, folder: Path, say: Say) -> ConcurrentChanges:
    """Run the writers' statements at once, report them, and check that the result is that of a serial order.

    Raises `DemoFailedError`.
    """
    before = _newest(spark, folder)
    statements = statements_by_writer()
    say()
    say("8. Concurrent changes", style="bold")
    say(
        f"   Now the {len(statements)} writers change the same files at once: one updates, one deletes, one merges, one"
    )
    say("   compacts. Where a row is changed they hide the old one by a deletion vector; no file is copied.")
    commits = []
    for commit in writers.execute(statements):
        statement = statements[writers.names.index(commit.writer)][commit.number]
        commits.append((statement, commit))
        _say_commit(statement, commit, say)
    reconciled = sum(1 for _, commit in commits if commit.landed_after)
    say(f"   {count(reconciled, 'commit')} landed after others that had changed the same files. None was refused:")
    say("   only writers of the same rows conflict.")
    late_commits, conflicts = _conflict(writers, say)
    changes = ConcurrentChanges(commits=(*commits, *late_commits), conflicts=tuple(conflicts))
    _verify(spark, folder, changes, since=before, say=say)
    return changes


def _conflict(writers: Writers, say: Say) -> tuple[list[tuple[Statement, WriterCommit]], list[WriterConflict]]:
    say()
    say("9. A true conflict", style="bold")
    statement = conflicting_update()
    say(f"   Two writers read the same version and update the same rows: {statement.words}.")
    commits, conflicts = [], []
    for event in writers.conflict(statement):
        if isinstance(event, WriterConflict):
            conflicts.append(event)
            say(f"   {event.writer} was refused with {event.error}:")
            for line in textwrap.wrap(event.message, 100):
                say(f"      {line}")
            say("   It executes its statement again, on the newest version:")
        else:
            commits.append((statement, event))
            _say_commit(statement, event, say)
    if len(conflicts) != 1:
        raise DemoFailedError(
            part="the true conflict", problem=f"{len(conflicts)} of two writers were refused, not one"
        )
    return commits, conflicts


def _say_commit(statement: Statement, commit: WriterCommit, say: Say) -> None:
    if commit.version is None:
        say(f"   (no version)  {statement.kind:<8}  by {commit.writer}: {statement.words}: there was nothing to do")
        return
    say(f"   version {commit.version:>2}  {statement.kind:<8}  by {commit.writer}: {statement.words}")
    if commit.landed_after:
        versions = listed([str(version) for version in commit.landed_after])
        say(f"               read version {commit.read_version}, landed after {versions}")
    for line in commit.how:
        say(f"               {line}")


def _verify(spark: SparkSession, folder: Path, changes: ConcurrentChanges, *, since: int, say: Say) -> None:
    say()
    say("10. Is the result that of a serial order?", style="bold")
    order = changes.in_order()
    expected = replayed(spark, load(spark, folder, version=since), [statement for _, statement in order])
    table = load(spark, folder)
    rows = table.count()
    if rows != expected.count() or not table.exceptAll(expected).isEmpty():
        problem = "the table differs from the result of its statements one after the other"
        raise DemoFailedError(part="the concurrent changes", problem=problem)
    versions = f"{order[0][0]} to {order[-1][0]}"
    say(f"   Yes: the statements of versions {versions}, executed one after the other by Spark without a table, give")
    say(f"   the same {rows:,} rows, value for value.")


def _newest(spark: SparkSession, folder: Path) -> int:
    from anabranch.tables import DeltaTable  # noqa: PLC0415 - only the demo loads Spark

    return int(DeltaTable.forPath(spark, str(folder)).history(1).collect()[0]["version"])


def load(spark: SparkSession, folder: Path, *, version: int | None = None) -> DataFrame:
    """The table at its newest version, or at the one given."""
    reader = spark.read.format("delta")
    return (reader if version is None else reader.option("versionAsOf", version)).load(str(folder))
