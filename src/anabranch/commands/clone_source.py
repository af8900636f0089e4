"""What SHALLOW CLONE takes its files and its description from."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import pyarrow as pa

from anabranch.commands.convert import prepare_conversion
from anabranch.commands.convert_source import convert_source
from anabranch.commands.read import TimeTravel, snapshot_of
from anabranch.commands.table_access import TableHandle, is_delta_identifier, table_identified
from anabranch.errors.clone import CloneSourceError
from anabranch.log.file_columns import table_of_adds
from anabranch.protocol.actions import AddFile, DomainMetadata, Metadata, Protocol
from anabranch.spark.delta_session import DeltaSession
from anabranch.spark.table_identifiers import NameIdentifier, PathIdentifier, TableIdentifier
from anabranch.storage.elsewhere import allowed_places

NO_VERSION = -1
_FORMATS = ("parquet",)
"""By whose name a folder may be cloned, besides Delta."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class CloneSource:
    """One version of a table, or a folder of Parquet files."""

    name: str
    """As the history of the clone tells of it."""
    version: int
    """`NO_VERSION` for what has none."""
    root: str
    places: tuple[str, ...]
    """Where it may have files itself, besides its root."""
    metadata: Metadata
    protocol: Protocol
    domains: Mapping[str, DomainMetadata]
    files: pa.Table
    """`LIVE_FILE_SCHEMA`."""


def clone_source(session: DeltaSession, identifier: TableIdentifier, travel: TimeTravel) -> CloneSource:
    """The table meant, at the version meant.

    Raises `CloneSourceError`, `NotADeltaTableError`, the errors of time travel, and for Parquet those of
    `errors.convert`.
    """
    if is_delta_identifier(session, identifier):
        return delta_source(table_identified(session, identifier), travel)
    assert not isinstance(identifier, PathIdentifier)
    if session.catalog.is_temporary_view(identifier):
        raise CloneSourceError(source=str(identifier), found="it is a temporary view")
    _check_format(session, identifier)
    if not travel.is_newest:
        raise CloneSourceError(source=str(identifier), found="it is no Delta table, and has no older versions")
    return _parquet_source(session, identifier)


def delta_source(handle: TableHandle, travel: TimeTravel) -> CloneSource:
    """A version of a Delta table."""
    snapshot = snapshot_of(handle, travel)
    return CloneSource(
        name=handle.label,
        version=snapshot.version,
        root=handle.path,
        places=allowed_places(handle.table.store),
        metadata=snapshot.metadata,
        protocol=snapshot.protocol,
        domains=snapshot.domain_metadata,
        files=snapshot.files.table,
    )


def _check_format(session: DeltaSession, identifier: NameIdentifier) -> None:
    first, *rest = identifier.parts
    if len(rest) == 1 and first.lower() in _FORMATS and "/" in rest[0]:
        return
    entry = session.catalog.find(identifier)
    if entry is None and len(rest) == 1 and "/" in rest[0]:
        raise CloneSourceError(source=str(identifier), found=f"{first} is no format whose files a Delta log can name")
    if entry is not None and entry.provider not in _FORMATS:
        found = f"it is a {entry.provider} table" if entry.provider else "it is a view"
        raise CloneSourceError(source=str(identifier), found=found)


def _parquet_source(session: DeltaSession, identifier: NameIdentifier) -> CloneSource:
    """As CONVERT TO DELTA would make it a table, without making it one."""
    source = convert_source(session, identifier.parts, None)
    with prepare_conversion(source, collects_statistics=True) as prepared:
        adds = [action for action in prepared.actions if isinstance(action, AddFile)]
        metadata = next(action for action in prepared.actions if isinstance(action, Metadata))
        protocol = next(action for action in prepared.actions if isinstance(action, Protocol))
    return CloneSource(
        name=str(identifier),
        version=NO_VERSION,
        root=source.handle.path,
        places=(),
        metadata=metadata,
        protocol=protocol,
        domains={},
        files=table_of_adds(adds),
    )
