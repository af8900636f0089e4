"""What a user can do about a conflict, by its reason and the kind of table."""

from __future__ import annotations

import dataclasses

from anabranch.errors.commits import ConcurrentAppendException, ConflictReason
from anabranch.protocol.property_table import IsolationLevel
from anabranch.transactions.conflicts.conflict_context import Conflict, ConflictContext
from anabranch.transactions.conflicts.description_rules import differences
from anabranch.transactions.conflicts.row_conflicts import has_row_level_concurrency

_NOT_AGAIN = (
    ConflictReason.APPLICATION_ID,
    ConflictReason.ALREADY_WRITTEN,
    ConflictReason.TABLE_REPLACED,
    ConflictReason.UNSUPPORTED_PROTOCOL,
)
"""Conflicts that another execution does not resolve."""
_OVER_DESCRIPTIONS = (ConflictReason.SCHEMA_OR_PARTITIONING, ConflictReason.BOTH_CHANGE_METADATA)
AGAIN = "Run the operation again, or let the session do so (spark.anabranch.conflictRetries)"
WHOLE_TRANSACTION_AGAIN = "Run the whole transaction again"
LET_TRANSACTION_RUN_AGAIN = (
    'anabranch.transact(spark, "t", work) runs it again after a conflict, and so does spark.anabranch.conflictRetries '
    "for a SQL script, BEGIN ATOMIC … END."
)
SAME_ROWS = f"Both operations are about the same rows, so one must read what the other has written. {AGAIN}."
ISOLATION = (
    "The table is Serializable, which orders this operation after every append that landed first. Run it again, or "
    "set 'delta.isolationLevel' = 'WriteSerializable', with which it may be ordered before a plain append."
)
NO_VECTORS = (
    "The table has no deletion vectors, so conflicts are decided by whole files, not by rows. Run the operation again; "
    "to let operations on different rows of a file commit without a conflict, set 'delta.enableDeletionVectors' = "
    "'true'. A condition on a partition column avoids such conflicts, too."
)
NOT_REPEATABLE = (
    "The condition cannot be evaluated again for single rows, because it has a subquery or is not deterministic, so "
    f"every row of the files that may match counts. {AGAIN}, or put the subquery's result into the condition as "
    "literals; instead of a correlated subquery, use MERGE with the other table as its source, which compares rows."
)
WHOLE_TABLE = (
    f"This operation depends on every row of the table, so any commit that lands first conflicts with it. {AGAIN}. "
)
REPLACES_ALL = "To replace a part only, use replaceWhere instead of overwrite."
READS_ALL = (
    "If it reads the table itself in a subquery or a source, compute that first: write a value as a literal, and rows "
    "to another table. To add rows that are missing in the table, use MERGE with WHEN NOT MATCHED THEN INSERT."
)
READS_ALL_IN_TRANSACTION = "Give its queries and statements conditions that select only the rows that they need."
OTHER_FILES = (
    f"{AGAIN}, or add a condition on a partition column, or on a column whose values differ between files, which shows "
    "that the two operations are about different rows."
)
TOO_LONG = (
    "So many rows landed first that comparing them took too long. Run the operation again: it then starts after them."
)
CYCLE = (
    "It could only be ordered before an append that another writer has already read. Run the operation again: it "
    "then comes after both."
)
UNMAPPED_WITHOUT_VECTORS = (
    "That commit moved rows to other files, and in a table without deletion vectors rows are not traced there. "
    f"{AGAIN}; set 'delta.enableDeletionVectors' = 'true', or compact the table at other times."
)
UNMAPPED = (
    f"That commit moved rows to other files and did not record their new positions. {AGAIN}; and compact the table "
    "with anabranch's OPTIMIZE, which records them, or at other times."
)


def with_advice(conflict: Conflict, context: ConflictContext) -> Conflict:
    """The conflict, with the part of the table that it is about and what the user can do."""
    where = conflict.where
    if where is None and conflict.reason in _OVER_DESCRIPTIONS and context.read.metadata and context.latest.metadata:
        where = differences(context.read.metadata, context.latest.metadata, table=context.latest.table)
    return dataclasses.replace(conflict, where=where, advice=advice_on(conflict, context))


def with_advice_on_transaction(conflict: Conflict, statement: str | None) -> Conflict:
    """The conflict of several statements, whose advice names what runs all of them again.

    `statement` is the one that has the conflict, in words; None where it is over the description of the table.
    """
    advice = conflict.advice if statement is None else f"It conflicts with {statement}. {conflict.advice}"
    if conflict.reason not in _NOT_AGAIN:
        # The session's setting runs single statements again, and scripts.
        advice = f"{advice.strip().replace(AGAIN, WHOLE_TRANSACTION_AGAIN)} {LET_TRANSACTION_RUN_AGAIN}"
    return dataclasses.replace(conflict, advice=advice)


def advice_on(conflict: Conflict, context: ConflictContext) -> str:
    """What the user can do. A conflict over the description of the table has its own advice."""
    match conflict.reason:
        case ConflictReason.ALLOTTED_TIME_EXCEEDED:
            return TOO_LONG
        case ConflictReason.REORDER_CYCLE:
            return CYCLE
        case ConflictReason.UNMAPPED_REWRITE:
            return UNMAPPED if has_row_level_concurrency(context) else UNMAPPED_WITHOUT_VECTORS
        case (
            ConflictReason.ROW_LEVEL_CHANGES
            | ConflictReason.WHOLE_TABLE_READ
            | ConflictReason.WITH_PARTITION_HINT
            | ConflictReason.WITHOUT_HINT
        ):
            return _on_rows(conflict, context)
        case _:
            return conflict.advice


def _on_rows(conflict: Conflict, context: ConflictContext) -> str:
    if _only_by_isolation(conflict, context):
        return ISOLATION
    if conflict.reason is ConflictReason.ROW_LEVEL_CHANGES:
        return SAME_ROWS
    if conflict.reason is ConflictReason.WHOLE_TABLE_READ:
        if context.ours.statements:
            return WHOLE_TABLE + READS_ALL_IN_TRANSACTION
        replaces = context.ours.operation.parameters.get("mode") == "Overwrite"
        return WHOLE_TABLE + (REPLACES_ALL if replaces else READS_ALL)
    if not has_row_level_concurrency(context):
        return NO_VECTORS
    if any(scan.reevaluate is None for scan in context.ours.reads.scans):
        return NOT_REPEATABLE
    return OTHER_FILES


def _only_by_isolation(conflict: Conflict, context: ConflictContext) -> bool:
    """Whether ours would be no conflict under `WriteSerializable`, which orders it before the added rows."""
    appended = conflict.error is ConcurrentAppendException and conflict.winner.is_blind_append
    strict = context.ours.isolation is IsolationLevel.SERIALIZABLE
    return appended and strict and context.ours.metadata is None
