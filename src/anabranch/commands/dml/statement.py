"""A statement that changes rows: prepared by Spark jobs, committed, and executed again if the user allows it."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Self, TypeVar

from pyroaring import BitMap64

from anabranch.commands.table_access import TableRef, one_statement
from anabranch.errors.arguments import InvalidArgumentError
from anabranch.errors.commits import (
    AppendOnlyTableError,
    ConcurrentTransactionException,
    ConflictReason,
    MetadataChangedException,
)
from anabranch.progress.progress_events import begin_phase
from anabranch.protocol.actions import Action, SetTransaction
from anabranch.protocol.features import active, check_writable
from anabranch.snapshot.snapshot import Snapshot
from anabranch.spark.conditions.column_names import BoundAttributes, RowNames
from anabranch.spark.rows.cached_rows import CachedRows, release
from anabranch.spark.session.delta_session import DeltaSession
from anabranch.spark.session.session_settings import application_of, compacts_after_commits
from anabranch.spark.write.row_checks import typed_violations
from anabranch.storage.log_store import is_local
from anabranch.transactions.commit.commit_context import CommittedVersion
from anabranch.transactions.proposed_commit import OnNewColumns, already_written
from anabranch.transactions.read_set import FileKey
from anabranch.transactions.reserved_numbers import NumberRange
from anabranch.transactions.statement_retry import FIRST, Attempt, execute_with_retries
from anabranch.transactions.transaction import Transaction

LOGGER = logging.getLogger("anabranch.optimize")

RETRIES_SETTING = "spark.anabranch.conflictRetries"
"""How often a statement that lost to a true conflict is executed again; never by default."""

_TRANSACTION_VERSION = "spark.databricks.delta.write.txnVersion"
_AUTO_RESET = "spark.databricks.delta.write.txnVersion.autoReset.enabled"
_PHASES = {
    "materializeSourceTimeMs": "read the source",
    "scanTimeMs": "find rows",
    "rewriteTimeMs": "delete rows",
}
"""The phases of a statement, by the metric that measures each."""
T = TypeVar("T")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a statement did."""

    committed: CommittedVersion | None
    """None where the statement changed nothing."""
    num_affected_rows: int
    counts: Mapping[str, int] = dataclasses.field(default_factory=dict)
    """Rows by what a MERGE did with them: `updated`, `deleted`, `inserted`."""


NOTHING = Outcome(committed=None, num_affected_rows=0)
"""The outcome of a statement that its application has already committed."""


class Prepared:
    """A statement whose jobs have run and whose files are written: all of it but its commit.

    Closing it releases the rows that Spark has cached for it; use it in a `with` block.
    """

    def __init__(
        self,
        transaction: Transaction,
        actions: Sequence[Action],
        *,
        num_affected_rows: int,
        deleted_rows: Mapping[FileKey, BitMap64 | None] | None = None,
        counts: Mapping[str, int] | None = None,
        metrics: Mapping[str, int | str] | None = None,
        tags: Mapping[str, str] | None = None,
        edited_properties: frozenset[str] | None = None,
        on_new_columns: OnNewColumns | None = None,
        generated: Mapping[str, NumberRange] | None = None,
        cached: Sequence[CachedRows] = (),
    ) -> None:
        self.transaction = transaction
        self.actions = tuple(actions)
        self.num_affected_rows = num_affected_rows
        self.deleted_rows = dict(deleted_rows or {})
        self.counts = dict(counts or {})
        self.metrics = dict(metrics or {})
        self.tags = dict(tags or {})
        self.edited_properties = edited_properties
        self.on_new_columns = on_new_columns
        self.generated = dict(generated or {})
        """The numbers of identity columns in its files."""
        self._cached = tuple(cached)

    def commit(
        self,
        attempt: Attempt = FIRST,
        *,
        application: tuple[str, int] | None = None,
    ) -> Outcome:
        """Commit the statement, after the commits that landed first; without actions it commits nothing.

        `application` is the id of the application and the number of its write, which is never committed twice. Raises
        as `Transaction.commit` does.
        """
        committed = None
        actions = list(self.actions)
        if not actions:
            self.transaction.end_without_commit()
        if actions and application is not None:
            app_id, version = application
            if self.transaction.has_written(app_id=app_id, version=version):
                self.transaction.end_without_commit()
                return NOTHING
            actions.append(SetTransaction(app_id=app_id, version=version))
        if actions:
            committed = self.transaction.commit(
                actions,
                deleted_rows=self.deleted_rows,
                metrics={**self.metrics, **attempt.metrics()},
                tags={**self.tags, **attempt.tags()},
                edited_properties=self.edited_properties,
                on_new_columns=self.on_new_columns,
                generated=self.generated,
                reserved=attempt.reserved,
            )
        return Outcome(committed=committed, num_affected_rows=self.num_affected_rows, counts=self.counts)

    def close(self) -> None:
        """Release the cached rows, or in a transaction of several statements at its end."""
        self.transaction.when_ended(lambda: release(self._cached))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


