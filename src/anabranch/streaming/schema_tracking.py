"""How a stream with a schema log handles a version that changes the metadata of its table.

It reads up to that version, commits the batch, appends the new columns to the log and stops. Started again, it reads on
from that very version, with the new columns.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

from pyspark.sql.types import StructField, StructType

from anabranch.change_feed.schema_compatibility import TableColumns, unreadable_difference
from anabranch.errors.streaming import SchemaLogStartError, StreamedMetadataEvolvedError
from anabranch.log.commit_files import Commit
from anabranch.protocol.actions import AddCDCFile, AddFile, Metadata, Protocol, RemoveFile
from anabranch.schema.column_mapping import MAPPING_KEYS
from anabranch.schema.paths import FieldPath, schema_differences, transform
from anabranch.schema.schema_evolution import HIDDEN_KEYS, TYPE_CHANGES, visible_schema
from anabranch.schema.serialization import parse_schema
from anabranch.snapshot.snapshot import Snapshot
from anabranch.streaming.schema_log import SchemaLog, TrackedMetadata
from anabranch.streaming.source_rules import nulls_difference

_WRITERS_KEYS = HIDDEN_KEYS - MAPPING_KEYS - {TYPE_CHANGES}
"""Metadata of fields that only writers read."""


class SchemaTracking:
    """The schema log of one run of a query, and the columns with which this run reads."""

    def __init__(self, log: SchemaLog, *, table: str, snapshot: Snapshot, source_path: str) -> None:
        """`snapshot` is the newest version at the start, whose columns are read where the log is empty."""
        self._log = log
        self._table = table
        self._source_path = source_path
        self._at_start = log.current
        self.read_snapshot = read_snapshot(snapshot, log)
        """`snapshot`, with the columns of this run."""

    @property
    def is_begun(self) -> bool:
        return self._log.current is not None

    @property
    def read_version(self) -> int:
        """The version from which on the table has the columns of this run."""
        return self.read_snapshot.version if self._at_start is None else self._at_start.version

    def changes(self, metadata: Metadata | None, protocol: Protocol | None, version: int) -> bool:
        """Whether this run has to stop at a version with this metadata and protocol."""
        if self._at_start is not None and self._at_start.version >= version:
            return False
        if protocol is not None and not _same_protocol(protocol, self.read_snapshot.protocol):
            return True
        return metadata is not None and not self._same_metadata(metadata)

    def begin(self, first: Snapshot, later: Iterable[Commit], *, version: int) -> None:
        """Append the first entry: the metadata of `first`, changed by `later` commits, which one batch reads together.

        Raises `SchemaLogStartError`, `StreamedMetadataEvolvedError`, `SchemaLocationConflictError`.
        """
        described, protocols = [first.metadata], [first.protocol]
        for commit in later:
            described += [action for action in commit.actions if isinstance(action, Metadata)]
            protocols += [action for action in commit.actions if isinstance(action, Protocol)]
        if not self._reads_all(described) or not _grow(protocols):
            raise SchemaLogStartError(table=self._table, start=first.version, end=version)
        metadata, protocol = described[-1], protocols[-1]
        self._log.append(self._entry(metadata, protocol, version))
        if self.changes(metadata, protocol, version):
            raise self._evolved(metadata, version)

    def evolve(
        self, metadata: Metadata | None, protocol: Protocol | None, version: int, *, replaces: bool = False
    ) -> None:
        """Append the metadata of a version and stop; nothing happens where this run can read on.

        With `replaces` it replaces the newest entry, with which nothing was read. Raises
        `StreamedMetadataEvolvedError`, `SchemaLocationConflictError`.
        """
        if not self.changes(metadata, protocol, version):
            return
        now = metadata or self.read_snapshot.metadata
        self._log.append(self._entry(now, protocol or self.read_snapshot.protocol, version), replaces=replaces)
        raise self._evolved(now, version)

    def _entry(self, metadata: Metadata, protocol: Protocol, version: int) -> TrackedMetadata:
        return TrackedMetadata.of(metadata, protocol, version=version, source_path=self._source_path)

    def _evolved(self, metadata: Metadata, version: int) -> StreamedMetadataEvolvedError:
        before, after = (self._schema(version) for version in (self.read_snapshot.metadata, metadata))
        changes = ", ".join(schema_differences(visible_schema(before), visible_schema(after)))
        return StreamedMetadataEvolvedError(
            table=self._table, version=version, difference=changes or "its properties or its protocol have changed"
        )

    def _same_metadata(self, metadata: Metadata) -> bool:
        read = self.read_snapshot.metadata
        return (
            _for_readers(self._schema(metadata)) == _for_readers(self._schema(read))
            and metadata.partition_columns == read.partition_columns
            and _own_properties(metadata) == _own_properties(read)
        )

    def _reads_all(self, described: Sequence[Metadata]) -> bool:
        columns = [TableColumns.of(metadata, table=self._table) for metadata in described]
        return all(
            unreadable_difference(older, columns[-1]) is None and nulls_difference(older, columns[-1]) is None
            for older in columns[:-1]
        )

    def _schema(self, metadata: Metadata) -> StructType:
        return parse_schema(metadata.schema_string, self._table)


def read_snapshot(snapshot: Snapshot, log: SchemaLog | None) -> Snapshot:
    """`snapshot` with the columns that a stream with this log reads."""
    return snapshot if log is None or log.current is None else log.current.of_snapshot(snapshot)


def merge_changes(log: SchemaLog, commits: Iterable[Commit]) -> None:
    """Replace the newest entry by the last of the changes that follow it with no file between them.

    `commits` are those from the version of the newest entry on. Raises `SchemaLocationConflictError`.
    """
    entry = log.current
    if entry is None:
        return
    metadata, protocol, version = None, None, entry.version - 1
    for commit in commits:
        if commit.version != version + 1 or any(
            isinstance(action, AddFile | RemoveFile | AddCDCFile) for action in commit.actions
        ):
            break
        new_metadata, new_protocol = described_in(commit)
        if new_metadata is None and new_protocol is None:
            break
        metadata, protocol, version = new_metadata or metadata, new_protocol or protocol, commit.version
    if version <= entry.version:
        return
    merged = TrackedMetadata(
        table_id=entry.table_id,
        version=version,
        schema_string=entry.schema_string if metadata is None else metadata.schema_string,
        partition_columns=entry.partition_columns if metadata is None else tuple(metadata.partition_columns),
        source_path=entry.source_path,
        configuration=entry.configuration if metadata is None else metadata.configuration,
        protocol=protocol or entry.protocol,
    )
    log.append(merged, replaces=True)


def described_in(commit: Commit) -> tuple[Metadata | None, Protocol | None]:
    """The metadata and the protocol that a commit sets; None where it sets none."""
    metadata = next((action for action in commit.actions if isinstance(action, Metadata)), None)
    return metadata, next((action for action in commit.actions if isinstance(action, Protocol)), None)


def _for_readers(schema: StructType) -> StructType:
    def hide(_path: FieldPath, field: StructField) -> StructField:
        kept = {key: value for key, value in field.metadata.items() if key not in _WRITERS_KEYS}
        return StructField(field.name, field.dataType, field.nullable, kept)

    return transform(schema, hide)


def _own_properties(metadata: Metadata) -> dict[str, str | None]:
    return {key: value for key, value in metadata.configuration.items() if key.startswith("delta.")}


def _features(protocol: Protocol) -> set[str]:
    return {*(protocol.reader_features or ()), *(protocol.writer_features or ())}


def _same_protocol(one: Protocol, other: Protocol) -> bool:
    versions = (one.min_reader_version, one.min_writer_version) == (other.min_reader_version, other.min_writer_version)
    readers = set(one.reader_features or ()) == set(other.reader_features or ())
    return versions and readers and set(one.writer_features or ()) == set(other.writer_features or ())


def _grow(protocols: Sequence[Protocol]) -> bool:
    """Whether no protocol lacks a feature of the one before it."""
    return all(
        _features(before) <= _features(after) and before.min_reader_version <= after.min_reader_version
        for before, after in itertools.pairwise(protocols)
    )
