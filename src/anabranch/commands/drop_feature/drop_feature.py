"""DROP FEATURE removes a table feature from the protocol, once nothing uses it any more.

Every step is a commit after which the table is valid and has the same rows. A step first checks what is left to do, so
that a statement that was stopped continues when it is run again. The table supports the feature until the last step;
the steps before remove its uses (`feature_cleanup`). The commit that drops the feature conflicts with every commit that
used it meanwhile.
"""

from __future__ import annotations

import dataclasses
import logging

import msgspec

from anabranch.commands.alter.alter_properties import alter_set_properties
from anabranch.commands.dml.statement import check_same_table
from anabranch.commands.drop_feature.feature_history import (
    checkpoint_if_possible,
    commit_with_checkpoint,
    has_checkpoint_after,
    last_version_with,
    protect_history,
    removable_from,
    truncate_history,
)
from anabranch.commands.drop_feature.feature_registry import REMOVALS, FeatureRemoval
from anabranch.commands.drop_feature.feature_usage import newest_v2_checkpoint
from anabranch.commands.table_access import TableRef, reports_progress
from anabranch.errors.alterations import (
    FeatureDropError,
    FeatureInHistoryError,
    FeatureNotSupportedByTableError,
    PermanentFeatureError,
    UnknownFeatureDropError,
)
from anabranch.errors.commits import DeltaConcurrentModificationException
from anabranch.log.commit_files import Commit
from anabranch.log.log_segment import LogListing, list_log
from anabranch.progress.progress_events import begin_phase
from anabranch.protocol.actions import Action
from anabranch.protocol.features import (
    FEATURES,
    FEATURES_BY_LOWER_NAME,
    FeatureKind,
    check_writable,
    supported_features,
)
from anabranch.protocol.properties import FEATURE_PREFIX
from anabranch.protocol.protocol_evolution import protocol_of
from anabranch.snapshot.snapshot import Snapshot
from anabranch.transactions.commit.commit_attempt import CHECKPOINT_PROTECTION, PROTECTED_BEFORE
from anabranch.transactions.commit.commit_context import CommittedVersion
from anabranch.transactions.proposed_commit import Operation

