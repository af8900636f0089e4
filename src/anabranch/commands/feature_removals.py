"""The features that can be dropped, one row each: those of Delta, and clustering."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from anabranch.commands import feature_clean_up as clean_up
from anabranch.commands import feature_traces as traces
from anabranch.commands.feature_removal import FeatureRemoval
from anabranch.transaction.checkpoint_protection import CHECKPOINT_PROTECTION, PROTECTED_BEFORE
from anabranch.transaction.description_rules import CLUSTERING_DOMAIN
from anabranch.transaction.row_ids import ROW_TRACKING_DOMAIN

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
