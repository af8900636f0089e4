"""The features that can be dropped, with what it takes to drop each: those of Delta, and clustering."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Final

from anabranch.commands.drop_feature import feature_cleanup as clean_up
from anabranch.commands.drop_feature import feature_usage as traces
from anabranch.commands.table_access import TableRef
from anabranch.protocol.actions import Action
from anabranch.snapshot.snapshot import Snapshot
from anabranch.transactions.commit.commit_attempt import CHECKPOINT_PROTECTION, PROTECTED_BEFORE
from anabranch.transactions.conflicts.description_rules import CLUSTERING_DOMAIN
from anabranch.transactions.rows.row_ids import ROW_TRACKING_DOMAIN

UsedInVersion = Callable[[Snapshot], str | None]
"""How a version uses the feature, in words; None where it does not."""
UsedInAction = Callable[[Action], str | None]
"""How an action uses the feature, in words; None where it does not."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FeatureRemoval:
    """How a feature is removed from a table."""

    used_in_version: UsedInVersion
    used_in_action: UsedInAction
    """Called for the actions of all commits that are made while the feature is being dropped."""
    clean_up: Callable[[TableRef], None] = lambda _: None
    """Removes all uses of the feature from the newest version, by commits of its own, and prevents new ones.

    The table is valid after each commit, and another call continues. Raises `FeatureDropError` where the user has to
    do something first, and a `DeltaConcurrentModificationException`, after which it can be called again.
    """
    used_in_history: UsedInAction | None = None
    """How an action in old versions would be misread without the feature. If it is not None, the history is protected
    or truncated before the feature is dropped."""
    properties: tuple[str, ...] = ()
    """Properties that the commit that drops the feature removes."""
    domain: str | None = None
    """The metadata domain that the same commit removes."""


_TYPE_WIDENING: Final = FeatureRemoval(
    used_in_version=traces.widening_in_version,
    used_in_action=traces.widening_in_action,
    clean_up=clean_up.remove_type_changes,
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
        clean_up=clean_up.remove_row_ids,
        properties=(
            "delta.enableRowTracking",
            "delta.rowTrackingSuspended",
            "delta.rowTracking.materializedRowIdColumnName",
            "delta.rowTracking.materializedRowCommitVersionColumnName",
        ),
        domain=ROW_TRACKING_DOMAIN,
    ),
}
"""Removals by the name of the feature. All other features are permanent."""
