"""Commits after which the newest version of a table does not use a feature, and later writers do not, either.

Their operations have Delta's names. After each of them the table is valid and has the same rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.commands.alter.alter_properties import alter_set_properties, alter_unset_properties
from anabranch.commands.alter.column_mapping_removal import remove_column_mapping
from anabranch.commands.drop_feature.feature_rewrite import FilesOfOldTypes, files_with_vectors, rewrite_files
from anabranch.commands.drop_feature.feature_usage import type_changes_in_action, vectors_in_version
from anabranch.commands.optimize.rewrite_job import FILES_PER_COMMIT_MAX
from anabranch.commands.table_access import TableRef
from anabranch.deletion_vectors.vector_reading import distinct_files, path_in_table
from anabranch.errors.alterations import ConstraintsLeftError
from anabranch.errors.log import DeletionVectorDescriptorError
from anabranch.errors.protocol import UnsafePathError
from anabranch.log.commit_files import Commit
from anabranch.protocol.actions import AddFile, Metadata, RemoveFile
from anabranch.protocol.data_paths import encode_path
from anabranch.schema.schema_evolution import all_type_changes, without_type_changes
from anabranch.schema.serialization import parse_schema, schema_string
from anabranch.snapshot.snapshot import Snapshot
from anabranch.transactions.proposed_commit import Operation

# Before deletion vectors are dropped, tombstones name the vector files that older versions need.
#
# A VACUUM without support for deletion vectors deletes every file that no action names as a path. It keeps the files of
# tombstones for `delta.deletedFileRetentionDuration`, so that the versions within this time stay readable.


def add_vector_tombstones(table: TableRef) -> None:
    """Add the missing tombstones by one commit."""
    snapshot, now_ms = table.latest(), table.session.clock.now_ms()
    tombstones = snapshot.tombstones(after_ms=snapshot.tombstone_retention_start_ms(now_ms=now_ms))
    named = frozenset(tombstones.filter(pc.is_null(tombstones["deletion_vector"]))["path"].to_pylist())
    paths = sorted(_vector_files(tombstones, table.path) - named)
    if not paths:
        return
    removes = [RemoveFile(path=path, deletion_timestamp=now_ms, data_change=False) for path in paths]
    table.begin_at(Operation(name="Deletion Vector Tombstones"), snapshot=snapshot).commit(removes)


def _vector_files(tombstones: pa.Table, table_root: str) -> frozenset[str]:
    """Paths in the form of the log. Files outside the table are left out: VACUUM never deletes them."""
    paths = set[str]()
    for descriptor in distinct_files(tombstones["deletion_vector"]):
        with suppress(DeletionVectorDescriptorError, UnsafePathError):
            path = path_in_table(descriptor, table_root=table_root)
            if path is not None:
                paths.add(encode_path(path))
    return frozenset(paths)


_SUSPENDED: Final[Mapping[str, str]] = {"delta.enableRowTracking": "false", "delta.rowTrackingSuspended": "true"}


def refuse_constraints(table: TableRef) -> None:
    """Raises `ConstraintsLeftError`: DROP FEATURE changes no rule of a table, so the user has to drop constraints."""
    names = sorted(table.latest().properties.constraints)
    if names:
        reason = f"the table has the constraints {', '.join(names)}; drop them first"
        raise ConstraintsLeftError(table=table.label, feature="checkConstraints", reason=reason)


def purge_vectors(table: TableRef) -> None:
    """Allow no new vectors, then rewrite the files that have one, then add tombstones for the old vector files."""
    if vectors_in_version(table.latest()) is not None:
        alter_unset_properties(table, ["delta.enableDeletionVectors"], if_exists=True)
        rewrite_files(table, files_with_vectors, feature="deletionVectors")
    add_vector_tombstones(table)


def unmap_columns(table: TableRef) -> None:
    """Turn column mapping off; see `remove_column_mapping`."""
    remove_column_mapping(table, unset=True)


def remove_type_changes(table: TableRef) -> None:
    """Allow no new changes, then rewrite files of older types, then remove the type changes from the schema."""
    snapshot, old_types = table.latest(), FilesOfOldTypes(table)
    has_changed = type_changes_in_action(snapshot.metadata) is not None
    alter_unset_properties(table, ["delta.enableTypeWidening"], if_exists=True)
    if not has_changed:
        return
    rewrite_files(table, old_types, feature="typeWidening")
    snapshot = table.latest()
    if old_types(snapshot).any():
        # A writer added such files meanwhile. The changes stay in the schema, so that the clean-up is repeated.
        return
    schema = parse_schema(snapshot.metadata.schema_string, table.label)
    changed = msgspec.structs.replace(snapshot.metadata, schema_string=schema_string(without_type_changes(schema)))
    columns = [{"name": ".".join(path), "type": change.new.simpleString()} for path, change in all_type_changes(schema)]
    transaction = table.begin_at(Operation(name="DROP FEATURE", parameters={"columns": columns}), snapshot=snapshot)
    transaction.commit([changed], conflicts_with=_added_files)


def remove_row_ids(table: TableRef) -> None:
    """Assign no ids to new files, then remove those of existing files."""
    snapshot = table.latest()
    configuration = {**snapshot.metadata.configuration, **_SUSPENDED}
    if configuration != snapshot.metadata.configuration:
        suspended = msgspec.structs.replace(snapshot.metadata, configuration=configuration)
        operation = Operation(name="SET TBLPROPERTIES", parameters={"properties": dict(_SUSPENDED)})
        snapshot = table.begin_at(operation, snapshot=snapshot).commit([suspended]).snapshot
    adds = _with_row_ids(snapshot)
    for batch, start in enumerate(range(0, len(adds), FILES_PER_COMMIT_MAX)):
        files = [
            msgspec.structs.replace(add, base_row_id=None, default_row_commit_version=None)
            for add in adds[start : start + FILES_PER_COMMIT_MAX]
        ]
        operation = Operation(name="ROW TRACKING UNBACKFILL", parameters={"batchId": batch})
        # The commit is based on the version of these files: a file that is removed meanwhile must stay removed.
        table.begin_at(operation, snapshot=snapshot).commit(files)


def classic_checkpoints(table: TableRef) -> None:
    """Write no new V2 checkpoints. Existing ones stay, and readers use newer ones of the classic format."""
    if table.latest().properties.checkpoint_policy == "v2":
        alter_set_properties(table, {"delta.checkpointPolicy": "classic"})


def remove_domains(table: TableRef) -> None:
    """Remove the domains that are left of features that were dropped before."""
    snapshot = table.latest()
    removed_domains = [msgspec.structs.replace(domain, removed=True) for domain in snapshot.domain_metadata.values()]
    if removed_domains:
        operation = Operation(
            name="DOMAIN METADATA CLEANUP", parameters={"domainMetadataRemovedCount": len(removed_domains)}
        )
        table.begin_at(operation, snapshot=snapshot).commit(removed_domains)


def _with_row_ids(snapshot: Snapshot) -> list[AddFile]:
    files = snapshot.files.columns("base_row_id", "default_row_commit_version")
    have_ids = pc.or_(pc.is_valid(files["base_row_id"]), pc.is_valid(files["default_row_commit_version"]))
    return snapshot.files.to_actions(pa.array(have_ids.to_numpy(), pa.bool_()))


def _added_files(commit: Commit) -> str | None:
    """A winner's new file, which may have old types, or new metadata, in words; None for neither."""
    added = next((action.path for action in commit.actions if isinstance(action, AddFile)), None)
    if added is not None:
        return f"the new file {added}"
    return "other metadata" if any(isinstance(action, Metadata) for action in commit.actions) else None
