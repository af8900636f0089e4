"""Whether a proposal may stand behind the commits that landed first. Nothing is raised for a conflict."""

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
from anabranch.protocol.actions import Action, Metadata, Protocol
from anabranch.protocol.column_rules import IDENTITY_PREFIX
from anabranch.protocol.features import check_writable, supported_features
from anabranch.transaction.conflicts.compaction_rebase import rebase_compaction
from anabranch.transaction.conflicts.conflict_context import Conflict, ConflictContext
from anabranch.transaction.conflicts.description_rules import file_incompatibility
from anabranch.transaction.conflicts.file_conflicts import added_files_conflict, removed_files_conflict
from anabranch.transaction.conflicts.latest_state import LatestState
from anabranch.transaction.conflicts.metadata_compatibility import (
    harmful_features,
    harmful_properties,
    merged_metadata,
    same_schema_and_layout,
)
from anabranch.transaction.conflicts.rebase_report import Reconciliation
from anabranch.transaction.conflicts.row_conflicts import has_row_level_concurrency, rebase_by_rows
from anabranch.transaction.conflicts.winners import Winner
from anabranch.transaction.proposed_commit import ProposedCommit
from anabranch.transaction.rows.row_ids import ROW_TRACKING_DOMAIN

RUN_AGAIN = "Run the operation again on the new version."
USE_WHAT_IS_THERE = "Run the operation again to work on the table that is there now."
UPGRADE = "This anabranch does not know that protocol: upgrade it, or use an engine that does."


def rebase(context: ConflictContext) -> ProposedCommit | Conflict:
    """Our proposal, made to fit behind all winners at once, or the first thing that stands in the way."""
    conflict = description_conflict(context)
    fitting = conflict if conflict is not None else rebase_data(context)
    if isinstance(fitting, Conflict):
        return fitting
    merged = _metadata_of_both(context)
    if merged is not None:
        actions = tuple(merged if isinstance(action, Metadata) else action for action in fitting.actions)
        fitting = dataclasses.replace(fitting, actions=actions)
    return drop_redundant_actions(fitting, context.latest)


def rebase_data(context: ConflictContext) -> ProposedCommit | Conflict:
    """By rows where they can be told apart, else by files.

    Where several conflicts apply, rows that were added are reported before what was read and what is deleted: that is
    Delta's order, and what users catch and run again.
    """
    if context.ours.bins:
        return rebase_compaction(context)
    if context.ours.isolation is not None and has_row_level_concurrency(context):
        return rebase_by_rows(context)
    ignored = added_files_conflict(context)
    if isinstance(ignored, Conflict):
        return ignored
    gone = removed_files_conflict(context)
    if gone is not None:
        return gone
    reconciliation = Reconciliation(serialized_before=tuple(winner.version for winner in ignored))
    return context.ours.with_tags(reconciliation.tags())


def description_conflict(context: ConflictContext) -> Conflict | None:
    """What follows from the actions that describe the table. Cheap checks before dear ones."""
    return (
        table_created(context)
        or table_replaced(context)
        or protocol_changed(context)
        or metadata_changed(context)
        or identity_columns(context)
        or metadata_domains(context)
        or domains_read(context)
        or application_ids(context)
        or operation_conflict(context)
        or incompatible_files(context)
    )


def drop_redundant_actions(ours: ProposedCommit, latest: LatestState) -> ProposedCommit:
    """Leave out what the table says already: metadata, protocol and domains equal to those at `latest`.

    So two writers that ask for the same change both succeed.
    """
    repeated: list[Action | None] = []
    if ours.metadata is not None and ours.metadata == latest.metadata:
        repeated.append(ours.metadata)
    if ours.protocol is not None and latest.protocol is not None and _same_protocol(ours.protocol, latest.protocol):
        repeated.append(ours.protocol)
    repeated += [domain for name, domain in ours.domain_metadata.items() if latest.domain_metadata.get(name) == domain]
    return ours.without(*repeated)


def table_created(context: ConflictContext) -> Conflict | None:
    """We began when there was no table, and now there is one."""
    if context.read.version >= 0:
        return None
    return Conflict(
        error=ProtocolChangedException,
        winner=context.winners[0],
        reason=ConflictReason.TABLE_CREATED,
        advice=USE_WHAT_IS_THERE,
    )


def table_replaced(context: ConflictContext) -> Conflict | None:
    """Another table has taken the place of the one we read."""
    before, after = context.read.metadata, context.latest.metadata
    if before is None or after is None or before.id == after.id:
        return None
    return Conflict(
        error=MetadataChangedException,
        winner=_last(context, lambda winner: winner.metadata is not None),
        reason=ConflictReason.TABLE_REPLACED,
        where=f"table id {after.id} in the place of {before.id}",
        advice="Check that the new table is the one you mean, then run the operation again.",
    )


