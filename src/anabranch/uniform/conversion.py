"""Iceberg metadata for a version of a Delta table, based on that of an earlier version where there is one.

Only metadata is written. The data files are the table's own, which IcebergCompat keeps readable for Iceberg.
"""

from __future__ import annotations

import dataclasses
import logging
import random
import uuid

from pyiceberg.exceptions import ValidationError
from pyiceberg.table.metadata import TableMetadataV2
from pyiceberg.table.snapshots import Operation, Snapshot

from anabranch.errors.base import DeltaError
from anabranch.snapshot.snapshot import Snapshot as DeltaSnapshot
from anabranch.storage.external_files import allowed_prefixes_of
from anabranch.storage.log_store import LogStore
from anabranch.uniform.changed_files import ChangedFiles, changes_between
from anabranch.uniform.iceberg_files import DataFileMaker
from anabranch.uniform.manifests import MANIFESTS_MAX, ManifestSet, SnapshotManifests, manifests_of
from anabranch.uniform.metadata_files import MetadataFiles
from anabranch.uniform.store_files import StoreFiles
from anabranch.uniform.table_locations import TableLocations
from anabranch.uniform.table_metadata import (
    DELTA_VERSION,
    METADATA_KEPT_MAX,
    Base,
    iceberg_snapshot,
    next_metadata,
    next_schema,
    next_sequence_number,
    next_spec,
)

LOGGER = logging.getLogger("anabranch.uniform")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Converted:
    """The result of a conversion."""

    version: int
    rebuilt: bool
    """Whether all manifests were written, not only those of changed files."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _NewFiles:
    manifests: ManifestSet
    operation: Operation
    rebuilt: bool


def convert_to_iceberg(store: LogStore, snapshot: DeltaSnapshot, *, random: random.Random) -> Converted | None:
    """Publish the Iceberg metadata of this version; None if it, or that of a later version, is published already.

    Names of files and ids of snapshots are drawn from `random`. Raises the errors of the storage and of pyiceberg.
    """
    return _Conversion(store, snapshot, random).run()


class _Conversion:
    """The conversion of one version."""

    def __init__(self, store: LogStore, snapshot: DeltaSnapshot, source: random.Random) -> None:
        self._store = store
        self._snapshot = snapshot
        self._locations = TableLocations(snapshot.table_root, allowed_prefixes=allowed_prefixes_of(store))
        self._files = StoreFiles(store, self._locations)
        self._published = MetadataFiles(store, self._locations)
        self._snapshot_id = source.getrandbits(62) + 1
        self._name = f"{source.getrandbits(128):032x}"

    def run(self) -> Converted | None:
        version, published = self._snapshot.version, self._published.versions()
        base = self._base(published[-1]) if published else None
        if base is not None and base.version >= version:
            return None
        schema, spec = next_schema(self._snapshot, base), next_spec(self._snapshot, base)
        writer = SnapshotManifests(
            self._files, self._locations, spec=spec, schema=schema, snapshot_id=self._snapshot_id, name=self._name
        )
        files = self._new_files(base, writer, spec_id=spec.spec_id)
        new: Snapshot | None = None
        if files is not None:
            parent = None if base is None else base.metadata.current_snapshot_id
            manifest_list = writer.write_list(
                files.manifests, parent_id=parent, sequence_number=next_sequence_number(base)
            )
            new = iceberg_snapshot(
                self._snapshot,
                base,
                files.manifests,
                schema,
                snapshot_id=self._snapshot_id,
                manifest_list=manifest_list,
                operation=files.operation,
            )
        metadata = next_metadata(self._snapshot, base, schema, spec, new, self._locations)
        if not self._published.publish(version, metadata, replacing=version in published):
            return None
        earlier = [number for number in published if number != version]
        self._published.expire(metadata, earlier[: -METADATA_KEPT_MAX + 1])
        return Converted(version=version, rebuilt=files is not None and files.rebuilt)

    def _base(self, version: int) -> Base | None:
        """The published metadata of that version; None if it cannot be read, or is another table's."""
        try:
            metadata = self._published.read(version)
        except (DeltaError, OSError, ValueError, ValidationError):
            LOGGER.warning("%s: Iceberg metadata v%d cannot be read", self._locations.location, version, exc_info=True)
            return None
        delta_version = metadata.properties.get(DELTA_VERSION, "")
        same = (
            metadata.table_uuid == uuid.UUID(self._snapshot.metadata.id)
            and metadata.location == self._locations.location
        )
        if not isinstance(metadata, TableMetadataV2) or not same or not delta_version.isdecimal():
            return None
        location = self._published.location(version)
        return Base(version=int(delta_version), metadata_location=location, metadata=metadata)

    def _new_files(self, base: Base | None, writer: SnapshotManifests, *, spec_id: int) -> _NewFiles | None:
        """The manifests of a new snapshot; None if no file changed."""
        maker = DataFileMaker(self._snapshot, self._locations, spec_id=spec_id)
        if base is not None and base.metadata.default_spec_id == spec_id:
            changes = changes_between(self._store, after=base.version, upto=self._snapshot.version)
            if changes is not None and changes.is_empty and base.metadata.current_snapshot_id is not None:
                return None
            manifests = None if changes is None else self._changed_manifests(base, changes, writer, maker)
            if changes is not None and manifests is not None:
                return _NewFiles(manifests=manifests, operation=_operation(manifests, changes), rebuilt=False)
        manifests = writer.write_all(map(maker.data_file, self._snapshot.files.to_actions()))
        operation = Operation.APPEND if base is None else Operation.OVERWRITE
        return _NewFiles(manifests=manifests, operation=operation, rebuilt=True)

    def _changed_manifests(
        self, base: Base, changes: ChangedFiles, writer: SnapshotManifests, maker: DataFileMaker
    ) -> ManifestSet | None:
        """The manifests of the base with the changes; None if they do not fit the snapshot, or are too many."""
        current = base.metadata.current_snapshot()
        before = [] if current is None else manifests_of(self._files, current.manifest_list)
        if len(before) >= MANIFESTS_MAX:
            return None
        removed = frozenset(map(self._locations.of_data_file, changes.touched))
        manifests = writer.write_changes(before, [maker.data_file(add) for add in changes.adds], removed=removed)
        # A file counted twice, or forgotten, would be rows too many or too few.
        return manifests if manifests.live_files == self._snapshot.files.count else None


def _operation(files: ManifestSet, changes: ChangedFiles) -> Operation:
    if files.deleted_files and not changes.changes_data:
        return Operation.REPLACE
    if files.deleted_files:
        return Operation.OVERWRITE if files.added_files else Operation.DELETE
    return Operation.APPEND
