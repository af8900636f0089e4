"""What of a table shows that it uses a feature: in its newest version, and in single actions of its history.

Nothing is read or changed here. An answer is what was found, in words that end "… still uses it:"; None where there is
nothing. "uses" means more than the protocol that lists the feature, which says only that it may be used.
"""

from __future__ import annotations

from typing import Final

import pyarrow.compute as pc

from anabranch.log.listing import LogListing
from anabranch.protocol.actions import Action, AddFile, DomainMetadata, Metadata, RemoveFile
from anabranch.protocol.log_paths import LogFileKind
from anabranch.protocol.properties import TableProperties
from anabranch.schema.column_mapping import ColumnMappingMode, has_mapping
from anabranch.schema.serialization import parse_schema
from anabranch.schema.type_widening import TYPE_CHANGES, all_type_changes
from anabranch.snapshot.snapshot import Snapshot
from anabranch.transaction.commit.commit_draft import ENABLEMENT_TIMESTAMP, ENABLEMENT_VERSION
from anabranch.transaction.conflicts.description_rules import CLUSTERING_DOMAIN

TIMESTAMP_PROPERTIES: Final = ("delta.enableInCommitTimestamps", ENABLEMENT_VERSION, ENABLEMENT_TIMESTAMP)


def nothing_in_version(_: Snapshot) -> str | None:
    """For features that leave nothing behind."""
    return None


def nothing_in_action(_: Action) -> str | None:
    """For features whose use no single action shows."""
    return None


def constraints_in_version(snapshot: Snapshot) -> str | None:
    """CHECK constraints."""
    return constraints_in_action(snapshot.metadata)


def constraints_in_action(action: Action) -> str | None:
    """CHECK constraints that it sets."""
    names = sorted(_properties(action).constraints)
    return f"the constraints {', '.join(names)}" if names else None


def vectors_in_version(snapshot: Snapshot) -> str | None:
    """Files with deletion vectors, or the wish for them."""
    found = vectors_in_action(snapshot.metadata)
    if found is not None:
        return found
    vectors = snapshot.files.columns("deletion_vector")["deletion_vector"]
    count = len(vectors) - vectors.null_count
    return f"{count} files with deletion vectors" if count else None


def vectors_in_action(action: Action) -> str | None:
    """See "Deletion Vectors". A tombstone shows them as a file does: older versions are read by what it names."""
    if isinstance(action, AddFile | RemoveFile) and action.deletion_vector is not None:
        return f"the deletion vector of {action.path}"
    return "delta.enableDeletionVectors" if _properties(action).value("delta.enableDeletionVectors") else None


def mapping_in_version(snapshot: Snapshot) -> str | None:
    """A mapping mode, or ids and physical names in the schema."""
    found = mapping_in_action(snapshot.metadata)
    return found or ("ids of columns in the schema" if has_mapping(snapshot.schema) else None)


def mapping_in_action(action: Action) -> str | None:
    """See "Column Mapping". Without a mode, nobody looks at ids that a schema may still have."""
    mode = ColumnMappingMode.parse(_properties(action).column_mapping_mode)
    return f"delta.columnMapping.mode = {mode.value}" if mode.maps else None


def widening_in_version(snapshot: Snapshot) -> str | None:
    """Type changes on record, or the leave to make them."""
    return widening_in_action(snapshot.metadata)


def widening_in_action(action: Action) -> str | None:
    """See "Type Widening"."""
    return "delta.enableTypeWidening" if _properties(action).type_widening_enabled else type_changes_in_action(action)


def type_changes_in_action(action: Action) -> str | None:
    """Changes on record, without which nobody looks for them."""
    if not isinstance(action, Metadata) or TYPE_CHANGES not in action.schema_string:
        return None
    changes = all_type_changes(parse_schema(action.schema_string, "the table"))
    return f"{len(changes)} type changes on record in the schema" if changes else None


def v2_checkpoints_in_version(snapshot: Snapshot) -> str | None:
    """The policy; what checkpoints there are is told by the log."""
    return v2_checkpoints_in_action(snapshot.metadata)


def v2_checkpoints_in_action(action: Action) -> str | None:
    """See "V2 Spec"."""
    return "delta.checkpointPolicy = v2" if _properties(action).checkpoint_policy == "v2" else None


def newest_v2_checkpoint(listing: LogListing) -> int | None:
    """The version of the newest checkpoint whose name only readers of V2 know."""
    versions = [one.version for one in listing.checkpoints if one.kind is LogFileKind.V2_CHECKPOINT]
    return max(versions, default=None)


def row_ids_in_version(snapshot: Snapshot) -> str | None:
    """Files with row ids, or the duty to give them to new ones."""
    found = row_ids_in_action(snapshot.metadata)
    if found is not None:
        return found
    if not snapshot.properties.row_tracking_suspended:
        return "the duty to give every new file row ids"
    files = snapshot.files.columns("base_row_id", "default_row_commit_version")
    known = pc.or_(pc.is_valid(files["base_row_id"]), pc.is_valid(files["default_row_commit_version"]))
    count = pc.sum(known).as_py() or 0
    return f"{count} files with row ids" if count else None


def row_ids_in_action(action: Action) -> str | None:
    """See "Row Tracking". A tombstone with ids changes nothing of what is live."""
    if isinstance(action, AddFile) and (
        action.base_row_id is not None or action.default_row_commit_version is not None
    ):
        return f"the row ids of {action.path}"
    return "delta.enableRowTracking" if _properties(action).row_tracking_enabled else None


def timestamps_in_action(action: Action) -> str | None:
    """See "In-Commit Timestamps"."""
    return "delta.enableInCommitTimestamps" if _properties(action).in_commit_timestamps_enabled else None


def domains_in_version(snapshot: Snapshot) -> str | None:
    """Domains that are set. Those of features that need them are gone by then."""
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
    """Those that it sets; none where it is no metadata."""
    return TableProperties(action.configuration if isinstance(action, Metadata) else {})
