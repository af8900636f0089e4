"""The schema log of a stream, in delta-spark's format: one file for each set of columns.

An entry has the metadata of the table from a version on. It is read when a query starts, and written when the query
reaches a version with other metadata.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import msgspec
from pyspark.sql.types import StructType

from anabranch.errors.base import DeltaError
from anabranch.errors.streaming import SchemaLocationConflictError, SchemaLogOfOtherTableError, SchemaLogUnreadableError
from anabranch.protocol.actions import Metadata, Protocol
from anabranch.protocol.actions_json import encode_action, parse_action
from anabranch.schema.serialization import parse_schema, schema_string
from anabranch.snapshot.snapshot import Snapshot
from anabranch.storage.log_store import LogStore, PutOutcome

_FORM = "v1"


class _Entry(msgspec.Struct, kw_only=True, rename="camel", omit_defaults=True):
    """An entry as delta-spark writes it. The texts are JSON documents of their own."""

    table_id: str
    delta_commit_version: int
    data_schema_json: str
    partition_schema_json: str
    source_metadata_path: str
    table_configurations: dict[str, str | None] | None = None
    protocol_json: str | None = None
    previous_metadata_seq_num: int | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TrackedMetadata:
    """The metadata of a table from a version on, as far as a stream needs it."""

    table_id: str
    version: int
    schema_string: str
    partition_columns: tuple[str, ...]
    source_path: str
    """The folder of the source in the checkpoint."""
    configuration: Mapping[str, str | None] | None
    """None in entries of early versions of delta-spark, as is `protocol`."""
    protocol: Protocol | None
    previous: int | None = None
    """The number of the previous entry, where it is not the number before."""

    @classmethod
    def of(cls, metadata: Metadata, protocol: Protocol, *, version: int, source_path: str) -> TrackedMetadata:
        return cls(
            table_id=metadata.id,
            version=version,
            schema_string=metadata.schema_string,
            partition_columns=tuple(metadata.partition_columns),
            source_path=source_path,
            configuration=metadata.configuration,
            protocol=protocol,
        )

    def of_snapshot(self, snapshot: Snapshot) -> Snapshot:
        """`snapshot` with this metadata, to read files that were written with it."""
        configuration = snapshot.metadata.configuration if self.configuration is None else dict(self.configuration)
        metadata = msgspec.structs.replace(
            snapshot.metadata,
            schema_string=self.schema_string,
            partition_columns=list(self.partition_columns),
            configuration=configuration,
        )
        return dataclasses.replace(snapshot, metadata=metadata, protocol=self.protocol or snapshot.protocol)

    def to_json(self) -> str:
        fields = {field.name: field for field in parse_schema(self.schema_string, self.source_path).fields}
        partitioning = StructType([fields[name] for name in self.partition_columns])
        entry = _Entry(
            table_id=self.table_id,
            delta_commit_version=self.version,
            data_schema_json=self.schema_string,
            partition_schema_json=schema_string(partitioning, self.source_path),
            source_metadata_path=self.source_path,
            table_configurations=None if self.configuration is None else dict(self.configuration),
            protocol_json=None if self.protocol is None else encode_action(self.protocol).decode(),
            previous_metadata_seq_num=self.previous,
        )
        return msgspec.json.encode(entry).decode()

    @classmethod
    def from_json(cls, text: str) -> TrackedMetadata:
        """Read an entry. Raises `ValueError`, `TypeError` or `DeltaError` for a text that is none."""
        entry = msgspec.json.decode(text, type=_Entry)
        protocol = None if entry.protocol_json is None else parse_action(entry.protocol_json.encode())
        if protocol is not None and not isinstance(protocol, Protocol):
            raise ValueError("its protocolJson is no protocol")
        partitioning = parse_schema(entry.partition_schema_json)
        parse_schema(entry.data_schema_json)
        return cls(
            table_id=entry.table_id,
            version=entry.delta_commit_version,
            schema_string=entry.data_schema_json,
            partition_columns=tuple(partitioning.fieldNames()),
            source_path=entry.source_metadata_path,
            configuration=entry.table_configurations,
            protocol=protocol,
            previous=entry.previous_metadata_seq_num,
        )


class SchemaLog:
    """The entries of one source. Only one query may write them at a time."""

    def __init__(self, store: LogStore, *, table: str, table_id: str, tracking_id: str | None = None) -> None:
        """`store` is that of the folder in the options, which holds one log for each table and `tracking_id`.

        Raises `SchemaLogUnreadableError`, `SchemaLogOfOtherTableError`, `StorageError`.
        """
        self._store = store
        self._table = table
        self._folder = f"_schema_log_{table_id}" + ("" if tracking_id is None else f"_{tracking_id}")
        names = (file.path.rsplit("/", 1)[-1] for file in store.list_from(self._folder))
        self._number = max((int(name) for name in names if name.isdecimal()), default=-1)
        self.current = self._entry(self._number)
        """The newest entry; None for an empty log."""
        if self.current is not None and self.current.table_id != table_id:
            raise SchemaLogOfOtherTableError(location=self.location, id_logged=self.current.table_id, id_found=table_id)

    @property
    def location(self) -> str:
        return f"{self._store.root.rstrip('/')}/{self._folder}"

    @property
    def previous(self) -> TrackedMetadata | None:
        """The entry before `current`."""
        return self._entry(self._previous_number())

    def append(self, entry: TrackedMetadata, *, replaces: bool = False) -> None:
        """Append an entry after `current`, or one that replaces it with `replaces`.

        Raises `SchemaLocationConflictError`, `StorageError`.
        """
        if replaces and self.current is not None:
            entry = dataclasses.replace(entry, previous=self._previous_number())
        if entry == self.current:
            return
        text = f"{_FORM}\n{entry.to_json()}"
        outcome = self._store.put_if_absent(f"{self._folder}/{self._number + 1}", text.encode())
        if outcome is not PutOutcome.CREATED:
            raise SchemaLocationConflictError(table=self._table, location=self.location)
        self._number += 1
        self.current = entry

    def _previous_number(self) -> int:
        if self.current is not None and self.current.previous is not None:
            return self.current.previous
        return self._number - 1

    def _entry(self, number: int) -> TrackedMetadata | None:
        path = f"{self._folder}/{number}"
        if number < 0 or self._store.head(path) is None:
            return None
        form, _, text = self._store.read(path).decode("utf-8", "replace").partition("\n")
        if form.strip() != _FORM:
            raise SchemaLogUnreadableError(
                location=self.location, problem=f"entry {number} has the format {form[:20]!r}"
            )
        try:
            return TrackedMetadata.from_json(text)
        except (ValueError, TypeError, DeltaError) as error:
            raise SchemaLogUnreadableError(location=self.location, problem=f"entry {number}: {error}") from error
