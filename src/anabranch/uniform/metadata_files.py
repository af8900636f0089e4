"""The files that readers begin with: `v<n>.metadata.json`, where n is Delta's version, and `version-hint.text`."""

from __future__ import annotations

import logging
import re

from pyiceberg.exceptions import ValidationError
from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil

from anabranch.errors.storage import StorageError
from anabranch.storage.log_store import LogStore, PutOutcome
from anabranch.uniform.manifests import manifests_of
from anabranch.uniform.places import METADATA_DIRECTORY, Places
from anabranch.uniform.store_files import StoreFiles

LOGGER = logging.getLogger("anabranch.uniform")

_HINT = f"{METADATA_DIRECTORY}/version-hint.text"
_NAME = re.compile(r"v(\d+)\.metadata\.json")


class MetadataFiles:
    """Those of one table."""

    def __init__(self, store: LogStore, places: Places) -> None:
        self._store = store
        self._places = places
        self._files = StoreFiles(store, places)

    def versions(self) -> list[int]:
        """All there are, ascending."""
        names = (file.path.rpartition("/")[2] for file in self._store.list_from(METADATA_DIRECTORY))
        return sorted(int(match[1]) for match in map(_NAME.fullmatch, names) if match)

    def read(self, version: int) -> TableMetadata:
        """Raises `FileMissingError`, `StorageError`, and the library's errors for what is no metadata."""
        return TableMetadataUtil.parse_raw(self._store.read(self._path(version)).decode("utf-8"))

    def place(self, version: int) -> str:
        """Where a reader finds the metadata of a version."""
        return self._places.of(self._path(version))

    def publish(self, version: int, metadata: TableMetadata, *, replacing: bool) -> bool:
        """Show the metadata to readers. False where another writer has published the same version already."""
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
        """Drop the metadata of `versions`, and what belongs to it alone. A failure leaves files that harm nobody."""
        for version in versions:
            try:
                self._expire(version, current)
            except (StorageError, OSError, ValueError, ValidationError):
                LOGGER.warning("%s: old Iceberg metadata v%d stays", self._store.root, version, exc_info=True)

    def _expire(self, version: int, current: TableMetadata) -> None:
        """Manifests are handed on from snapshot to snapshot: one that the oldest kept snapshot has not, none has."""
        old = self.read(version)
        kept = {each.manifest_list for each in current.snapshots}
        dropped = [each.manifest_list for each in old.snapshots if each.manifest_list not in kept]
        oldest = min(current.snapshots, key=lambda each: each.sequence_number or 0, default=None)
        used = set() if oldest is None else self._manifests(oldest.manifest_list)
        for place in dropped:
            for manifest in self._manifests(place) - used:
                self._files.delete(manifest)
            self._files.delete(place)
        self._store.delete(self._path(version))

    def _manifests(self, manifest_list: str) -> set[str]:
        path = self._places.relative(manifest_list)
        if path is None or self._store.head(path) is None:
            return set()
        return {each.manifest_path for each in manifests_of(self._files, manifest_list)}

    def _path(self, version: int) -> str:
        return f"{METADATA_DIRECTORY}/v{version}.metadata.json"
