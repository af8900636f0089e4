"""The features that can be dropped, one row each: those of Delta, and clustering."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Final

from anabranch.commands.drop_feature import feature_cleanup as clean_up
from anabranch.commands.drop_feature import feature_usage as traces
from anabranch.commands.table_access import TableRef
from anabranch.protocol.actions import Action
from anabranch.snapshot.snapshot import Snapshot
from anabranch.transaction.commit.commit_draft import CHECKPOINT_PROTECTION, PROTECTED_BEFORE
from anabranch.transaction.conflicts.metadata_compatibility import CLUSTERING_DOMAIN
from anabranch.transaction.rows.row_ids import ROW_TRACKING_DOMAIN

# What it takes to drop a feature from a table.


UsedInVersion = Callable[[Snapshot], str | None]
"""What of a version uses the feature, in words; None for nothing."""
UsedInAction = Callable[[Action], str | None]
"""What of an action uses the feature, in words; None for nothing."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FeatureRemoval:
    """How one feature leaves a table."""

    used_in_version: UsedInVersion
    used_in_action: UsedInAction
    """Asked of every commit that lands while the feature is being dropped."""
    clean_up: Callable[[TableRef], None] = lambda _: None
    """Brings the newest version, by commits of its own, to where nothing uses the feature and nobody begins to.

    Stopped anywhere, it leaves a valid table; begun again, it goes on. Raises `FeatureDropError` where the user has to
    do something first, and the exceptions of `anabranch.exceptions`, after which it may be begun again.
    """
    used_in_history: UsedInAction | None = None
    """What an engine that does not know the feature would misread in old versions; None for nothing at all. Then
    history is protected, or truncated, before the feature goes."""
    properties: tuple[str, ...] = ()
    """Properties that go in the commit that drops it."""
    domain: str | None = None
    """The metadata domain that goes in that commit."""


_TYPE_WIDENING: Final = FeatureRemoval(
    used_in_version=traces.widening_in_version,
    used_in_action=traces.widening_in_action,
    clean_up=clean_up.forget_type_changes,
    used_in_history=traces.type_changes_in_action,
)

REMOVALS: Final[Mapping[str, FeatureRemoval]] = {
    "checkConstraints": FeatureRemoval(
        used_in_version=traces.constraints_in_version,
        used_in_action=traces.constraints_in_action,
        clean_up=clean_up.refuse_constraints,
    ),
    "columnMapping": FeatureRemoval(
        used_in_version=traces.mapping_in_version,
        used_in_action=traces.mapping_in_action,
        clean_up=clean_up.unmap_columns,
        used_in_history=traces.mapping_in_action,
    ),
    "deletionVectors": FeatureRemoval(
        used_in_version=traces.vectors_in_version,
        used_in_action=traces.vectors_in_action,
        clean_up=clean_up.purge_vectors,
        used_in_history=traces.vectors_in_action,
    ),
    "typeWidening": _TYPE_WIDENING,
    "typeWidening-preview": _TYPE_WIDENING,
    "v2Checkpoint": FeatureRemoval(
        used_in_version=traces.v2_checkpoints_in_version,
        used_in_action=traces.v2_checkpoints_in_action,
        clean_up=clean_up.classic_checkpoints,
        used_in_history=traces.v2_checkpoints_in_action,
    ),
    "vacuumProtocolCheck": FeatureRemoval(
        used_in_version=traces.nothing_in_version, used_in_action=traces.nothing_in_action
    ),
    CHECKPOINT_PROTECTION: FeatureRemoval(
        used_in_version=traces.nothing_in_version,
        used_in_action=traces.nothing_in_action,
        properties=(PROTECTED_BEFORE,),
    ),
    "clustering": FeatureRemoval(
        used_in_version=traces.nothing_in_version,
        used_in_action=traces.clustering_in_action,
        domain=CLUSTERING_DOMAIN,
    ),
    "domainMetadata": FeatureRemoval(
        used_in_version=traces.domains_in_version,
        used_in_action=traces.domains_in_action,
        clean_up=clean_up.remove_domains,
    ),
    "inCommitTimestamp": FeatureRemoval(
        used_in_version=traces.nothing_in_version,
        used_in_action=traces.timestamps_in_action,
        properties=traces.TIMESTAMP_PROPERTIES,
    ),
    "rowTracking": FeatureRemoval(
        used_in_version=traces.row_ids_in_version,
        used_in_action=traces.row_ids_in_action,
        clean_up=clean_up.take_row_ids_away,
        properties=(
            "delta.enableRowTracking",
            "delta.rowTrackingSuspended",
            "delta.rowTracking.materializedRowIdColumnName",
            "delta.rowTracking.materializedRowCommitVersionColumnName",
        ),
        domain=ROW_TRACKING_DOMAIN,
    ),
}
"""By the name of the feature. Others stay once a table supports them."""
