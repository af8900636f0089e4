"""Manifests, which list data files, and the list of manifests that makes an Iceberg snapshot."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from pyiceberg.avro.codecs import AvroCompressionCodec
from pyiceberg.manifest import (
    DataFile,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    ManifestWriter,
    read_manifest_list,
    write_manifest,
    write_manifest_list,
)
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema

from anabranch.uniform.iceberg_files import FORMAT_VERSION
from anabranch.uniform.store_files import StoreFiles
from anabranch.uniform.table_locations import METADATA_DIRECTORY, TableLocations

FILES_PER_MANIFEST_MAX: Final = 8_000
MANIFESTS_MAX: Final = 100
"""A snapshot with more manifests is rewritten into larger and fewer ones."""
_COMPRESSION: Final[AvroCompressionCodec] = "deflate"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ManifestSet:
    """The manifests of one snapshot."""

    manifests: tuple[ManifestFile, ...]
    added_files: int = 0
    added_rows: int = 0
    deleted_files: int = 0
    deleted_rows: int = 0

    @property
    def live_files(self) -> int:
        return sum(
            (manifest.added_files_count or 0) + (manifest.existing_files_count or 0) for manifest in self.manifests
        )

    @property
    def live_rows(self) -> int:
        return sum(
            (manifest.added_rows_count or 0) + (manifest.existing_rows_count or 0) for manifest in self.manifests
        )


class SnapshotManifests:
    """Writes the manifests and the manifest list of one new snapshot."""

    def __init__(
        self,
        files: StoreFiles,
        locations: TableLocations,
        *,
        spec: PartitionSpec,
        schema: Schema,
        snapshot_id: int,
        name: str,
    ) -> None:
        """`name` is a part of the names of the new files, and must not be one of other files' names."""
        self._files = files
        self._locations = locations
        self._spec = spec
        self._schema = schema
        self._snapshot_id = snapshot_id
        self._name = name
        self._numbers = itertools.count()

    def write_all(self, data_files: Iterable[DataFile]) -> ManifestSet:
        """Write manifests of all files of the table, without those of an earlier snapshot."""
        written = self._added(data_files)
        return _with_counts(written, added=written)

    def write_changes(
        self, before: Sequence[ManifestFile], data_files: Sequence[DataFile], *, removed: frozenset[str]
    ) -> ManifestSet:
        """Write manifests of new files, and those of the snapshot before without the files at `removed` locations."""
        kept: list[ManifestFile] = []
        for manifest in before:
            kept += self._without(manifest, removed) if removed else [manifest]
        added = self._added(data_files)
        return _with_counts([*added, *kept], added=added, snapshot_id=self._snapshot_id)

    def write_list(self, manifests: ManifestSet, *, parent_id: int | None, sequence_number: int) -> str:
        """Write the manifest list. Returns its location."""
        location = self._location(f"snap-{self._snapshot_id}-{self._name}.avro")
        with write_manifest_list(
            format_version=FORMAT_VERSION,
            output_file=self._files.new_output(location),
            snapshot_id=self._snapshot_id,
            parent_snapshot_id=parent_id,
            sequence_number=sequence_number,
            avro_compression=_COMPRESSION,
        ) as writer:
            writer.add_manifests(list(manifests.manifests))
        return location

    def _added(self, data_files: Iterable[DataFile]) -> list[ManifestFile]:
        entries = (
            ManifestEntry.from_args(status=ManifestEntryStatus.ADDED, snapshot_id=self._snapshot_id, data_file=file)
            for file in data_files
        )
        return [
            self._write(part, lambda writer, entry: writer.add(entry))
            for part in _parts(entries, FILES_PER_MANIFEST_MAX)
        ]

    def _without(self, manifest: ManifestFile, removed: frozenset[str]) -> list[ManifestFile]:
        """The manifest itself, or one that replaces it and marks the removed files as deleted."""
        entries = manifest.fetch_manifest_entry(self._files)
        if not any(entry.data_file.file_path in removed for entry in entries):
            # A manifest without entries lists only files that were deleted earlier, and is dropped.
            return [manifest] if entries else []

        def write(writer: ManifestWriter, entry: ManifestEntry) -> ManifestWriter:
            return writer.delete(entry) if entry.data_file.file_path in removed else writer.existing(entry)

        return [self._write(entries, write)]

    def _write(
        self, entries: Iterable[ManifestEntry], write: Callable[[ManifestWriter, ManifestEntry], ManifestWriter]
    ) -> ManifestFile:
        location = self._location(f"{self._name}-m{next(self._numbers)}.avro")
        with write_manifest(
            format_version=FORMAT_VERSION,
            spec=self._spec,
            schema=self._schema,
            output_file=self._files.new_output(location),
            snapshot_id=self._snapshot_id,
            avro_compression=_COMPRESSION,
        ) as writer:
            for entry in entries:
                write(writer, entry)
        return writer.to_manifest_file()

    def _location(self, name: str) -> str:
        return self._locations.of_path(f"{METADATA_DIRECTORY}/{name}")


def manifests_of(files: StoreFiles, manifest_list: str) -> list[ManifestFile]:
    """The manifests of a snapshot."""
    return list(read_manifest_list(files.new_input(manifest_list)))


def _with_counts(
    manifests: Sequence[ManifestFile], *, added: Sequence[ManifestFile], snapshot_id: int | None = None
) -> ManifestSet:
    written = [manifest for manifest in manifests if manifest.added_snapshot_id == snapshot_id]
    return ManifestSet(
        manifests=tuple(manifests),
        added_files=sum(manifest.added_files_count or 0 for manifest in added),
        added_rows=sum(manifest.added_rows_count or 0 for manifest in added),
        deleted_files=sum(manifest.deleted_files_count or 0 for manifest in written),
        deleted_rows=sum(manifest.deleted_rows_count or 0 for manifest in written),
    )


def _parts(entries: Iterable[ManifestEntry], size: int) -> Iterator[list[ManifestEntry]]:
    remaining = iter(entries)
    while part := list(itertools.islice(remaining, size)):
        yield part
