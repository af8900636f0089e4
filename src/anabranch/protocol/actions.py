"""The actions of a commit, field for field.

Implements "Actions" of PROTOCOL.md. Values are frozen; a field that is absent in JSON is `None`, and
fields this version does not know are kept in `unknown`, so that reading and writing back loses nothing.
Fields the protocol requires have no default, so that they are always written.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

import msgspec

Long = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
"""A Java long; decoding refuses anything beyond, as other readers would."""
Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
"""A size, an offset or a count."""
SmallCount = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
"""The same, where the protocol has an integer of 32 bits."""


class Action(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel", forbid_unknown_fields=True):
    """The base of all actions.

    Decoding straight into these types fails on unknown fields; `actions_json` then decodes more slowly and
    keeps them.
    """

    unknown: dict[str, Any] | msgspec.UnsetType = msgspec.field(default=msgspec.UNSET, name="__unknown__")
    """Fields in the log that the protocol did not define when this was written; UNSET for none."""


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
    created_time: Long | None = None
    """Milliseconds since the Unix epoch."""


class Protocol(Action, frozen=True, kw_only=True):
    """What a client must support. See "Protocol Evolution"."""

    min_reader_version: Long
    min_writer_version: Long
    reader_features: list[str] | None = None
    writer_features: list[str] | None = None


class DeletionVectorDescriptor(Action, frozen=True, kw_only=True):
    """Where the hidden rows of a file are listed. See "Deletion Vector Descriptor Schema"."""

    storage_type: str
    """`u`: a file in the table with a UUID in its name, `p`: an absolute path, `i`: inline."""
    path_or_inline_dv: str = msgspec.field(name="pathOrInlineDv")
    offset: SmallCount | None = None
    size_in_bytes: SmallCount
    cardinality: Count
    max_row_index: Count | None = None

    @property
    def unique_id(self) -> str:
        """See "Derived Fields": with the path of the data file, the identity of a logical file."""
        if self.offset is None:
            return f"{self.storage_type}{self.path_or_inline_dv}"
        return f"{self.storage_type}{self.path_or_inline_dv}@{self.offset}"


INSERTION_TIME: Final = "INSERTION_TIME"
"""The tag of `add` with the time, in microseconds, when its rows were inserted. A rewrite of the file keeps it."""


class AddFile(Action, frozen=True, kw_only=True):
    """A logical file added to the table by a commit. See "Add File and Remove File"."""

    path: str
    """URI-encoded, as in the log."""
    partition_values: dict[str, str | None]
    """By physical name."""
    size: Count
    modification_time: Long
    data_change: bool
    stats: str | None = None
    tags: dict[str, str | None] | None = None
    deletion_vector: DeletionVectorDescriptor | None = None
    base_row_id: Long | None = None
    default_row_commit_version: Long | None = None
    clustering_provider: str | None = None

    @property
    def key(self) -> tuple[str, str | None]:
        """The identity of a logical file: path and vector id."""
        return self.path, self.deletion_vector.unique_id if self.deletion_vector else None

    @property
    def num_hidden_rows(self) -> int:
        """How many rows its deletion vector hides."""
        return self.deletion_vector.cardinality if self.deletion_vector else 0

    @property
    def insertion_time(self) -> int:
        """When the newest of the rows was inserted, in microseconds: by the tag, else when the file was written."""
        tagged = (self.tags or {}).get(INSERTION_TIME) or ""
        is_number = tagged.isascii() and tagged.isdigit() and len(tagged) < len(str(2**63))
        return int(tagged) if is_number else self.modification_time * 1000


def insertion_tag(modified_ms: int) -> dict[str, str]:
    """The tag of a file whose rows were inserted with it, at that time."""
    return {INSERTION_TIME: str(modified_ms * 1000)}


class RemoveFile(Action, frozen=True, kw_only=True):
    """A logical file removed from the table by a commit. See "Add File and Remove File"."""

    path: str
    """URI-encoded, as in the log."""
    deletion_timestamp: Long | None = None
    data_change: bool
    extended_file_metadata: bool | None = None
    partition_values: dict[str, str | None] | None = None
    size: Count | None = None
    stats: str | None = None
    tags: dict[str, str | None] | None = None
    deletion_vector: DeletionVectorDescriptor | None = None
    base_row_id: Long | None = None
    default_row_commit_version: Long | None = None

    @property
    def key(self) -> tuple[str, str | None]:
        """The identity of a logical file: path and vector id."""
        return self.path, self.deletion_vector.unique_id if self.deletion_vector else None

    @property
    def num_hidden_rows(self) -> int:
        """How many rows its deletion vector hides."""
        return self.deletion_vector.cardinality if self.deletion_vector else 0


class AddCDCFile(Action, frozen=True, kw_only=True):
    """A file of changed rows. See "Add CDC File"."""

    path: str
    partition_values: dict[str, str | None]
    size: Count
    data_change: bool
    tags: dict[str, str | None] | None = None


class SetTransaction(Action, frozen=True, kw_only=True):
    """The last version that an application wrote. See "Transaction Identifiers"."""

    app_id: str
    version: Long
    last_updated: Long | None = None


class DomainMetadata(Action, frozen=True, kw_only=True):
    """Configuration of one named domain. See "Domain Metadata"."""

    domain: str
    configuration: str
    removed: bool


class CommitInfo(Action, frozen=True, kw_only=True):
    """The origin of a commit: operation, parameters, metrics, engine. See "Commit Provenance Information"."""

    version: Long | None = None
    in_commit_timestamp: Long | None = None
    timestamp: Long | None = None
    user_id: str | None = None
    user_name: str | None = None
    operation: str | None = None
    operation_parameters: dict[str, Any] | None = None
    job: dict[str, Any] | None = None
    notebook: dict[str, Any] | None = None
    cluster_id: str | None = None
    read_version: Long | None = None
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
    size_in_bytes: Count
    modification_time: Long
    tags: dict[str, str | None] | None = None


class CheckpointMetadata(Action, frozen=True, kw_only=True):
    """The version and tags of a V2 checkpoint. See "Checkpoint Metadata"."""

    version: Long
    tags: dict[str, str | None] | None = None


class _RowCount(msgspec.Struct, rename="camel"):
    num_records: int | None = None


_COUNT = msgspec.json.Decoder(_RowCount)


def row_count(stats: str | None) -> int | None:
    """The number of rows of a data file, hidden ones included; None where its statistics do not have it."""
    if not stats:
        return None
    try:
        count = _COUNT.decode(stats).num_records
    except msgspec.MsgspecError:
        return None
    return count if count is not None and count >= 0 else None


def with_row_count(file: AddFile, counted: AddFile | RemoveFile) -> AddFile:
    """The file, with the row count of another action of the same path if it has none itself."""
    count = None if row_count(file.stats) is not None else row_count(counted.stats)
    return file if count is None else with_num_records(file, count)


def with_num_records(file: AddFile, count: int) -> AddFile:
    """The file with statistics that say how many rows it has. Others are kept if they can be read."""
    try:
        statistics = msgspec.json.decode(file.stats or "{}", type=dict[str, Any])
    except msgspec.MsgspecError:
        statistics = {}
    return msgspec.structs.replace(file, stats=msgspec.json.encode({**statistics, "numRecords": count}).decode())


def visible_row_count(stats: str | None, hidden: int) -> int | None:
    """The number of visible rows of a logical file, of which its vector hides `hidden`; None where it is not known."""
    rows = row_count(stats)
    return None if rows is None else rows - hidden


def visible_row_count_of(add: AddFile) -> int | None:
    """The number of visible rows of a file; None where it is not known."""
    return visible_row_count(add.stats, add.num_hidden_rows)
