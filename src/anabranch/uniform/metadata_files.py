"""The files that readers begin with: `v<n>.metadata.json`, where n is Delta's version, and `version-hint.text`."""

from __future__ import annotations

import logging
import re

from pyiceberg.exceptions import ValidationError
from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil

from anabranch.errors.environment import StorageError
from anabranch.storage.log_store import LogStore, PutOutcome
from anabranch.uniform.manifests import manifests_of
from anabranch.uniform.store_files import StoreFiles
from anabranch.uniform.table_locations import METADATA_DIRECTORY, TableLocations

LOGGER = logging.getLogger("anabranch.uniform")

_HINT = f"{METADATA_DIRECTORY}/version-hint.text"
_NAME = re.compile(r"v(\d+)\.metadata\.json")


class MetadataFiles:
    """The published metadata files of one table."""

    def __init__(self, store: LogStore, locations: TableLocations) -> None:
        self._store = store
        self._locations = locations
        self._files = StoreFiles(store, locations)

    def versions(self) -> list[int]:
        """The versions with published metadata, ascending."""
        names = (file.path.rpartition("/")[2] for file in self._store.list_from(METADATA_DIRECTORY))
        return sorted(int(match[1]) for match in map(_NAME.fullmatch, names) if match)

    def read(self, version: int) -> TableMetadata:
        """The metadata of a version. Raises `FileMissingError`, `StorageError`, and pyiceberg's errors if malformed."""
        return TableMetadataUtil.parse_raw(self._store.read(self._path(version)).decode("utf-8"))

    def location(self, version: int) -> str:
        """The location of the metadata of a version."""
        return self._locations.of_path(self._path(version))

    def publish(self, version: int, metadata: TableMetadata, *, replacing: bool) -> bool:
        """Publish the metadata to readers. Returns False if another writer has published the same version already."""
        data = metadata.model_dump_json().encode("utf-8")
        if replacing:
            self._store.put(self._path(version), data)
        elif self._store.put_if_absent(self._path(version), data) is not PutOutcome.CREATED:
            return False
        # Another writer may have published a later version meanwhile; the hint never goes back.
        newest = max(self.versions(), default=version)
        self._store.put(_HINT, str(newest).encode("ascii"))
        return True

    def expire(self, current: TableMetadata, versions: list[int]) -> None:
        """Delete the metadata of `versions` and the files that only it uses.

        A failure is logged, and leaves files that nothing uses.
        """
        for version in versions:
            try:
                self._expire(version, current)
            except (StorageError, OSError, ValueError, ValidationError):
                LOGGER.warning("%s: old Iceberg metadata v%d was not deleted", self._store.root, version, exc_info=True)

    def _expire(self, version: int, current: TableMetadata) -> None:
        """Delete one version. A manifest of its snapshots that the oldest kept snapshot lacks is in no later one."""
        old = self.read(version)
        kept = {snapshot.manifest_list for snapshot in current.snapshots}
        dropped = [snapshot.manifest_list for snapshot in old.snapshots if snapshot.manifest_list not in kept]
        oldest = min(current.snapshots, key=lambda snapshot: snapshot.sequence_number or 0, default=None)
        used = set() if oldest is None else self._manifests(oldest.manifest_list)
        for manifest_list in dropped:
            for manifest in self._manifests(manifest_list) - used:
                self._files.delete(manifest)
            self._files.delete(manifest_list)
        self._store.delete(self._path(version))

    def _manifests(self, manifest_list: str) -> set[str]:
        path = self._locations.relative(manifest_list)
        if path is None or self._store.head(path) is None:
            return set()
        return {manifest.manifest_path for manifest in manifests_of(self._files, manifest_list)}

    def _path(self, version: int) -> str:
        return f"{METADATA_DIRECTORY}/v{version}.metadata.json"
