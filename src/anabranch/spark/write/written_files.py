"""Turns the files of a write job into `add` actions that may be committed."""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import json
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.types import BinaryType, DataType, TimestampType

from anabranch.errors.base import DeltaError
from anabranch.errors.environment import WrittenFileError
from anabranch.protocol.actions import AddFile, insertion_tag
from anabranch.protocol.data_paths import encode_path, parse_partition_path
from anabranch.protocol.partition_values import parse_partition_value, serialize_partition_value
from anabranch.protocol.properties import file_tags
from anabranch.protocol.statistics import indexed_columns
from anabranch.schema.column_mapping import physical_name
from anabranch.spark.engine import WriteRequest, WrittenFiles
from anabranch.spark.write.file_schema import stored_fields
from anabranch.spark.write.footer_statistics import FooterReader, stored_leaves

_FILES_AT_ONCE = 16


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ManifestEntry:
    """A file in the manifest of a write job."""

    url: str
    """The absolute path, URI-encoded."""
    size_bytes: int
    modified_ms: int


def manifest_entries(manifest: Path) -> list[ManifestEntry]:
    """The entries of the manifest of Spark's file sink: a line with its version, then a JSON object for each file."""
    version, *lines = manifest.read_text("utf-8").splitlines()
    assert version == "v1", f"Spark's file sink log has version {version}"
    entries = map(json.loads, lines)
    return [
        ManifestEntry(url=entry["path"], size_bytes=entry["size"], modified_ms=entry["modificationTime"])
        for entry in entries
    ]


def entries_of_text(text: str) -> list[ManifestEntry]:
    """The entries of a text with URL, size and time of modification of each file, each with NUL behind it."""
    parts = iter(text.split("\0")[:-1])
    return [
        ManifestEntry(url=url, size_bytes=int(size), modified_ms=int(modified))
        for url, size, modified in zip(parts, parts, parts, strict=True)
    ]


OpenFile = Callable[[str], pa.NativeFile]
"""Opens a file of the table by its relative, plain path."""


def completed(request: WriteRequest, entries: Sequence[ManifestEntry], open_file: OpenFile) -> WrittenFiles:
    """The files, made durable, with statistics. Files without rows are removed. Raises `WrittenFileError`."""
    if not entries:
        return WrittenFiles(adds=(), num_rows=0, size_bytes=0)
    completion = _Completion(request, open_file)
    with concurrent.futures.ThreadPoolExecutor(_FILES_AT_ONCE, thread_name_prefix="written-files") as pool:
        added = [add for add in pool.map(completion.complete, entries) if add is not None]
        list(pool.map(completion.sync, completion.directories([add for add, _ in added])))
    adds = sorted((add for add, _ in added), key=lambda add: add.path)
    return WrittenFiles(
        adds=tuple(adds),
        num_rows=sum(num_rows for _, num_rows in added),
        size_bytes=sum(add.size for add in adds),
    )


def plain_path(url: str) -> str:
    """The absolute plain path of a Hadoop URL; a local one without its scheme."""
    decoded = unquote(url, errors="strict")
    return "/" + decoded.removeprefix("file:").lstrip("/") if decoded.startswith("file:") else decoded


class _Completion:
    """Completes the files of one write."""

    def __init__(self, request: WriteRequest, open_file: OpenFile) -> None:
        self._request = request
        self._open_file = open_file
        self._root = request.table_root.rstrip("/") + "/"
        self._is_local = request.table_root.startswith("/")
        self._partition_types = {
            physical_name(request.schema[name], request.column_mapping): request.schema[name].dataType
            for name in request.partition_columns
        }
        stored = stored_fields(request.schema, request.partition_columns, request.properties)
        self._tags = file_tags(request.properties)
        self._footers = FooterReader(
            leaves=stored_leaves(stored, request.column_mapping),
            types=indexed_columns(request.schema, request.properties, partition_columns=request.partition_columns),
            string_prefix_length=request.properties.string_prefix_length,
            shredded=(
                (lambda file: stored_leaves(stored, request.column_mapping, stored=file))
                if request.properties.variant_shredding_enabled
                else None
            ),
        )

    def complete(self, entry: ManifestEntry) -> tuple[AddFile, int] | None:
        """The action and its number of rows; None for a file without rows."""
        relative = self._relative(entry)
        metadata = self._metadata(relative, entry)
        if metadata.num_rows == 0:
            self._remove(relative)
            return None
        if self._is_local:
            self.sync(self._root + relative)
        add = AddFile(
            path=encode_path(relative),
            partition_values=self._partition_values(relative),
            size=entry.size_bytes,
            modification_time=entry.modified_ms,
            data_change=True,
            stats=self._footers.statistics(metadata).to_json(),
            tags={**(self._tags or {}), **insertion_tag(entry.modified_ms)},
        )
        return add, metadata.num_rows

    def sync(self, path: str) -> None:
        """Makes a local file or directory durable: it survives a power loss when this returns."""
        with self._disk_errors(path, "could not be made durable"):
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

    def directories(self, adds: Sequence[AddFile]) -> list[str]:
        """Local directories that have a new file or directory: their entries must be made durable, too."""
        if not self._is_local:
            return []
        directories = {self._root, str(Path(self._root).parent)}
        for add in adds:
            parent = Path(self._root + unquote(add.path)).parent
            while len(str(parent)) >= len(self._root):
                directories.add(str(parent))
                parent = parent.parent
        return sorted(directories)

    def _relative(self, entry: ManifestEntry) -> str:
        path = plain_path(entry.url)
        if not path.startswith(self._root):
            raise WrittenFileError(table=self._request.table_root, path=path, problem="lies outside the table")
        return path.removeprefix(self._root)

    def _metadata(self, relative: str, entry: ManifestEntry) -> pq.FileMetaData:
        """The footer. A file that was written only in part has none."""
        with self._disk_errors(relative, "could not be read back"), self._open_file(relative) as file:
            if file.size() != entry.size_bytes:
                problem = f"has {file.size()} bytes where {entry.size_bytes} were written"
                raise WrittenFileError(table=self._request.table_root, path=relative, problem=problem)
            return pq.read_metadata(file)

    def _remove(self, relative: str) -> None:
        """Removes a file that nothing refers to from local disk; on other storages VACUUM removes it."""
        if self._is_local:
            with self._disk_errors(relative, "is without rows and could not be removed"):
                os.unlink(self._root + relative)

    @contextlib.contextmanager
    def _disk_errors(self, path: str, problem: str) -> Iterator[None]:
        """A block in which errors of the disk, or of a footer, raise `WrittenFileError`."""
        try:
            yield
        except DeltaError:
            raise
        except (OSError, pa.ArrowException) as error:
            problem = f"{problem} ({str(error).splitlines()[0]})"
            raise WrittenFileError(table=self._request.table_root, path=path, problem=problem) from error

    def _partition_values(self, relative: str) -> dict[str, str | None]:
        if self._request.partition_values is not None:
            return dict(self._request.partition_values)
        values = parse_partition_path(relative)
        return {name: _as_in_log(values[name], data_type) for name, data_type in self._partition_types.items()}


def _as_in_log(text: str | None, data_type: DataType) -> str | None:
    """A value of a partition directory in the form of the log."""
    if text is None:
        return None
    if isinstance(data_type, BinaryType):
        return serialize_partition_value(bytes.fromhex(text), data_type)
    if isinstance(data_type, TimestampType):
        return serialize_partition_value(parse_partition_value(text, data_type), data_type)
    return text
