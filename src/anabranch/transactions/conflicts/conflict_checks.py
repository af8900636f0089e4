"""Whether a proposal conflicts with the commits that landed first. A conflict is returned, not raised."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from anabranch.errors.commits import (
    ConcurrentAppendException,
    ConcurrentTransactionException,
    ConflictReason,
    DeltaConcurrentModificationException,
    MetadataChangedException,
    ProtocolChangedException,
)
from anabranch.errors.protocol import UnsupportedFeatureError
from anabranch.protocol.actions import Metadata
from anabranch.protocol.features import check_writable, same_protocol, supported_features
from anabranch.transactions.conflicts.compaction_rebase import rebase_compaction
from anabranch.transactions.conflicts.conflict_context import Conflict, ConflictContext
from anabranch.transactions.conflicts.description_rules import file_incompatibility
from anabranch.transactions.conflicts.file_conflicts import added_files_conflict, removed_files_conflict
from anabranch.transactions.conflicts.metadata_compatibility import (
    changed_marks,
    harmful_features,
    harmful_properties,
    merged_metadata,
    redefining_properties,
    same_schema_and_layout,
    with_marks,
)
from anabranch.transactions.conflicts.rebase_report import Reconciliation
from anabranch.transactions.conflicts.row_conflicts import has_row_level_concurrency, judge_rows, rebase_by_rows
from anabranch.transactions.conflicts.winners import Winner
from anabranch.transactions.conflicts.write_serializable import (
    allows_new_columns,
    before_new_columns,
    new_columns_to_precede,
)
from anabranch.transactions.proposed_commit import ProposedCommit
from anabranch.transactions.rows.row_ids import ROW_TRACKING_DOMAIN

RUN_AGAIN = "Run the operation again on the new version."
USE_EXISTING_TABLE = "Run the operation again to work on the table that exists now."
UPGRADE = "This version of anabranch does not support that protocol: upgrade it, or use an engine that does."


def rebase(context: ConflictContext) -> ProposedCommit | Conflict:
    """Our proposal, rebased over all winners at once, or the first conflict."""
    conflict = description_conflict(context)
    rebased = conflict if conflict is not None else rebase_data(context)
    if isinstance(rebased, Conflict):
        return rebased
    taken = identity_columns(context)
    if taken is not None:
        return taken
    merged = _with_our_marks(context) or _metadata_of_both(context)
    if new_columns_to_precede(context) is not None:
        rebased = before_new_columns(rebased, context.winners)
    if merged is not None:
        actions = tuple(merged if isinstance(action, Metadata) else action for action in rebased.actions)
        rebased = dataclasses.replace(rebased, actions=actions)
    return context.latest.without_redundant(rebased)


def rebase_data(context: ConflictContext) -> ProposedCommit | Conflict:
    """The proposal with its data rebased: by rows on tables with row-level concurrency, else by files.

    Of several conflicts, added rows are reported before reads and deletes: that is Delta's order, and the exception
    that users catch and retry.
    """
    if context.ours.bins:
        return rebase_compaction(context)
    if context.ours.isolation is not None and has_row_level_concurrency(context):
        return rebase_by_rows(context)
    ignored = added_files_conflict(context)
    if isinstance(ignored, Conflict):
        return ignored
    conflict = removed_files_conflict(context)
    if conflict is not None:
        return conflict
    reconciliation = Reconciliation(serialized_before=tuple(winner.version for winner in ignored))
    return context.ours.with_tags(reconciliation.tags())


def conflicting_statement(context: ConflictContext) -> str | None:
    """Which statement of ours has the conflict over data, in words; None where ours is a single statement."""
    if not context.ours.statements or description_conflict(context) is not None:
        return None
    for number, statement in enumerate(context.ours.statements, start=1):
        if _has_data_conflict(dataclasses.replace(context, ours=statement, no_matches=set())):
            return f"statement {number} of the transaction, {statement.operation.name}"
    return "a query of the transaction, or a statement that failed"


def _has_data_conflict(context: ConflictContext) -> bool:
    if has_row_level_concurrency(context):
        return isinstance(judge_rows(context), Conflict)
    added = added_files_conflict(context)
    return isinstance(added, Conflict) or removed_files_conflict(context) is not None


def description_conflict(context: ConflictContext) -> Conflict | None:
    """The first conflict over the description of the table. Cheapest checks first."""
    return (
        table_created(context)
        or table_replaced(context)
        or protocol_changed(context)
        or metadata_changed(context)
        or metadata_domains(context)
        or domains_read(context)
        or application_ids(context)
        or operation_conflict(context)
        or incompatible_files(context)
    )


def table_created(context: ConflictContext) -> Conflict | None:
    """The conflict where ours began without a table, and now one exists."""
    if context.read.version >= 0:
        return None
    return Conflict(
        error=ProtocolChangedException,
        winner=context.winners[0],
        reason=ConflictReason.TABLE_CREATED,
        advice=USE_EXISTING_TABLE,
    )


def table_replaced(context: ConflictContext) -> Conflict | None:
    """The conflict where another table has replaced the one that ours read."""
    before, after = context.read.metadata, context.latest.metadata
    if before is None or after is None or before.id == after.id:
        return None
    return Conflict(
        error=MetadataChangedException,
        winner=_last(context, lambda winner: winner.metadata is not None),
        reason=ConflictReason.TABLE_REPLACED,
        where=f"table id {after.id} instead of {before.id}",
        advice="Check that the new table is the one you mean, then run the operation again.",
    )


def protocol_changed(context: ConflictContext) -> Conflict | None:
    """The conflict where winners dropped features that ours may use, or added features that ours may not obey."""
    before, after = context.read.protocol, context.latest.protocol
    if before is None or after is None or same_protocol(before, after):
        return None
    dropped, added = harmful_features(supported_features(before), supported_features(after))
    ours = context.ours.protocol
    winner = _last(context, lambda winner: winner.protocol is not None)
    try:
        check_writable(after, table=context.latest.table)
    except UnsupportedFeatureError as unknown:
        return Conflict(
            error=ProtocolChangedException,
            winner=winner,
            reason=ConflictReason.UNSUPPORTED_PROTOCOL,
            where=_protocol_in_words(unknown),
            advice=UPGRADE,
        )
    if ours is not None and not same_protocol(ours, after):
        reason, where = ConflictReason.BOTH_CHANGE_PROTOCOL, None
    elif dropped:
        reason, where = ConflictReason.FEATURES_DROPPED, f"dropped {', '.join(dropped)}"
    elif added:
        reason, where = ConflictReason.FEATURES_ADDED, f"added {', '.join(added)}"
    else:
        return None
    return Conflict(error=ProtocolChangedException, winner=winner, reason=reason, where=where, advice=RUN_AGAIN)


def _protocol_in_words(unknown: UnsupportedFeatureError) -> str:
    versions = f"reader version {unknown.min_reader_version}, writer version {unknown.min_writer_version}"
    return f"{versions}, with {', '.join(unknown.features)}" if unknown.features else versions


def metadata_changed(context: ConflictContext) -> Conflict | None:
    """The conflict where winners changed schema, partitioning or a property in a way that may make ours wrong."""
    before, after, ours = context.read.metadata, context.latest.metadata, context.ours.metadata
    if before is None or after is None or before == after:
        return None
    redefines_table = ours is not None and not context.marks_of_ours
    if redefines_table and ours != after and _metadata_of_both(context) is not None:
        return None
    if redefines_table and ours != after:
        reason, where = ConflictReason.BOTH_CHANGE_METADATA, None
    elif redefines_table:
        return None
    elif not same_schema_and_layout(before, after) and not allows_new_columns(context):
        reason, where = ConflictReason.SCHEMA_OR_PARTITIONING, None
    elif harmful := harmful_properties(before.configuration, after.configuration):
        reason, where = ConflictReason.TABLE_PROPERTIES, ", ".join(harmful)
    else:
        return None
    winner = _last(context, lambda winner: winner.metadata is not None)
    return Conflict(error=MetadataChangedException, winner=winner, reason=reason, where=where, advice=RUN_AGAIN)


def _metadata_of_both(context: ConflictContext) -> Metadata | None:
    """The metadata with our edits and those of winners; None where one of them has none, or they do not commute."""
    before, after, ours = context.read.metadata, context.latest.metadata, context.ours.metadata
    edited = context.ours.edited_properties
    if edited is None or before is None or after is None or ours is None or before == after:
        return None
    return merged_metadata(before, after, ours, edited=edited)


def _with_our_marks(context: ConflictContext) -> Metadata | None:
    """The newest metadata with the marks of the values that ours has generated; None where it has none."""
    marks, after = context.marks_of_ours, context.latest.metadata
    return with_marks(after, marks) if marks and after is not None else None


def identity_columns(context: ConflictContext) -> Conflict | None:
    """The conflict of two commits that have generated values of one identity column: they may be the same values.

    It is the last check: a conflict that has this reason has no other, so that numbers of its own mend it.
    """
    before, ours = context.read.metadata, context.ours
    if before is None or not ours.changes_data:
        return None
    columns = context.numbers_not_covered
    if ours.metadata is not None and (moved := changed_marks(before, ours.metadata)):
        # A mark that one winner moves and another one takes back counts as well.
        described = [winner.metadata for winner in context.winners if winner.metadata is not None]
        columns |= moved & set[str]().union(*(changed_marks(before, after) for after in described))
    if not columns:
        return None
    return Conflict(
        error=MetadataChangedException,
        winner=_last(context, lambda winner: winner.metadata is not None),
        reason=ConflictReason.IDENTITY_COLUMNS,
        where=f"identity column {', '.join(sorted(columns))}",
        advice="Both have generated the same values of the column. " + RUN_AGAIN,
    )


def metadata_domains(context: ConflictContext) -> Conflict | None:
    """The conflict where ours and a winner change the same domain, such as clustering. See "Domain Metadata"."""
    for winner in context.winners:
        for name, domain in context.ours.domain_metadata.items():
            theirs = winner.domain_metadata.get(name)
            if theirs is not None and theirs != domain and name != ROW_TRACKING_DOMAIN:
                return Conflict(
                    error=MetadataChangedException,
                    winner=winner,
                    reason=ConflictReason.METADATA_DOMAIN,
                    where=f"metadata domain {name}",
                    advice=RUN_AGAIN,
                )
    return None


def domains_read(context: ConflictContext) -> Conflict | None:
    """The conflict where a winner changed a domain, and ours redefines columns, partitions or properties.

    Otherwise a column could be dropped by which a winner has just clustered the table, or a domain that a REPLACE would
    have removed could survive it.
    """
    if not redefines(context):
        return None
    for winner in context.winners:
        for name in winner.domain_metadata.keys() - {ROW_TRACKING_DOMAIN} - context.ours.domain_metadata.keys():
            return Conflict(
                error=MetadataChangedException,
                winner=winner,
                reason=ConflictReason.METADATA_DOMAIN,
                where=f"metadata domain {name}",
                advice=RUN_AGAIN,
            )
    return None


def redefines(context: ConflictContext) -> bool:
    """Whether ours changes columns, partitions or properties that data files depend on, or replaces the description.

    A REPLACE counts as having read the rows that it removes, also of a table without rows.
    """
    before, ours = context.read.metadata, context.ours.metadata
    if before is None or ours is None or context.marks_of_ours:
        return False
    only_edits = ours != before and ours.id == before.id and same_schema_and_layout(before, ours)
    redefining = redefining_properties(before.configuration, ours.configuration)
    return not only_edits or bool(redefining) or context.ours.changes_data or bool(context.ours.reads.scans)


def incompatible_files(context: ConflictContext) -> Conflict | None:
    """The conflict where a winner added a file that does not fit the description which ours gives the table.

    Statements on the description check the existing files; this checks those that were added since.
    """
    ours, latest = context.ours, context.latest
    metadata, protocol = ours.metadata or latest.metadata, ours.protocol or latest.protocol
    if (ours.metadata is None and ours.protocol is None) or metadata is None or protocol is None:
        return None
    for winner in context.winners:
        for add in winner.adds:
            where = file_incompatibility(add, metadata, protocol) if add.key in latest.added else None
            if where is not None:
                return Conflict(
                    error=ConcurrentAppendException,
                    winner=winner,
                    reason=ConflictReason.RULED_OUT,
                    where=where,
                    advice=RUN_AGAIN,
                )
    return None


def application_ids(context: ConflictContext) -> Conflict | None:
    """The conflict where a winner records progress of an application whose progress ours records or has read.

    Of several winners, the one with the highest version shows whether this very write is in the table already.
    """
    ours = context.ours.set_transactions
    for app_id in sorted(context.ours.reads.application_ids | ours.keys()):
        recording = [winner for winner in context.winners if app_id in winner.set_transactions]
        if not recording:
            continue
        furthest = _furthest(recording, app_id)
        theirs = furthest.set_transactions[app_id]
        written = app_id in ours and theirs.version >= ours[app_id].version
        return Conflict(
            error=ConcurrentTransactionException,
            winner=furthest,
            reason=ConflictReason.ALREADY_WRITTEN if written else ConflictReason.APPLICATION_ID,
            where=f"application id {app_id}, version {theirs.version}",
            advice=(
                "The table already has this write: skip it. If the id is a stream's, two runs share one checkpoint."
                if written
                else "Two runs share one application id or checkpoint: stop one of them."
            ),
        )
    return None


def _furthest(winners: Sequence[Winner], app_id: str) -> Winner:
    return max(winners, key=lambda winner: (winner.set_transactions[app_id].version, winner.version))


def operation_conflict(context: ConflictContext) -> Conflict | None:
    """The conflict by the check that the operation itself has brought along, `conflicts_with`."""
    if context.ours.conflicts_with is None:
        return None
    for winner in context.winners:
        where = context.ours.conflicts_with(winner.commit)
        if where is not None:
            changes_metadata = winner.metadata is not None
            return Conflict(
                error=MetadataChangedException if changes_metadata else DeltaConcurrentModificationException,
                winner=winner,
                reason=ConflictReason.RULED_OUT,
                where=where,
                advice=RUN_AGAIN,
            )
    return None


def _last(context: ConflictContext, is_meant: Callable[[Winner], bool]) -> Winner:
    """The newest winner that satisfies the condition; there must be one."""
    return next(winner for winner in reversed(context.winners) if is_meant(winner))