Prepare = Callable[[Attempt], Prepared]
"""Does all of a statement but its commit, for one execution of it."""


@contextlib.contextmanager
def released_on_failure() -> Iterator[list[CachedRows]]:
    """A list for cached rows, which are released if the block fails; otherwise `Prepared` releases them."""
    cached: list[CachedRows] = []
    try:
        yield cached
    except BaseException:
        release(cached)
        raise


def run_statement(
    table: TableRef, operation: str, prepare: Prepare, *, conflict_retries: int | str | None = None
) -> Outcome:
    """Prepare a statement and commit it; after a conflict, again as often as the user allows.

    `operation` is its name in the history. `conflict_retries` overrides the session's setting.
    """
    with one_statement(table, operation):
        return _run_statement(table, prepare, conflict_retries)


def _run_statement(table: TableRef, prepare: Prepare, conflict_retries: int | str | None) -> Outcome:
    application = application_of({}, table.session)

    def run(attempt: Attempt) -> Outcome:
        if application is not None and already_written(table.latest(), app_id=application[0], version=application[1]):
            return NOTHING
        with typed_violations(), prepare(attempt) as prepared:
            return prepared.commit(attempt, application=application)

    try:
        outcome = run_with_conflict_retries(table, run, conflict_retries)
    except ConcurrentTransactionException as lost:
        if lost.reason is not ConflictReason.ALREADY_WRITTEN:
            raise
        return NOTHING
    if application is not None:
        _reset_application(table)
    compact_after(table, outcome.committed)
    return outcome


def compact_after(table: TableRef, committed: CommittedVersion | None) -> None:
    """Compact the partitions to which the commit has added files, if that is enabled and there are many small files.

    Raises only an interrupt by the user: the statement is committed, and a failed compaction does not undo it.
    """
    if committed is None or committed.is_part or committed.is_shared:
        return
    try:
        if compacts_after_commits(table.session, committed.snapshot.properties):
            # Most programs never compact a table.
            from anabranch.commands.optimize.auto_compaction import compact_small_files  # noqa: PLC0415

            compact_small_files(table, committed)
    except Exception:
        LOGGER.warning("%s: the compaction after version %d failed", table.label, committed.version, exc_info=True)


def run_with_conflict_retries(table: TableRef, run: Callable[[Attempt], T], conflict_retries: int | str | None) -> T:
    """What `run` returns, executed again after a conflict as often as the user allows. See `execute_with_retries`."""
    session = table.session
    retries_max = retries_allowed(session, conflict_retries)
    return execute_with_retries(run, retries_max=retries_max, random=session.random, sleep=session.clock.sleep_ms)


def version_to_read(table: TableRef, attempt: Attempt, names: RowNames = None) -> Snapshot:
    """The version that an execution reads: the newest, or the one in which numbers were reserved for it.

    The first execution reads as `version_looked_up` or `version_as_resolved` says. Another has lost to a commit since
    then, and would again.
    """
    if attempt.reserved is not None:
        return table.delta_log.snapshots.at_version(attempt.reserved.version)
    if attempt.number > 1:
        return table.latest()
    looked_up = version_looked_up(table, names.version) if isinstance(names, BoundAttributes) else None
    return looked_up or version_as_resolved(table, table.latest(), names)


