"""The verdict in the end: are the results that actors got true, and is the log a serial order of what they did?"""

from __future__ import annotations

from collections.abc import Sequence

from anabranch.errors.base import DeltaError
from anabranch.errors.commits import DeltaConcurrentModificationException
from anabranch.snapshot.snapshot_cache import SnapshotCache
from concurrency.histories import Commit, Outcome, Refusal
from concurrency.judges import table_at_every_version, violations
from concurrency.played_table import PlayedTable
from concurrency.statements import Plan, Statement
from simulation.acts import Attempt, Change, Vacuum
from simulation.log_watch import LogWatch
from simulation.other_acts import GiveRowIds
from simulation.scenarios import Scenario


class Nothing(Statement):
    """A commit that changes nothing, as those of VACUUM."""

    def plan(self, rows: Sequence[object]) -> Plan:
        return Plan()


def problems_of_attempts(attempts: Sequence[Attempt], watch: LogWatch) -> list[str]:
    """What was acknowledged is in the log once, what was refused is not, and the rest at most once."""
    problems = []
    for attempt in attempts:
        at = [version for version in attempt.versions if not watch.commits[version].only_reserves]
        result = attempt.result
        if isinstance(attempt.act, Vacuum | GiveRowIds):
            continue
        if (
            result == "committed"
            and at != [attempt.version]
            and not (attempt.saw_drop and attempt.calls_failed and not at)
        ):
            # Where a check fails, a commit that was put at the moment of a drop counts as one right before it.
            problems.append(f"{attempt} was acknowledged as version {attempt.version}, and is in the log at {at}")
        elif result in ("conflict", "refused", "done") and at:
            problems.append(f"{attempt} has the result {result}, and is in the log at {at}: {attempt.error}")
        elif result == "unknown" and at not in ([], [attempt.version]):
            problems.append(f"{attempt} may be version {attempt.version}, and is in the log at {at}")
        elif len(at) > 1:
            problems.append(f"{attempt} is in the log at {at}")
        error = attempt.error
        if isinstance(error, DeltaConcurrentModificationException) and (error.version or 0) > attempt.newest_version:
            problems.append(f"{attempt} lost to version {error.version} of {attempt.newest_version}")
    return problems


def problems_of_log(scenario: Scenario, played: PlayedTable, watch: LogWatch, attempts: Sequence[Attempt]) -> list[str]:
    """The judges of histories, over all that was committed; and every version that is left can be read."""
    commits, refusals = [], []
    for version, kept in enumerate(watch.commits[1:], start=1):
        cause = kept.cause
        assert isinstance(cause, Attempt)
        running = cause.running
        if kept.only_reserves:
            statement = cause.reservations.get(version, Nothing())
            facts = (statement, Plan(), Nothing().effect([]), version - 1)
        elif isinstance(cause.act, Change) and running is not None:
            facts = (running.statement, running.plan, running.effect, running.read_version)
        else:
            facts = (Nothing(), Plan(), Nothing().effect([]), version - 1)
        statement, plan, effect, read = facts
        commits.append(
            Commit(number=version, statement=statement, read_version=read, version=version, plan=plan, effect=effect)
        )
    for attempt in attempts:
        running, error = attempt.running, attempt.error
        if running is not None and isinstance(error, DeltaConcurrentModificationException):
            refusals.append(
                Refusal(
                    number=attempt.number,
                    statement=running.statement,
                    read_version=running.read_version,
                    after=min(attempt.newest_version if error.version is None else error.version, watch.newest_version),
                    plan=running.plan,
                    effect=running.effect,
                    error=error,
                    calls_failed=attempt.calls_failed,
                )
            )
    outcome = Outcome(history=scenario.history, played=played, commits=tuple(commits), refusals=tuple(refusals))
    return violations(outcome, table_at_every_version(played)) + _problems_of_old_versions(watch)


def _problems_of_old_versions(watch: LogWatch) -> list[str]:
    if watch.is_dropped:
        return []
    snapshots = SnapshotCache(watch._disk, watch._clock)
    problems = []
    try:
        for version in range(max(snapshots.earliest_version(), watch.expired_upto + 1), watch.newest_version + 1):
            problems += watch.problems_of_snapshot(snapshots.at_version(version))
    except DeltaError as error:
        problems.append(f"an old version cannot be read: {type(error).__name__}: {error}")
    return problems
