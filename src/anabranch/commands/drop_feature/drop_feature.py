"""A feature taken out of the protocol, once nothing uses it any more.

Every step is a commit after which the table is valid and shows the same rows, and looks at what there is before it does
anything: what was stopped goes on when it is begun again. Up to the last one the table supports the feature, and from
the first one on it has less and less of it: see `feature_cleanup`. The commit that drops the feature is a conflict with
every commit that used it meanwhile, so that it never stands behind one.
"""

from __future__ import annotations

import dataclasses
import logging

import msgspec

from anabranch.commands.alter.alter_properties import alter_set_properties
from anabranch.commands.drop_feature.feature_history import (
    checkpoint_if_possible,
    checkpoint_of_its_own,
    has_checkpoint_after,
    last_version_with,
    raise_barrier,
    removable_from,
    truncate_history,
)
from anabranch.commands.drop_feature.feature_registry import REMOVALS, FeatureRemoval
from anabranch.commands.drop_feature.feature_usage import newest_v2_checkpoint
from anabranch.commands.table_access import TableRef, check_same_table
from anabranch.errors.alterations import (
    FeatureDropError,
    FeatureInHistoryError,
    FeatureNotSupportedByTableError,
    PermanentFeatureError,
    UnknownFeatureDropError,
)
from anabranch.errors.commits import DeltaConcurrentModificationException
from anabranch.log.commit_files import Commit
from anabranch.log.listing import LogListing, list_log
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
from anabranch.transaction.commit.commit_context import CommittedVersion
from anabranch.transaction.commit.commit_draft import CHECKPOINT_PROTECTION, PROTECTED_BEFORE
from anabranch.transaction.proposed_commit import Operation

LOGGER = logging.getLogger("anabranch.features")
ROUNDS_MAX = 5
"""How often it begins again behind writers that use the feature, or change the table otherwise, before it gives up."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PreparedDrop:
    """A feature that nothing uses any more: all of dropping it but the commit that does."""

    table: TableRef
    feature: str
    snapshot: Snapshot
    """From this version on nobody may use the feature."""
    truncates_history: bool
    protects_history: bool

    @property
    def in_use(self) -> str | None:
        """What uses it in spite of the cleaning up: a writer came in between."""
        return REMOVALS[self.feature].used_in_version(self.snapshot)

    def commit(self) -> CommittedVersion:
        """Drop it. Raises `DeltaConcurrentModificationException` behind a commit that uses it."""
        actions = downgrade(self.snapshot, self.feature, protects_history=self.protects_history)
        parameters = {"featureName": self.feature, "truncateHistory": self.truncates_history}
        transaction = self.table.begin_at(Operation(name="DROP FEATURE", parameters=parameters), snapshot=self.snapshot)
        landed = transaction.commit(actions, conflicts_with=self._use_in)
        if self.protects_history:
            checkpoint_if_possible(self.table, landed.snapshot)
        return landed

    def _use_in(self, commit: Commit) -> str | None:
        uses = map(REMOVALS[self.feature].used_in_action, commit.actions)
        return next((found for found in uses if found is not None), None)


def drop_feature(table: TableRef, feature: str, *, truncates_history: bool) -> CommittedVersion:
    """Clean up what uses the feature, see to the history, and drop it. Raises as `alter_drop_feature` says."""
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
    reason = f"other writers go on using it: {in_use}. Stop them, then run it again"
    raise FeatureDropError(table=table.label, feature=feature, reason=reason)


def prepare_drop(table: TableRef, feature: str, *, truncates_history: bool) -> PreparedDrop:
    """All but the commit that drops it. Raises as `alter_drop_feature` says."""
    name = _checked_name(table, feature, truncates_history=truncates_history)
    removal = REMOVALS[name]
    removal.clean_up(table)
    protects = removal.used_in_history is not None and not truncates_history
    if truncates_history:
        snapshot = _without_history(table, name, removal)
    else:
        snapshot = raise_barrier(table) if protects else table.latest()
    return PreparedDrop(
        table=table,
        feature=name,
        snapshot=snapshot,
        truncates_history=truncates_history,
        protects_history=protects,
    )


def downgrade(snapshot: Snapshot, name: str, *, protects_history: bool) -> list[Action]:
    """The actions that take the feature out of `snapshot`, and what belongs to it alone."""
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
    """The feature as the protocol spells it, if it may be dropped at all."""
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
    """The newest version, once no older one uses the feature. Raises `FeatureInHistoryError` until it may be so."""
    snapshot = table.latest()
    listing = list_log(table.delta_log.store, first=0, upto=snapshot.version)
    last = _last_use(table, snapshot, listing, name, removal)
    if last is None:
        return snapshot
    if not has_checkpoint_after(listing, max(last, snapshot.properties.checkpoint_protection_version - 1)):
        snapshot = checkpoint_of_its_own(table)
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
    return max((each for each in versions if each < version), default=None)


def _retention(snapshot: Snapshot) -> str:
    text = snapshot.metadata.configuration.get("delta.dropFeatureTruncateHistory.retentionDuration")
    return (text or "24 hours").removeprefix("interval ")


def _refused(table: TableRef, feature: str, reason: str) -> FeatureDropError:
    return FeatureDropError(table=table.label, feature=feature, reason=reason)


# ALTER TABLE … DROP FEATURE, and the calls that raise the protocol of a table.


def alter_drop_feature(table: TableRef, feature: str, *, truncate_history: bool = False) -> CommittedVersion:
    """Take a table feature out of the protocol, with all that the newest version of the table has of it.

    Where old versions use it in a way that would be misread, they stay behind checkpoints that are protected from then
    on by the feature `checkpointProtection`; or, with `truncate_history`, they must be old enough to be removed.

    Raises `FeatureNotSupportedByTableError`; `FeatureDropError`, which says what has to be done first;
    `FeatureInHistoryError`, which says until when to wait; `ColumnNamesNeedMappingError`; and the exceptions of
    `anabranch.exceptions` where others change the table again and again meanwhile.
    """
    return drop_feature(table, feature, truncates_history=truncate_history)


def alter_add_feature(table: TableRef, feature: str) -> CommittedVersion | None:
    """Let the table support a feature. Raises `UnknownFeatureError`, `UnsupportedFeatureError`."""
    return alter_set_properties(table, {f"{FEATURE_PREFIX}{feature}": "supported"})


def alter_upgrade_protocol(table: TableRef, reader_version: int, writer_version: int) -> CommittedVersion | None:
    """Let the table support what these versions imply. Versions never get lower: what is there already stays as it is,
    and so does a table that has it all. Raises `InvalidPropertyError` for versions that do not exist.
    """
    versions = {"delta.minReaderVersion": str(reader_version), "delta.minWriterVersion": str(writer_version)}
    return alter_set_properties(table, versions)
