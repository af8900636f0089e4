"""What a stream that keeps a log of its columns does at a version that describes its table anew.

It reads up to that version, has what it read committed, notes the new columns and stops. Started again, it reads on
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
from anabranch.schema.merging import HIDDEN_KEYS, visible_schema
from anabranch.schema.paths import FieldPath, schema_differences, transform
from anabranch.schema.serialization import parse_schema
from anabranch.schema.type_widening import TYPE_CHANGES
from anabranch.snapshot.snapshot import Snapshot
from anabranch.streaming.schema_log import SchemaLog, TrackedMetadata
from anabranch.streaming.source_rules import nulls_difference

_WRITERS_KEYS = HIDDEN_KEYS - MAPPING_KEYS - {TYPE_CHANGES}
"""What a field says to writers alone."""


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
        """Whether this run cannot read behind a version that says this of the table."""
        if self._at_start is not None and self._at_start.version >= version:
            return False
        if protocol is not None and not _same_protocol(protocol, self.read_snapshot.protocol):
            return True
        return metadata is not None and not self._same_metadata(metadata)

    def begin(self, first: Snapshot, later: Iterable[Commit], *, version: int) -> None:
        """Make the first entry: `first` and what `later` commits say of the table; all of it is read in one batch.

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
        """Note what a version says of the table and stop; nothing where this run reads on.

        With `replaces` nothing was read with the newest entry, and it counts no more. Raises
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
        before, after = (self._schema(each) for each in (self.read_snapshot.metadata, metadata))
        told = ", ".join(schema_differences(visible_schema(before), visible_schema(after)))
        return StreamedMetadataEvolvedError(
            table=self._table, version=version, difference=told or "its properties or its protocol are others"
        )

    def _same_metadata(self, metadata: Metadata) -> bool:
        read = self.read_snapshot.metadata
        return (
            _for_readers(self._schema(metadata)) == _for_readers(self._schema(read))
            and metadata.partition_columns == read.partition_columns
            and _own_properties(metadata) == _own_properties(read)
        )

    def _reads_all(self, described: Sequence[Metadata]) -> bool:
        columns = [TableColumns.of(each, table=self._table) for each in described]
        return all(
            unreadable_difference(each, columns[-1]) is None and nulls_difference(each, columns[-1]) is None
            for each in columns[:-1]
        )

    def _schema(self, metadata: Metadata) -> StructType:
        return parse_schema(metadata.schema_string, self._table)


def read_snapshot(snapshot: Snapshot, log: SchemaLog | None) -> Snapshot:
    """`snapshot` with the columns that a stream with this log reads."""
    return snapshot if log is None or log.current is None else log.current.of_snapshot(snapshot)


def merge_changes(log: SchemaLog, commits: Iterable[Commit]) -> None:
    """Where changes follow one another with no file between them, note the last in place of the first.

    `commits` are those from the version of the newest entry on. Raises `SchemaLocationConflictError`.
    """
    entry = log.current
    if entry is None:
        return
    metadata, protocol, version = None, None, entry.version - 1
    for commit in commits:
        if commit.version != version + 1 or any(
            isinstance(each, AddFile | RemoveFile | AddCDCFile) for each in commit.actions
        ):
            break
        told = described_in(commit)
        if told == (None, None):
            break
        metadata, protocol, version = told[0] or metadata, told[1] or protocol, commit.version
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
    """What a commit says of its table."""
    metadata = next((each for each in commit.actions if isinstance(each, Metadata)), None)
    return metadata, next((each for each in commit.actions if isinstance(each, Protocol)), None)


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
    """Whether each has what the one before it has."""
    return all(
        _features(before) <= _features(after) and before.min_reader_version <= after.min_reader_version
        for before, after in itertools.pairwise(protocols)
    )
