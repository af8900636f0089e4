"""BEGIN TRANSACTION, COMMIT, ROLLBACK and savepoints: several statements on one table as one commit."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from anabranch.clock import random_uuid
from anabranch.commands.catalog_registration import register_if_changed
from anabranch.commands.dml.statement import compact_after
from anabranch.commands.multi_statement.net_feed import ChangedRows
from anabranch.commands.table_access import TableRef, one_statement
from anabranch.errors.commits import TransactionStateError
from anabranch.protocol.actions import AddCDCFile
from anabranch.spark.session.delta_session import DeltaSession
from anabranch.transactions.commit.commit_attempt import ROWS_KEPT_TAG
from anabranch.transactions.commit.commit_context import CommittedVersion
from anabranch.transactions.multi_statement.net_change_data import net_change_files
from anabranch.transactions.multi_statement.net_changes import NetChanges
from anabranch.transactions.multi_statement.net_commit import commit_net_changes
from anabranch.transactions.multi_statement.open_transaction import (
    ExecutedStatement,
    OpenTransaction,
    TableInTransaction,
    combined_tags,
)
from anabranch.transactions.proposed_commit import Operation
from anabranch.transactions.statement_retry import FIRST, Attempt, execute_with_retries

OPERATION = "TRANSACTION"
"""The name of the commit's operation in the history."""
_ROWS = {
    "numInsertedRows": {"WRITE": "numOutputRows", "MERGE": "numTargetRowsInserted"},
    "numUpdatedRows": {"UPDATE": "numUpdatedRows", "MERGE": "numTargetRowsUpdated"},
    "numDeletedRows": {"DELETE": "numDeletedRows", "MERGE": "numTargetRowsDeleted"},
}
"""The metrics of the commit that are sums over its statements, and their names there, by operation."""


def begin_transaction(session: DeltaSession, target: TableRef | None = None) -> OpenTransaction:
    """Begin a transaction of the session, with its table if that is known already.

    Raises `TransactionStateError` if the session has one.
    """
    if session.transaction is not None:
        raise TransactionStateError(
            operation="BEGIN TRANSACTION", problem="the session has a transaction; end it with COMMIT or ROLLBACK"
        )
    transaction = OpenTransaction(random_uuid(session.random), on_change=session.refresh_cached_rows)
    if target is not None:
        target.latest()
        transaction.choose_target(target.committed_log, target, "BEGIN TRANSACTION", label=target.label)
    session.transaction = transaction
    return transaction


def commit_transaction(session: DeltaSession, *, attempt: Attempt = FIRST) -> CommittedVersion | None:
    """Commit what the statements of the session's transaction have changed; None if they have changed nothing.

    The transaction has ended afterwards, also after a conflict. Raises `TransactionStateError` if there is none, and
    the errors of `Transaction.commit`.
    """
    transaction = _open_of(session, "COMMIT")
    # The statements of the commit itself, such as conditions that are evaluated again, read what others see, too.
    session.transaction = None
    try:
        return _committed(transaction, attempt)
    finally:
        transaction.end()


def roll_back_transaction(session: DeltaSession) -> None:
    """End the transaction of the session without a commit. Raises `TransactionStateError` if there is none."""
    transaction = _open_of(session, "ROLLBACK")
    session.transaction = None
    transaction.end()


def set_savepoint(session: DeltaSession, name: str) -> None:
    """Name the state of the transaction. Raises `TransactionStateError` without a transaction."""
    _open_of(session, "SAVEPOINT").set_savepoint(name)


def roll_back_to_savepoint(session: DeltaSession, name: str) -> None:
    """Undo the statements since the savepoint. Raises `TransactionStateError` where there is none of that name."""
    if not _open_of(session, "ROLLBACK TO").roll_back_to(name):
        raise TransactionStateError(operation=f"ROLLBACK TO {name}", problem=f"there is no savepoint {name}")


