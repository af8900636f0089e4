"""The actions of a commit, field for field.

Implements "Actions" of PROTOCOL.md. Values are frozen; a field that is absent in JSON is `None`, and
fields this version does not know are kept in `unknown`, so that reading and writing back loses nothing.
Fields the protocol requires have no default, so that they are always written.
"""

from __future__ import annotations

from typing import Any

import msgspec


class Action(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """What all actions share."""

    unknown: dict[str, Any] | msgspec.UnsetType = msgspec.field(default=msgspec.UNSET, name="__unknown__")
    """Fields found in the log that the protocol did not name when this was written; UNSET for none."""


class Format(Action, frozen=True, kw_only=True):
    """How data files are encoded. See "Format Specification"."""

    provider: str
    options: dict[str, str]


PARQUET = Format(provider="parquet", options={})


class Metadata(Action, frozen=True, kw_only=True):
    """Schema, partitioning and properties of a table. See "Change Metadata"."""

    id: str
    name: str | None = None
    description: str | None = None
    format: Format
    schema_string: str
    partition_columns: list[str]
    configuration: dict[str, str | None]
    created_time: int | None = None
    """Milliseconds since the Unix epoch."""


class Protocol(Action, frozen=True, kw_only=True):
    """What a client must support. See "Protocol Evolution"."""

    min_reader_version: int
    min_writer_version: int
    reader_features: list[str] | None = None
    writer_features: list[str] | None = None


class DeletionVectorDescriptor(Action, frozen=True, kw_only=True):
    """Where the hidden rows of a file are listed. See "Deletion Vector Descriptor Schema"."""

    storage_type: str
    """`u`: file named by UUID in the table, `p`: absolute path, `i`: inline."""
    path_or_inline_dv: str = msgspec.field(name="pathOrInlineDv")
    offset: int | None = None
    size_in_bytes: int
    cardinality: int
    max_row_index: int | None = None

    @property
    def unique_id(self) -> str:
        """See "Derived Fields": with the path of the data file, the identity of a logical file."""
        if self.offset is None:
            return f"{self.storage_type}{self.path_or_inline_dv}"
        return f"{self.storage_type}{self.path_or_inline_dv}@{self.offset}"


class AddFile(Action, frozen=True, kw_only=True):
    """A logical file that is in the table from here on. See "Add File and Remove File"."""

    path: str
    """URI-encoded, as in the log."""
    partition_values: dict[str, str | None]
    """By physical name."""
    size: int
    modification_time: int
    data_change: bool
    stats: str | None = None
    tags: dict[str, str | None] | None = None
    deletion_vector: DeletionVectorDescriptor | None = None
    base_row_id: int | None = None
    default_row_commit_version: int | None = None
    clustering_provider: str | None = None

    @property
    def key(self) -> tuple[str, str | None]:
        """The identity of a logical file: path and vector id."""
        return self.path, self.deletion_vector.unique_id if self.deletion_vector else None


class RemoveFile(Action, frozen=True, kw_only=True):
    """A logical file that is gone from here on. See "Add File and Remove File"."""

    path: str
    """URI-encoded, as in the log."""
    deletion_timestamp: int | None = None
    data_change: bool
    extended_file_metadata: bool | None = None
    partition_values: dict[str, str | None] | None = None
    size: int | None = None
    stats: str | None = None
    tags: dict[str, str | None] | None = None
    deletion_vector: DeletionVectorDescriptor | None = None
    base_row_id: int | None = None
    default_row_commit_version: int | None = None

    @property
    def key(self) -> tuple[str, str | None]:
        """The identity of a logical file: path and vector id."""
        return self.path, self.deletion_vector.unique_id if self.deletion_vector else None


class AddCDCFile(Action, frozen=True, kw_only=True):
    """A file of changed rows. See "Add CDC File"."""

    path: str
    partition_values: dict[str, str | None]
    size: int
    data_change: bool
    tags: dict[str, str | None] | None = None


class SetTransaction(Action, frozen=True, kw_only=True):
    """How far an application got. See "Transaction Identifiers"."""

    app_id: str
    version: int
    last_updated: int | None = None


class DomainMetadata(Action, frozen=True, kw_only=True):
    """Configuration of one named domain. See "Domain Metadata"."""

    domain: str
    configuration: str
    removed: bool


class CommitInfo(Action, frozen=True, kw_only=True):
    """Who did what. See "Commit Provenance Information"."""

    version: int | None = None
    in_commit_timestamp: int | None = None
    timestamp: int | None = None
    user_id: str | None = None
    user_name: str | None = None
    operation: str | None = None
    operation_parameters: dict[str, Any] | None = None
    job: dict[str, Any] | None = None
    notebook: dict[str, Any] | None = None
    cluster_id: str | None = None
    read_version: int | None = None
    isolation_level: str | None = None
    is_blind_append: bool | None = None
    operation_metrics: dict[str, Any] | None = None
    user_metadata: str | None = None
    tags: dict[str, Any] | None = None
    engine_info: str | None = None
    txn_id: str | None = None


class Sidecar(Action, frozen=True, kw_only=True):
    """A file that holds a part of a V2 checkpoint. See "Sidecar File Information"."""

    path: str
    size_in_bytes: int
    modification_time: int
    tags: dict[str, str | None] | None = None


class CheckpointMetadata(Action, frozen=True, kw_only=True):
    """What a V2 checkpoint says of itself. See "Checkpoint Metadata"."""

    version: int
    tags: dict[str, str | None] | None = None
