"""The files that readers begin with: `v<n>.metadata.json`, where n is Delta's version, and `version-hint.text`."""

from __future__ import annotations

import dataclasses
import io
import itertools
import logging
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from pyiceberg.avro.codecs import AvroCompressionCodec
from pyiceberg.exceptions import ValidationError
from pyiceberg.io import FileIO, InputFile, InputStream, OutputFile, OutputStream
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
from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil

from anabranch.errors.environment import FileMissingError, StorageError
from anabranch.storage.log_store import LogStore, PutOutcome
from anabranch.uniform.iceberg_files import FORMAT_VERSION, METADATA_DIRECTORY, Places

# The table's own storage, as Iceberg's library asks for files.


class StoreFiles(FileIO):
    """Reads and writes files below the root of a table. A file is stored when it is complete."""

    def __init__(self, store: LogStore, places: Places) -> None:
        super().__init__()
        self._store = store
        self._places = places

    def new_input(self, location: str) -> InputFile:
        return _Input(self._store, self._path(location), location)

    def new_output(self, location: str) -> OutputFile:
        return _Output(self._store, self._path(location), location)

    def delete(self, location: str | InputFile | OutputFile) -> None:
        self._store.delete(self._path(location if isinstance(location, str) else location.location))

    def _path(self, location: str) -> str:
        found = self._places.relative(location)
        if found is None:
            raise FileMissingError(root=self._store.root, path=location)
        return found


class _Input(InputFile):
    def __init__(self, store: LogStore, path: str, location: str) -> None:
        super().__init__(location)
        self._store = store
        self._path = path

    def __len__(self) -> int:
        found = self._store.head(self._path)
        return 0 if found is None else found.size_bytes

    def exists(self) -> bool:
        return self._store.head(self._path) is not None

    def open(self, seekable: bool = True) -> InputStream:  # noqa: ARG002 - the library's signature
        return io.BytesIO(self._store.read(self._path))


class _Output(OutputFile):
    def __init__(self, store: LogStore, path: str, location: str) -> None:
        super().__init__(location)
        self._store = store
        self._path = path
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def exists(self) -> bool:
        return self._store.head(self._path) is not None

    def to_input_file(self) -> InputFile:
        return _Input(self._store, self._path, self.location)

    def create(self, overwrite: bool = False) -> OutputStream:  # noqa: ARG002 - names are never used twice
        return _Complete(self)

    def stored(self, data: bytes) -> None:
        """Store the file, which is complete."""
        self._store.put(self._path, data)
        self._size = len(data)


class _Complete(io.BytesIO):
    """Keeps what is written until it is closed."""

    def __init__(self, output: _Output) -> None:
        super().__init__()
        self._output = output

    def close(self) -> None:
        if not self.closed:
            self._output.stored(self.getvalue())
        super().close()


# Manifests: lists of data files, and the list of these lists that makes a snapshot.


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
