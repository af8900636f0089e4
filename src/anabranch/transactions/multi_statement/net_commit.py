"""The commit of the net changes of several statements, with all of their reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from anabranch.protocol.actions import Action
from anabranch.transactions.commit.commit_context import CommittedVersion
from anabranch.transactions.conflicts.metadata_compatibility import moved_marks
from anabranch.transactions.multi_statement.open_transaction import TableInTransaction
from anabranch.transactions.proposed_commit import least_certain
from anabranch.transactions.transaction import Transaction


def commit_net_changes(
    transaction: Transaction,
    changed: TableInTransaction,
    actions: Sequence[Action],
    *,
    metrics: Mapping[str, int | str] | None = None,
    tags: Mapping[str, str] | None = None,
) -> CommittedVersion:
    """Commit `actions`, the net changes of the table, as one commit to the version that its first statement read.

    `transaction` is one on that version, and has no reads yet. Raises the errors of `Transaction.commit`.
    """
    assert transaction.snapshot is changed.base, "the net changes are those of the base"
    reads = changed.reads()
    for scan in reads.scans:
        transaction.record_scan(scan.predicate, files=scan.files, rows=scan.rows, reevaluate=scan.reevaluate)
    transaction.record_applications(reads.application_ids)
    transaction.describe_rows = next(
        (statement.proposal.describe_rows for statement in changed.statements if statement.proposal.describe_rows), None
    )
    described = [statement.proposal for statement in changed.statements if statement.proposal.metadata is not None]
    moves_marks = changed.net.metadata is not None and moved_marks(changed.base.metadata, changed.net.metadata)
    edits = moves_marks and all(proposal.edited_properties is not None for proposal in described)
    return transaction.commit(
        actions,
        deleted_rows=changed.net.named_rows,
        statements=[statement.on_base for statement in changed.statements],
        edited_properties=frozenset() if edits else None,
        on_new_columns=least_certain(statement.proposal for statement in changed.statements),
        metrics=metrics,
        tags=tags,
    )
