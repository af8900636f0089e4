"""Iceberg metadata for a version of a Delta table: from the metadata of an earlier version, or anew.

Only metadata is written. The data files are the table's own, which IcebergCompat keeps such that Iceberg can read them.
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
from anabranch.log.commit_files import read_commits
from anabranch.protocol.actions import AddFile, RemoveFile
from anabranch.snapshot.snapshot import Snapshot as DeltaSnapshot
from anabranch.storage.external_files import allowed_prefixes_of
from anabranch.storage.log_store import LogStore
from anabranch.uniform.iceberg_files import DataFileMaker, Places
from anabranch.uniform.metadata_files import (
    MANIFESTS_MAX,
    Manifests,
    ManifestSet,
    MetadataFiles,
    StoreFiles,
    manifests_of,
)
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

# Which files came and went since the version that was converted last.


COMMITS_MAX = 100
"""More are not worth reading: the snapshot has all files at once."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FileChanges:
    """The net effect of some commits."""

    adds: tuple[AddFile, ...]
    """Files that are there now and were added meanwhile, each once."""
    touched: frozenset[str]
    """Paths, as in the log, of files that may have been there before and are not any more as they were."""
    changes_data: bool

    @property
    def is_empty(self) -> bool:
        return not self.adds and not self.touched


def changes_between(store: LogStore, *, after: int, upto: int) -> FileChanges | None:
    """What the commits between two versions did; None where they are too many, or not all there any more.

    Raises `CorruptCommitError`, `StorageError`.
    """
    if upto - after > COMMITS_MAX:
        return None
    commits = read_commits(store, after=after, upto=upto)
    if len(commits) != upto - after:
        return None
    added: dict[str, AddFile] = {}
    touched: set[str] = set()
    changes_data = False
    for commit in commits:
        for action in commit.actions:
            if isinstance(action, RemoveFile):
                # A file that came and went meanwhile is in no manifest; looking for it there costs little.
                touched.add(action.path)
                added.pop(action.path, None)
                changes_data |= action.data_change
        for action in commit.actions:
            if isinstance(action, AddFile):
                if not action.data_change or action.path in added:
                    # Statistics or tags of a file that is there.
                    touched.add(action.path)
                added[action.path] = action
                changes_data |= action.data_change
    return FileChanges(adds=tuple(added.values()), touched=frozenset(touched), changes_data=changes_data)


LOGGER = logging.getLogger("anabranch.uniform")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Converted:
    """What was published."""

    version: int
    anew: bool
    """Whether all manifests were written again."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _NewFiles:
    manifests: ManifestSet
    operation: Operation
    anew: bool


def convert(store: LogStore, snapshot: DeltaSnapshot, *, random: random.Random) -> Converted | None:
    """Publish the Iceberg metadata of this version; None where it, or that of a later version, is there.

    `random` names files and snapshots. Raises whatever storage and library raise.
    """
    return _Conversion(store, snapshot, random).run()


class _Conversion:
    """Of one version."""

    def __init__(self, store: LogStore, snapshot: DeltaSnapshot, source: random.Random) -> None:
        self._store = store
        self._snapshot = snapshot
        self._places = Places(snapshot.table_root, allowed_prefixes=allowed_prefixes_of(store))
        self._files = StoreFiles(store, self._places)
        self._published = MetadataFiles(store, self._places)
        self._snapshot_id = source.getrandbits(62) + 1
        self._name = f"{source.getrandbits(128):032x}"

    def run(self) -> Converted | None:
        version, there = self._snapshot.version, self._published.versions()
        base = self._base(there[-1]) if there else None
        if base is not None and base.version >= version:
            return None
        schema, spec = next_schema(self._snapshot, base), next_spec(self._snapshot, base)
        writer = Manifests(
            self._files, self._places, spec=spec, schema=schema, snapshot_id=self._snapshot_id, name=self._name
        )
        files = self._new_files(base, writer, spec_id=spec.spec_id)
        new: Snapshot | None = None
        if files is not None:
            parent = None if base is None else base.metadata.current_snapshot_id
            place = writer.write_list(files.manifests, parent_id=parent, sequence_number=next_sequence_number(base))
            new = iceberg_snapshot(
                self._snapshot,
                base,
                files.manifests,
                schema,
                snapshot_id=self._snapshot_id,
                manifest_list=place,
                operation=files.operation,
            )
        metadata = next_metadata(self._snapshot, base, schema, spec, new, self._places)
        if not self._published.publish(version, metadata, replacing=version in there):
            return None
        self._published.expire(metadata, [each for each in there if each != version][: -METADATA_KEPT_MAX + 1])
        return Converted(version=version, anew=files is not None and files.anew)

    def _base(self, version: int) -> Base | None:
        """The metadata of that version, if it is this table's and can be read."""
        try:
            metadata = self._published.read(version)
        except (DeltaError, OSError, ValueError, ValidationError):
            LOGGER.warning("%s: Iceberg metadata v%d is of no use", self._places.location, version, exc_info=True)
            return None
        told = metadata.properties.get(DELTA_VERSION, "")
        same = (
            metadata.table_uuid == uuid.UUID(self._snapshot.metadata.id) and metadata.location == self._places.location
        )
        if not isinstance(metadata, TableMetadataV2) or not same or not told.isdecimal():
            return None
        return Base(version=int(told), place=self._published.place(version), metadata=metadata)

    def _new_files(self, base: Base | None, writer: Manifests, *, spec_id: int) -> _NewFiles | None:
        """The manifests of a new snapshot. None where no file changed."""
        maker = DataFileMaker(self._snapshot, self._places, spec_id=spec_id)
        if base is not None and base.metadata.default_spec_id == spec_id:
            changes = changes_between(self._store, after=base.version, upto=self._snapshot.version)
            if changes is not None and changes.is_empty and base.metadata.current_snapshot_id is not None:
                return None
            found = None if changes is None else self._following(base, changes, writer, maker)
            if changes is not None and found is not None:
                return _NewFiles(manifests=found, operation=_operation(found, changes), anew=False)
        anew = writer.anew(map(maker.data_file, self._snapshot.files.to_actions()))
        operation = Operation.APPEND if base is None else Operation.OVERWRITE
        return _NewFiles(manifests=anew, operation=operation, anew=True)

    def _following(
        self, base: Base, changes: FileChanges, writer: Manifests, maker: DataFileMaker
    ) -> ManifestSet | None:
        """None where it would be wrong, or no cheaper than to begin anew."""
        current = base.metadata.current_snapshot()
        before = [] if current is None else manifests_of(self._files, current.manifest_list)
        if len(before) >= MANIFESTS_MAX:
            return None
        gone = frozenset(map(self._places.of_add, changes.touched))
        found = writer.following(before, [maker.data_file(add) for add in changes.adds], gone=gone)
        # A file counted twice, or forgotten, would be rows too many or too few.
        return found if found.live_files == self._snapshot.files.count else None


def _operation(files: ManifestSet, changes: FileChanges) -> Operation:
    if files.deleted_files and not changes.changes_data:
        return Operation.REPLACE
    if files.deleted_files:
        return Operation.OVERWRITE if files.added_files else Operation.DELETE
    return Operation.APPEND