def version_looked_up(table: TableRef, version: int | None) -> Snapshot | None:
    """The version that was looked up for a statement: on an object store, listing the log again costs a request.

    None if it is not known, as for a frame that was made before, and if this process has seen a newer one since. None
    also on a local disk, where a listing takes less time than the statement would have for other writers in between.
    """
    if version is None or is_local(table.path):
        return None
    newest = table.delta_log.snapshots.cached()
    return newest if newest is not None and newest.version == version else None


def version_as_resolved(table: TableRef, newest: Snapshot, names: RowNames) -> Snapshot:
    """The newest version or, where columns were added since that of a statement was looked up, the latter.

    The statement is then one that has begun before the columns were added, and its commit is judged as such.
    """
    if not isinstance(names, BoundAttributes) or names.version is None or not names.lacks_columns(newest):
        return newest
    return table.delta_log.snapshots.at_version(names.version)


def check_resolved(names: RowNames, snapshot: Snapshot) -> None:
    """Raises `SchemaChangedSinceAnalysisError` where the attributes are of other columns than the version has."""
    if isinstance(names, BoundAttributes):
        names.check(snapshot)


def retries_allowed(session: DeltaSession, conflict_retries: int | str | None = None) -> int:
    """How often a statement may be executed again; the argument overrides the session's setting."""
    argument = RETRIES_SETTING if conflict_retries is None else "conflictRetries"
    value = session.setting(RETRIES_SETTING, "0") if conflict_retries is None else conflict_retries
    if isinstance(value, bool) or not str(value).strip().isdecimal():
        problem = "it must be a whole number, 0 or more"
        raise InvalidArgumentError(argument=argument, value=str(value), problem=problem)
    return int(str(value))


def _reset_application(table: TableRef) -> None:
    """Unset the number of the write where the session lets it count for one statement only."""
    if table.session.flag(_AUTO_RESET, default=False):
        table.session.spark.conf.unset(_TRANSACTION_VERSION)


def check_may_change_rows(table: TableRef, snapshot: Snapshot, operation: str) -> None:
    """Raises a typed error for a table that is append-only, or that this release of anabranch cannot write."""
    check_writable(snapshot.protocol, table=table.label)
    if snapshot.properties.append_only:
        raise AppendOnlyTableError(table=table.label, operation=operation)


def check_same_table(table: TableRef, snapshot: Snapshot, *, table_id: str) -> None:
    """Check, between the commits of one statement, that the table has not been replaced by another.

    Raises `MetadataChangedException`.
    """
    if snapshot.metadata.id == table_id:
        return
    raise MetadataChangedException(
        table=table.label,
        version=None,
        operation="another program",
        read_version=snapshot.version,
        reason=ConflictReason.TABLE_REPLACED,
        where=f"table id {snapshot.metadata.id} instead of {table_id}",
        advice="Check that the new table is the one you mean, then run the operation again.",
    )


def uses_vectors(snapshot: Snapshot) -> bool:
    """Whether the table deletes rows by deletion vectors, without rewriting files."""
    return active(snapshot.protocol, "deletionVectors", properties=snapshot.properties)


class Stopwatch:
    """Measures the parts of a statement in milliseconds, for its metrics."""

    def __init__(self, table: TableRef) -> None:
        self._table = table
        self._clock = table.session.clock
        self._begin = self._clock.now_ms()
        self.parts: dict[str, int] = {}

    @contextlib.contextmanager
    def measured(self, name: str, *, phase: str | None = None) -> Iterator[None]:
        """Add the time that the block takes to the part of that name. The block is a phase of the statement."""
        begin_phase(phase or _PHASES[name])
        if name != "rewriteTimeMs":
            # Rows that are hidden need no job, and those that are written have a phase of their own.
            self._table.session.describe_jobs(self._table.label)
        begin = self._clock.now_ms()
        yield
        self.parts[name] = self.parts.get(name, 0) + self._clock.now_ms() - begin

    def metrics(self, *names: str) -> dict[str, int]:
        """`executionTimeMs`, which is the time since the stopwatch was made, and the named parts."""
        total = self._clock.now_ms() - self._begin
        return {"executionTimeMs": total, **{name: self.parts.get(name, 0) for name in names}}