def release_savepoint(session: DeltaSession, name: str) -> None:
    """Forget the savepoint. Raises `TransactionStateError` where there is none of that name."""
    if not _open_of(session, "RELEASE SAVEPOINT").release_savepoint(name):
        raise TransactionStateError(operation=f"RELEASE SAVEPOINT {name}", problem=f"there is no savepoint {name}")


def run_transaction(
    session: DeltaSession, work: Callable[[], object], *, conflict_retries: int
) -> CommittedVersion | None:
    """Run `work` in a transaction and commit it, again after a conflict as often as is allowed."""

    def run(attempt: Attempt) -> CommittedVersion | None:
        begin_transaction(session)
        try:
            work()
        except BaseException:
            roll_back_transaction(session)
            raise
        return commit_transaction(session, attempt=attempt)

    return execute_with_retries(run, retries_max=conflict_retries, random=session.random, sleep=session.clock.sleep_ms)


def _open_of(session: DeltaSession, operation: str) -> OpenTransaction:
    if session.transaction is None:
        raise TransactionStateError(
            operation=operation, problem="the session has no transaction; begin one with BEGIN TRANSACTION"
        )
    return session.transaction


def _committed(transaction: OpenTransaction, attempt: Attempt) -> CommittedVersion | None:
    changed = transaction.target
    if changed is None or not changed.statements:
        return None
    table: TableRef = dataclasses.replace(transaction.reference, transaction=None)
    with one_statement(table, OPERATION):
        committed = _commit(table, changed, attempt)
    if table.entry is not None:
        register_if_changed(table, table.entry, committed)
    compact_after(table, committed)
    return committed


def _commit(table: TableRef, changed: TableInTransaction, attempt: Attempt) -> CommittedVersion | None:
    net, statements = changed.net, changed.statements
    change_files = net_change_files(changed, ChangedRows(table, changed.snapshot))
    actions = [*net.others, *net.files, *change_files]
    if not actions:
        return None
    parameters = {"statements": [_described(statement) for statement in statements]}
    transaction = table.begin_whole(Operation(name=OPERATION, parameters=parameters), snapshot=changed.base)
    return commit_net_changes(
        transaction,
        changed,
        actions,
        metrics={**_metrics(net, statements, change_files), **attempt.metrics()},
        tags={**combined_tags(statements, ROWS_KEPT_TAG), **attempt.tags()},
    )


def _described(statement: ExecutedStatement) -> dict[str, object]:
    """A statement for the history."""
    return {
        "operation": statement.operation,
        "operationParameters": dict(statement.parameters),
        "operationMetrics": dict(statement.metrics),
    }


def _metrics(
    net: NetChanges, statements: Iterable[ExecutedStatement], change_files: Iterable[AddCDCFile]
) -> Mapping[str, int]:
    """Rows as the statements count them, and files of the commit itself."""
    statements = tuple(statements)
    counts: Counter[str] = Counter()
    for statement in statements:
        for name, by_operation in _ROWS.items():
            counts[name] += int(statement.metrics.get(by_operation.get(statement.operation, ""), 0))
        counts["executionTimeMs"] += int(statement.metrics.get("executionTimeMs", 0))
    in_base = {path for path, _ in net.removes}
    new = [add for path, add in net.adds.items() if path not in in_base]
    gone = [remove for (path, _), remove in net.removes.items() if path not in net.adds]
    return {
        "numStatements": len(statements),
        **{name: counts[name] for name in (*_ROWS, "executionTimeMs")},
        "numAddedFiles": len(new),
        "numAddedBytes": sum(add.size for add in new),
        "numRemovedFiles": len(gone),
        "numRemovedBytes": sum(remove.size or 0 for remove in gone),
        "numDeletionVectorsAdded": sum(add.deletion_vector is not None for add in net.adds.values()),
        "numAddedChangeFiles": len(tuple(change_files)),
    }
