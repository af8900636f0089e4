"""How a table uses a feature: in its newest version, and in single actions of its history.

Nothing is read or changed here. The functions return the use in words, which complete the message "… still uses it:",
or None. That the protocol lists a feature is no use: it only allows it.
"""

from __future__ import annotations

from typing import Final

import pyarrow.compute as pc

from anabranch.log.log_segment import LogListing
from anabranch.protocol.actions import Action, AddFile, DomainMetadata, Metadata, RemoveFile
from anabranch.protocol.log_paths import LogFileKind
from anabranch.protocol.properties import TableProperties
from anabranch.schema.column_mapping import ColumnMappingMode, has_mapping
from anabranch.schema.schema_evolution import TYPE_CHANGES, all_type_changes
from anabranch.schema.serialization import parse_schema
from anabranch.snapshot.snapshot import Snapshot
from anabranch.transactions.commit.commit_attempt import ENABLEMENT_TIMESTAMP, ENABLEMENT_VERSION
from anabranch.transactions.conflicts.description_rules import CLUSTERING_DOMAIN

TIMESTAMP_PROPERTIES: Final = ("delta.enableInCommitTimestamps", ENABLEMENT_VERSION, ENABLEMENT_TIMESTAMP)


def nothing_in_version(_: Snapshot) -> str | None:
    """None: these features leave no trace in a version."""
    return None


def nothing_in_action(_: Action) -> str | None:
    """None: no single action shows a use of these features."""
    return None


def constraints_in_version(snapshot: Snapshot) -> str | None:
    """CHECK constraints."""
    return constraints_in_action(snapshot.metadata)


def constraints_in_action(action: Action) -> str | None:
    """CHECK constraints that the action sets."""
    names = sorted(_properties(action).constraints)
    return f"the constraints {', '.join(names)}" if names else None


def vectors_in_version(snapshot: Snapshot) -> str | None:
    """Files with deletion vectors, or the property that enables them."""
    use = vectors_in_action(snapshot.metadata)
    if use is not None:
        return use
    vectors = snapshot.files.columns("deletion_vector")["deletion_vector"]
    count = len(vectors) - vectors.null_count
    return f"{count} files with deletion vectors" if count else None


def vectors_in_action(action: Action) -> str | None:
    """See "Deletion Vectors". Those of tombstones count, too: older versions are read with them."""
    if isinstance(action, AddFile | RemoveFile) and action.deletion_vector is not None:
        return f"the deletion vector of {action.path}"
    return "delta.enableDeletionVectors" if _properties(action).value("delta.enableDeletionVectors") else None


def mapping_in_version(snapshot: Snapshot) -> str | None:
    """A mapping mode, or ids and physical names in the schema."""
    use = mapping_in_action(snapshot.metadata)
    return use or ("ids of columns in the schema" if has_mapping(snapshot.schema) else None)


def mapping_in_action(action: Action) -> str | None:
    """See "Column Mapping". Without a mode, ids that are left in the schema are not read."""
    mode = ColumnMappingMode.parse(_properties(action).column_mapping_mode)
    return f"delta.columnMapping.mode = {mode.value}" if mode.maps else None


def widening_in_version(snapshot: Snapshot) -> str | None:
    """Type changes in the schema, or the property that allows them."""
    return widening_in_action(snapshot.metadata)


def widening_in_action(action: Action) -> str | None:
    """See "Type Widening"."""
    return "delta.enableTypeWidening" if _properties(action).type_widening_enabled else type_changes_in_action(action)


def type_changes_in_action(action: Action) -> str | None:
    """Type changes in the schema, which is where readers find them."""
    if not isinstance(action, Metadata) or TYPE_CHANGES not in action.schema_string:
        return None
    changes = all_type_changes(parse_schema(action.schema_string, "the table"))
    return f"{len(changes)} type changes in the schema" if changes else None


def v2_checkpoints_in_version(snapshot: Snapshot) -> str | None:
    """The checkpoint policy. Existing checkpoints are found by listing the log."""
    return v2_checkpoints_in_action(snapshot.metadata)


def v2_checkpoints_in_action(action: Action) -> str | None:
    """See "V2 Spec"."""
    return "delta.checkpointPolicy = v2" if _properties(action).checkpoint_policy == "v2" else None


def newest_v2_checkpoint(listing: LogListing) -> int | None:
    """The version of the newest checkpoint whose name only readers of V2 checkpoints recognize."""
    versions = [one.version for one in listing.checkpoints if one.kind is LogFileKind.V2_CHECKPOINT]
    return max(versions, default=None)


def row_ids_in_version(snapshot: Snapshot) -> str | None:
    """Files with row ids, or that new files have to get them."""
    use = row_ids_in_action(snapshot.metadata)
    if use is not None:
        return use
    if not snapshot.properties.row_tracking_suspended:
        return "row ids for every new file"
    files = snapshot.files.columns("base_row_id", "default_row_commit_version")
    have_ids = pc.or_(pc.is_valid(files["base_row_id"]), pc.is_valid(files["default_row_commit_version"]))
    count = pc.sum(have_ids).as_py() or 0
    return f"{count} files with row ids" if count else None


def row_ids_in_action(action: Action) -> str | None:
    """See "Row Tracking". Tombstones with ids do not matter, since they are not live."""
    if isinstance(action, AddFile) and (
        action.base_row_id is not None or action.default_row_commit_version is not None
    ):
        return f"the row ids of {action.path}"
    return "delta.enableRowTracking" if _properties(action).row_tracking_enabled else None


def timestamps_in_action(action: Action) -> str | None:
    """See "In-Commit Timestamps"."""
    return "delta.enableInCommitTimestamps" if _properties(action).in_commit_timestamps_enabled else None


def domains_in_version(snapshot: Snapshot) -> str | None:
    """Domains that are set. Features with a domain of their own are dropped before, and remove it."""
    names = sorted(snapshot.domain_metadata)
    return f"the metadata domains {', '.join(names)}" if names else None


def domains_in_action(action: Action) -> str | None:
    """See "Domain Metadata"."""
    if isinstance(action, DomainMetadata) and not action.removed:
        return f"the metadata domain {action.domain}"
    return None


def clustering_in_action(action: Action) -> str | None:
    """See "Clustered Table"."""
    sets = isinstance(action, DomainMetadata) and action.domain == CLUSTERING_DOMAIN and not action.removed
    return "other clustering columns" if sets else None


def _properties(action: Action) -> TableProperties:
    """The properties that the action sets; none for an action that is no `metaData`."""
    return TableProperties(action.configuration if isinstance(action, Metadata) else {})
