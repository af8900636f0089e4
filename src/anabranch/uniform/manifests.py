"""Manifests: lists of data files, and the list of these lists that makes a snapshot."""

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

from anabranch.uniform.data_files import FORMAT_VERSION
from anabranch.uniform.places import METADATA_DIRECTORY, Places
from anabranch.uniform.store_files import StoreFiles

FILES_PER_MANIFEST_MAX: Final = 8_000
MANIFESTS_MAX: Final = 100
"""Beyond these, all are written anew, larger and fewer."""
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
        return sum((each.added_files_count or 0) + (each.existing_files_count or 0) for each in self.manifests)

    @property
    def live_rows(self) -> int:
        return sum((each.added_rows_count or 0) + (each.existing_rows_count or 0) for each in self.manifests)


class Manifests:
    """Writes those of one new snapshot."""

    def __init__(
        self, files: StoreFiles, places: Places, *, spec: PartitionSpec, schema: Schema, snapshot_id: int, name: str
    ) -> None:
        """`name` is in no other file's name."""
        self._files = files
        self._places = places
        self._spec = spec
        self._schema = schema
        self._snapshot_id = snapshot_id
        self._name = name
        self._numbers = itertools.count()

    def anew(self, data_files: Iterable[DataFile]) -> ManifestSet:
        """All files of the table, whatever was there before."""
        written = self._added(data_files)
        return _with_counts(written, added=written)

    def following(
        self, before: Sequence[ManifestFile], data_files: Sequence[DataFile], *, gone: frozenset[str]
    ) -> ManifestSet:
        """Those of the snapshot before, less the files at the places `gone`, and the new files."""
        kept: list[ManifestFile] = []
        for manifest in before:
            kept += self._without(manifest, gone) if gone else [manifest]
        added = self._added(data_files)
        return _with_counts([*added, *kept], added=added, snapshot_id=self._snapshot_id)

    def write_list(self, manifests: ManifestSet, *, parent_id: int | None, sequence_number: int) -> str:
        """The list of all of them. Gives back its place."""
        place = self._place(f"snap-{self._snapshot_id}-{self._name}.avro")
        with write_manifest_list(
            format_version=FORMAT_VERSION,
            output_file=self._files.new_output(place),
            snapshot_id=self._snapshot_id,
            parent_snapshot_id=parent_id,
            sequence_number=sequence_number,
            avro_compression=_COMPRESSION,
        ) as writer:
            writer.add_manifests(list(manifests.manifests))
        return place

    def _added(self, data_files: Iterable[DataFile]) -> list[ManifestFile]:
        entries = (
            ManifestEntry.from_args(status=ManifestEntryStatus.ADDED, snapshot_id=self._snapshot_id, data_file=each)
            for each in data_files
        )
        return [
            self._write(part, lambda writer, entry: writer.add(entry))
            for part in _parts(entries, FILES_PER_MANIFEST_MAX)
        ]

    def _without(self, manifest: ManifestFile, gone: frozenset[str]) -> list[ManifestFile]:
        """The manifest as it is, or another one in its place that says which files are no more."""
        entries = manifest.fetch_manifest_entry(self._files)
        if not any(entry.data_file.file_path in gone for entry in entries):
            # What only tells of files that went earlier is of no more use.
            return [manifest] if entries else []

        def note(writer: ManifestWriter, entry: ManifestEntry) -> ManifestWriter:
            return writer.delete(entry) if entry.data_file.file_path in gone else writer.existing(entry)

        return [self._write(entries, note)]

    def _write(
        self, entries: Iterable[ManifestEntry], note: Callable[[ManifestWriter, ManifestEntry], ManifestWriter]
    ) -> ManifestFile:
        place = self._place(f"{self._name}-m{next(self._numbers)}.avro")
        with write_manifest(
            format_version=FORMAT_VERSION,
            spec=self._spec,
            schema=self._schema,
            output_file=self._files.new_output(place),
            snapshot_id=self._snapshot_id,
            avro_compression=_COMPRESSION,
        ) as writer:
            for entry in entries:
                note(writer, entry)
        return writer.to_manifest_file()

    def _place(self, name: str) -> str:
        return self._places.of(f"{METADATA_DIRECTORY}/{name}")


def manifests_of(files: StoreFiles, manifest_list: str) -> list[ManifestFile]:
    """The manifests of a snapshot."""
    return list(read_manifest_list(files.new_input(manifest_list)))


def _with_counts(
    manifests: Sequence[ManifestFile], *, added: Sequence[ManifestFile], snapshot_id: int | None = None
) -> ManifestSet:
    written = [each for each in manifests if each.added_snapshot_id == snapshot_id]
    return ManifestSet(
        manifests=tuple(manifests),
        added_files=sum(each.added_files_count or 0 for each in added),
        added_rows=sum(each.added_rows_count or 0 for each in added),
        deleted_files=sum(each.deleted_files_count or 0 for each in written),
        deleted_rows=sum(each.deleted_rows_count or 0 for each in written),
    )


def _parts(entries: Iterable[ManifestEntry], size: int) -> Iterator[list[ManifestEntry]]:
    remaining = iter(entries)
    while part := list(itertools.islice(remaining, size)):
        yield part