def protocol_changed(context: ConflictContext) -> Conflict | None:
    """Features were dropped that ours may use, or added that ours may not keep to."""
    before, after = context.read.protocol, context.latest.protocol
    if before is None or after is None or _same_protocol(before, after):
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
    if ours is not None and not _same_protocol(ours, after):
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
    """Schema, partitioning or a property changed in a way that ours does not know of."""
    before, after, ours = context.read.metadata, context.latest.metadata, context.ours.metadata
    if before is None or after is None or before == after:
        return None
    if ours is not None and ours != after and _metadata_of_both(context) is not None:
        return None
    if ours is not None and ours != after:
        reason, where = ConflictReason.BOTH_CHANGE_METADATA, None
    elif ours is not None:
        return None
    elif not same_schema_and_layout(before, after):
        reason, where = ConflictReason.SCHEMA_OR_PARTITIONING, None
    elif harmful := harmful_properties(before.configuration, after.configuration):
        reason, where = ConflictReason.TABLE_PROPERTIES, ", ".join(harmful)
    else:
        return None
    winner = _last(context, lambda winner: winner.metadata is not None)
    return Conflict(error=MetadataChangedException, winner=winner, reason=reason, where=where, advice=RUN_AGAIN)


def _metadata_of_both(context: ConflictContext) -> Metadata | None:
    """Where ours edits single things of a description that winners have edited, too, and the two commute."""
    before, after, ours = context.read.metadata, context.latest.metadata, context.ours.metadata
    edited = context.ours.edited_properties
    if edited is None or before is None or after is None or ours is None or before == after:
        return None
    return merged_metadata(before, after, ours, edited=edited)


def identity_columns(context: ConflictContext) -> Conflict | None:
    """Tables with identity columns admit no concurrent writes: the next value is part of their schema."""
    metadata = context.read.metadata
    if metadata is None or IDENTITY_PREFIX not in metadata.schema_string or not context.ours.changes_data:
        return None
    winner = next((winner for winner in context.winners if winner.changes_data), None)
    if winner is None:
        return None
    return Conflict(
        error=MetadataChangedException,
        winner=winner,
        reason=ConflictReason.IDENTITY_COLUMNS,
        advice="The table has identity columns, so its writers must take turns. " + RUN_AGAIN,
    )


def metadata_domains(context: ConflictContext) -> Conflict | None:
    """Both change one domain, such as the clustering columns. See "Domain Metadata"."""
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
    """A winner changed a domain by which a statement must go that changes what columns, partitions or properties are.

    So a column is not dropped by which the table has just been clustered, and what a replacement would have removed
    does not outlive it.
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
    """Whether ours gives the table other columns, partitions or properties that matter, or states all of it anew.

    A REPLACE counts as having read the rows that it removes, even where the table had none.
    """
    before, ours = context.read.metadata, context.ours.metadata
    if before is None or ours is None:
        return False
    only_edits = ours != before and ours.id == before.id and same_schema_and_layout(before, ours)
    harmful = harmful_properties(before.configuration, ours.configuration)
    return not only_edits or bool(harmful) or context.ours.changes_data or context.ours.reads.reads_rows


def incompatible_files(context: ConflictContext) -> Conflict | None:
    """A winner brought a file that does not fit the description which ours gives the table.

    Statements on the description look at the files that are there, and here at those that came since.
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
    """A winner carries progress of an application whose progress ours carries or has looked up.

    Of several, the furthest says whether this very write has landed.
    """
    ours = context.ours.set_transactions
    watched = context.ours.reads.application_ids | ours.keys()
    for app_id in sorted(watched):
        told = [winner for winner in context.winners if app_id in winner.set_transactions]
        if not told:
            continue
        furthest = _furthest(told, app_id)
        theirs = furthest.set_transactions[app_id]
        written = app_id in ours and theirs.version >= ours[app_id].version
        return Conflict(
            error=ConcurrentTransactionException,
            winner=furthest,
            reason=ConflictReason.ALREADY_WRITTEN if written else ConflictReason.APPLICATION_ID,
            where=f"application id {app_id}, version {theirs.version}",
            advice=(
                "The table has this write already: skip it. If the id is a stream's, two runs share one checkpoint."
                if written
                else "Two runs share one application id or checkpoint: stop one of them."
            ),
        )
    return None


def _furthest(winners: Sequence[Winner], app_id: str) -> Winner:
    return max(winners, key=lambda winner: (winner.set_transactions[app_id].version, winner.version))


def operation_conflict(context: ConflictContext) -> Conflict | None:
    """A winner did what ours is right only without."""
    if context.ours.conflicts_with is None:
        return None
    for winner in context.winners:
        where = context.ours.conflicts_with(winner.commit)
        if where is not None:
            described = winner.metadata is not None
            return Conflict(
                error=MetadataChangedException if described else DeltaConcurrentModificationException,
                winner=winner,
                reason=ConflictReason.RULED_OUT,
                where=where,
                advice=RUN_AGAIN,
            )
    return None


def _last(context: ConflictContext, is_meant: Callable[[Winner], bool]) -> Winner:
    """The newest winner that is meant; there is one."""
    return next(winner for winner in reversed(context.winners) if is_meant(winner))


def _same_protocol(one: Protocol, other: Protocol) -> bool:
    versions = one.min_reader_version == other.min_reader_version and one.min_writer_version == other.min_writer_version
    return versions and supported_features(one) == supported_features(other)
