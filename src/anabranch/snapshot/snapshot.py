"""One version of one table."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import pyarrow as pa
from pyspark.sql.types import StructType

from anabranch.cached_property import cached_property
from anabranch.data_skipping.file_skipping import SkippingColumns
from anabranch.data_skipping.generated_bounds import generated_partitions
from anabranch.errors.schema import MalformedSchemaError
from anabranch.log.checksum import VersionChecksum
from anabranch.log.log_segment import LogSegment
from anabranch.protocol.actions import CommitInfo, DomainMetadata, Metadata, Protocol, SetTransaction
from anabranch.protocol.features import supported, supported_features
from anabranch.protocol.properties import TableProperties
from anabranch.schema.column_mapping import ColumnMappingMode, physical_name, to_physical
from anabranch.schema.computed_columns import RowTrackingColumns, row_tracking_columns
from anabranch.schema.names import own_names
from anabranch.schema.schema_evolution import check_type_changes
from anabranch.schema.serialization import parse_schema
from anabranch.snapshot.live_files import LiveFiles
from anabranch.snapshot.replay import Tombstones

_OF_METADATA = (
    "properties",
    "schema",
    "unreadable_columns",
    "column_mapping_mode",
    "partition_columns",
    "physical_partition_columns",
    "physical_schema",
    "row_tracking",
)
"""The properties of a snapshot that are derived from its metadata and its protocol alone."""


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Snapshot:
    """One version of one table. Its protocol was checked: anabranch can read it.

    Values derived from `metadata` are parsed at first use.
    """

    table_root: str
    version: int
    protocol: Protocol
    metadata: Metadata
    files: LiveFiles
    set_transactions: Mapping[str, SetTransaction]
    """The transactions within `delta.setTransactionRetentionDuration`, by application id."""
    domain_metadata: Mapping[str, DomainMetadata]
    """The domain metadata by domain, without removed ones."""
    timestamp_ms: int
    """When the version was committed: the in-commit timestamp where the table has them, else the file's time."""
    info: CommitInfo | None = None
    """The provenance of this version; None if the commit has none, or was not read because of a checkpoint."""
    segment: LogSegment
    all_tombstones: Tombstones = dataclasses.field(repr=False)

    @cached_property
    def properties(self) -> TableProperties:
        return TableProperties(self.metadata.configuration)

    @cached_property
    def schema(self) -> StructType:
        """The schema with logical names. Raises an error of `errors.schema` if it is invalid."""
        schema = parse_schema(self.metadata.schema_string, self.table_root)
        check_type_changes(schema, self.table_root)
        for name in self.metadata.partition_columns:
            if name not in schema.fieldNames():
                reason = "the table is partitioned by it, and there is no such column"
                raise MalformedSchemaError(table=self.table_root, field=name, reason=reason)
        return schema

    @cached_property
    def unreadable_columns(self) -> tuple[str, ...]:
        """The columns whose names scans use for columns of their own, so that Spark cannot read the table."""
        return own_names(self.schema)

    @cached_property
    def column_mapping_mode(self) -> ColumnMappingMode:
        return ColumnMappingMode(self.properties.column_mapping_mode)

    @cached_property
    def partition_columns(self) -> tuple[str, ...]:
        """The logical names of the partition columns."""
        return tuple(self.metadata.partition_columns)

    @cached_property
    def physical_partition_columns(self) -> tuple[str, ...]:
        """The names of the partition columns in `partition_values`, in the order of `partition_columns`."""
        physical = {field.name: physical_name(field, self.column_mapping_mode) for field in self.schema.fields}
        return tuple(physical.get(name, name) for name in self.partition_columns)

    @cached_property
    def physical_schema(self) -> StructType:
        """The schema with the names that data files and statistics use."""
        return to_physical(self.schema, self.column_mapping_mode)

    @cached_property
    def row_tracking(self) -> RowTrackingColumns | None:
        """The columns with the row ids of the table; None without row tracking. Raises `RowTrackingColumnsError`."""
        return row_tracking_columns(self.protocol, self.properties, self.schema, table=self.table_root)

    @cached_property
    def skipping_columns(self) -> SkippingColumns:
        """Partition values and statistics of the files, in the order of `files.table`; parsed column by column."""
        return SkippingColumns(
            self.files.table,
            physical_schema=self.physical_schema,
            partition_columns=self.physical_partition_columns,
            generated=generated_partitions(self.schema, self.partition_columns, self.column_mapping_mode)
            if self.partition_columns
            else (),
            load_stats=self.files.stats_batches,
        )

    def shown_properties(self) -> dict[str, str]:
        """The properties of the table as users see them: with the protocol in the form of properties."""
        shown = {name: value for name, value in self.metadata.configuration.items() if value is not None}
        shown["delta.minReaderVersion"] = str(self.protocol.min_reader_version)
        shown["delta.minWriterVersion"] = str(self.protocol.min_writer_version)
        if self.protocol.writer_features is not None:
            shown |= {f"delta.feature.{name}": "supported" for name in supported_features(self.protocol)}
        return shown

    @property
    def is_checkpoint_due(self) -> bool:
        """Whether a checkpoint is due after this version. See `delta.checkpointInterval`."""
        return self.version > 0 and self.version % self.properties.checkpoint_interval == 0

    def checksum(self, *, txn_id: str | None = None) -> VersionChecksum:
        """The content of `N.crc` of this version; `txn_id` is that of its commit. See "Version Checksum File"."""
        summary = self.files.summary
        has_vectors = supported(self.protocol, "deletionVectors")
        return VersionChecksum(
            table_size_bytes=summary.size_bytes,
            num_files=self.files.count,
            metadata=self.metadata,
            protocol=self.protocol,
            txn_id=txn_id,
            in_commit_timestamp_ms=self.timestamp_ms if self.properties.in_commit_timestamps_enabled else None,
            set_transactions=tuple(self.set_transactions.values()),
            domain_metadata=tuple(self.domain_metadata.values()),
            file_sizes=summary.file_sizes,
            num_deleted_records=summary.deleted_records if has_vectors else None,
            num_deletion_vectors=summary.deletion_vectors if has_vectors else None,
            deleted_record_counts=tuple(summary.deleted_counts.tolist()) if has_vectors else None,
        )

    def with_parsed_metadata(self, earlier: Snapshot) -> Snapshot:
        """This snapshot, with what `earlier` has parsed of the metadata, if it has the same."""
        if earlier.metadata is self.metadata and earlier.protocol is self.protocol:
            parsed = vars(earlier)
            vars(self).update({name: parsed[name] for name in _OF_METADATA if name in parsed})
        return self

    def tombstones(self, *, after_ms: int | None = None) -> pa.Table:
        """Removed files as in `TOMBSTONE_SCHEMA`; with `after_ms` only those removed later. Read at first use."""
        return self.all_tombstones.table if after_ms is None else self.all_tombstones.retained(after_ms=after_ms)

    def tombstone_retention_start_ms(self, *, now_ms: int) -> int:
        """The time up to which tombstones have expired. See `delta.deletedFileRetentionDuration`."""
        return now_ms - self.properties.deleted_file_retention_ms