LOGGER = logging.getLogger("anabranch.features")
ROUNDS_MAX = 5
"""How often it starts again after conflicts with writers that use the feature or change the table otherwise."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PreparedDrop:
    """A feature that nothing uses any more, ready for the commit that drops it."""

    table: TableRef
    feature: str
    snapshot: Snapshot
    """The version after which no commit may use the feature."""
    truncates_history: bool
    protects_history: bool

    @property
    def in_use(self) -> str | None:
        """A use of the feature that a writer added after the clean-up, in words; None for none."""
        return REMOVALS[self.feature].used_in_version(self.snapshot)

    def commit(self) -> CommittedVersion:
        """Drop it. Raises `DeltaConcurrentModificationException` where a commit that landed first uses it."""
        actions = downgrade(self.snapshot, self.feature, protects_history=self.protects_history)
        parameters = {"featureName": self.feature, "truncateHistory": self.truncates_history}
        transaction = self.table.begin_at(Operation(name="DROP FEATURE", parameters=parameters), snapshot=self.snapshot)
        committed = transaction.commit(actions, conflicts_with=self._use_in)
        if self.protects_history:
            checkpoint_if_possible(self.table, committed.snapshot)
        return committed

    def _use_in(self, commit: Commit) -> str | None:
        uses = map(REMOVALS[self.feature].used_in_action, commit.actions)
        return next((use for use in uses if use is not None), None)


@reports_progress("DROP FEATURE")
def drop_feature(table: TableRef, feature: str, *, truncates_history: bool) -> CommittedVersion:
    """Remove the uses of the feature, protect or truncate the history, and drop it. Raises as `alter_drop_feature`."""
    in_use: str | None = None
    table_id = table.latest().metadata.id
    for number in range(1, ROUNDS_MAX + 1):
        check_same_table(table, table.latest(), table_id=table_id)
        try:
            prepared = prepare_drop(table, feature, truncates_history=truncates_history)
            in_use = prepared.in_use
            if in_use is None:
                return prepared.commit()
            LOGGER.info("%s: %s is in use again: %s", table.label, feature, in_use)
        except DeltaConcurrentModificationException as lost:
            if number == ROUNDS_MAX:
                raise
            LOGGER.info("%s: dropping %s begins again: %s", table.label, feature, lost)
    reason = f"other writers continue to use it: {in_use}. Stop them, then run it again"
    raise FeatureDropError(table=table.label, feature=feature, reason=reason)


def prepare_drop(table: TableRef, feature: str, *, truncates_history: bool) -> PreparedDrop:
    """Do everything up to the commit that drops the feature. Raises as `alter_drop_feature`."""
    name = _checked_name(table, feature, truncates_history=truncates_history)
    removal = REMOVALS[name]
    begin_phase(f"remove uses of {name}")
    removal.clean_up(table)
    protects = removal.used_in_history is not None and not truncates_history
    if truncates_history:
        begin_phase("truncate the history")
        snapshot = _without_history(table, name, removal)
    else:
        snapshot = protect_history(table) if protects else table.latest()
    return PreparedDrop(
        table=table,
        feature=name,
        snapshot=snapshot,
        truncates_history=truncates_history,
        protects_history=protects,
    )


def downgrade(snapshot: Snapshot, name: str, *, protects_history: bool) -> list[Action]:
    """The actions that remove the feature from the protocol of `snapshot`, with its properties and its domain."""
    removal = REMOVALS[name]
    features = supported_features(snapshot.protocol) - {name}
    configuration = {
        key: value for key, value in snapshot.metadata.configuration.items() if key not in removal.properties
    }
    if protects_history:
        features |= {CHECKPOINT_PROTECTION}
        configuration[PROTECTED_BEFORE] = str(snapshot.version + 1)
    domains = [domain for domain in snapshot.domain_metadata.values() if domain.domain == removal.domain]
    actions: list[Action] = [
        protocol_of(features),
        *(msgspec.structs.replace(domain, removed=True) for domain in domains),
    ]
    if configuration != snapshot.metadata.configuration:
        actions.append(msgspec.structs.replace(snapshot.metadata, configuration=configuration))
    return actions


def _checked_name(table: TableRef, feature: str, *, truncates_history: bool) -> str:
    """The name of the feature as the protocol spells it. Raises a `FeatureDropError` where it cannot be dropped."""
    snapshot = table.latest()
    check_writable(snapshot.protocol, table=table.label)
    have = supported_features(snapshot.protocol)
    row = FEATURES_BY_LOWER_NAME.get(feature.lower())
    name = row.name if row is not None else feature
    if name not in have:
        absent = UnknownFeatureDropError if row is None else FeatureNotSupportedByTableError
        raise absent(table=table.label, feature=feature, features=tuple(sorted(have)))
    dependent = sorted(other for other in have if other in FEATURES and name in FEATURES[other].requires)
    if dependent:
        raise _refused(table, name, f"{', '.join(dependent)} needs it; drop that first")
    if name not in REMOVALS:
        raise PermanentFeatureError(table=table.label, feature=name, reason="once a table supports it, it stays")
    may_truncate = name == CHECKPOINT_PROTECTION or FEATURES[name].kind is FeatureKind.READER_WRITER
    if truncates_history and not may_truncate:
        raise _refused(table, name, "it leaves nothing in old versions; leave TRUNCATE HISTORY out")
    if name == CHECKPOINT_PROTECTION and not truncates_history:
        before = snapshot.properties.checkpoint_protection_version
        reason = (
            f"it hides versions before {before}, which may use features dropped since, and can go only with these: "
            f"ALTER TABLE {table.label} DROP FEATURE {name} TRUNCATE HISTORY"
        )
        raise _refused(table, name, reason)
    return name


def _without_history(table: TableRef, name: str, removal: FeatureRemoval) -> Snapshot:
    """The newest version, once no older one uses the feature. Until then it raises `FeatureInHistoryError`."""
    snapshot = table.latest()
    listing = list_log(table.delta_log.store, first=0, upto=snapshot.version)
    last = _last_use(table, snapshot, listing, name, removal)
    if last is None:
        return snapshot
    if not has_checkpoint_after(listing, max(last, snapshot.properties.checkpoint_protection_version - 1)):
        snapshot = commit_with_checkpoint(table)
    truncate_history(table, snapshot)
    listing = list_log(table.delta_log.store, first=0, upto=snapshot.version)
    last = _last_use(table, snapshot, listing, name, removal)
    if last is None:
        return snapshot
    raise FeatureInHistoryError(
        table=table.label,
        feature=name,
        last_version=last,
        possible_from=removable_from(
            listing,
            last,
            protected_before=snapshot.properties.checkpoint_protection_version,
            retention_ms=snapshot.properties.drop_feature_retention_ms,
        ),
        retention=_retention(snapshot),
        droppable_now=name != CHECKPOINT_PROTECTION,
    )


def _last_use(
    table: TableRef, snapshot: Snapshot, listing: LogListing, name: str, removal: FeatureRemoval
) -> int | None:
    """The newest version in the log that an engine without the feature must not see."""
    if name == CHECKPOINT_PROTECTION:
        return _newest_before(listing, snapshot.properties.checkpoint_protection_version)
    if removal.used_in_history is None:
        return None
    last = last_version_with(table, listing, in_version=removal.used_in_version, in_action=removal.used_in_history)
    in_checkpoints = newest_v2_checkpoint(listing) if name == "v2Checkpoint" else None
    return max((version for version in (last, in_checkpoints) if version is not None), default=None)


def _newest_before(listing: LogListing, version: int) -> int | None:
    """The newest version of the log before `version`."""
    versions = [commit.version for commit in listing.commits] + [one.version for one in listing.checkpoints]
    return max((older for older in versions if older < version), default=None)


def _retention(snapshot: Snapshot) -> str:
    text = snapshot.metadata.configuration.get("delta.dropFeatureTruncateHistory.retentionDuration")
    return (text or "24 hours").removeprefix("interval ")


def _refused(table: TableRef, feature: str, reason: str) -> FeatureDropError:
    return FeatureDropError(table=table.label, feature=feature, reason=reason)


def alter_drop_feature(table: TableRef, feature: str, *, truncate_history: bool = False) -> CommittedVersion:
    """Remove a table feature from the protocol, and its uses from the newest version of the table.

    Old versions that use it may be misread. They stay readable only behind checkpoints, which the table feature
    `checkpointProtection` protects from then on; with `truncate_history` they must be old enough to be removed.

    Raises `FeatureNotSupportedByTableError`; `FeatureDropError`, which says what to do first; `FeatureInHistoryError`,
    which says how long to wait; `ColumnNamesNeedMappingError`; and a `DeltaConcurrentModificationException` after too
    many conflicts.
    """
    return drop_feature(table, feature, truncates_history=truncate_history)


def alter_add_feature(table: TableRef, feature: str) -> CommittedVersion | None:
    """Add a table feature. Raises `UnknownFeatureError`, `UnsupportedFeatureError`."""
    return alter_set_properties(table, {f"{FEATURE_PREFIX}{feature}": "supported"})


def alter_upgrade_protocol(table: TableRef, reader_version: int, writer_version: int) -> CommittedVersion | None:
    """Add what these protocol versions imply. Versions never get lower; a table that supports all is not changed.

    Raises `InvalidPropertyError` for versions that do not exist.
    """
    versions = {"delta.minReaderVersion": str(reader_version), "delta.minWriterVersion": str(writer_version)}
    return alter_set_properties(table, versions)
