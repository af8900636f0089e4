"""The metadata of a clone: that of its source, except what concerns the history and files of one table alone."""

from __future__ import annotations

import dataclasses
import random
import re
from collections.abc import Collection, Mapping

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.clock import random_uuid
from anabranch.commands.convert.convert_source import convert_source
from anabranch.commands.convert.convert_table import prepare_conversion
from anabranch.commands.definition.table_definition import MAX_ID, ROW_ID_COLUMN, ROW_VERSION_COLUMN, table_shape
from anabranch.commands.read.read_table import snapshot_of
from anabranch.commands.restore.restore_definition import schema_with_marks
from anabranch.commands.table_access import TableRef, TimeTravel, is_delta_identifier, table_identified
from anabranch.deletion_vectors.vector_descriptors import vector_path
from anabranch.errors.schema import ColumnMappingChangeError
from anabranch.errors.tables import CloneSourceError, NotADeltaTableError
from anabranch.log.file_columns import DELETION_VECTOR, LIVE_FILE_SCHEMA, table_of_adds
from anabranch.protocol.actions import AddFile, DeletionVectorDescriptor, DomainMetadata, Metadata, Protocol
from anabranch.protocol.data_paths import decode_path, encode_path, relative_path
from anabranch.protocol.features import supported_features
from anabranch.protocol.properties import TableProperties, stored_properties, validated
from anabranch.protocol.protocol_evolution import needed_features, requested_protocol, upgrade_protocol
from anabranch.schema.serialization import parse_schema, schema_string
from anabranch.snapshot.snapshot import Snapshot
from anabranch.spark.session.delta_session import DeltaSession
from anabranch.spark.session.table_identifiers import NameIdentifier, PathIdentifier, TableIdentifier
from anabranch.storage.external_files import allowed_prefixes_of, canonical_root
from anabranch.transactions.commit.commit_attempt import ENABLEMENT_TIMESTAMP, ENABLEMENT_VERSION, PROTECTED_BEFORE
from anabranch.transactions.conflicts.description_rules import CLUSTERING_DOMAIN

NO_VERSION = -1
_FORMATS = ("parquet",)
"""Formats, besides Delta, of folders that can be cloned."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class CloneSource:
    """One version of a table, or a folder of Parquet files."""

    name: str
    """The name that the history of the clone records."""
    version: int
    """`NO_VERSION` for a folder of Parquet files."""
    root: str
    folders: tuple[str, ...]
    """Folders outside its root in which it may have files itself."""
    metadata: Metadata
    protocol: Protocol
    domains: Mapping[str, DomainMetadata]
    files: pa.Table
    """`LIVE_FILE_SCHEMA`."""


def clone_source(session: DeltaSession, identifier: TableIdentifier, travel: TimeTravel) -> CloneSource:
    """The table or folder that `identifier` names, at the version of `travel`.

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
        raise CloneSourceError(source=str(identifier), found="it is not a Delta table and has no older versions")
    return _parquet_source(session, identifier)


def delta_source(table: TableRef, travel: TimeTravel) -> CloneSource:
    """A version of a Delta table."""
    snapshot = snapshot_of(table, travel)
    return CloneSource(
        name=table.label if table.entry is None else ".".join(table.entry.full_name.parts),
        version=snapshot.version,
        root=table.path,
        folders=allowed_prefixes_of(table.delta_log.store),
        metadata=snapshot.metadata,
        protocol=snapshot.protocol,
        domains=snapshot.domain_metadata,
        files=snapshot.files.columns(*LIVE_FILE_SCHEMA.names),
    )


def _check_format(session: DeltaSession, identifier: NameIdentifier) -> None:
    first, *rest = identifier.parts
    if len(rest) == 1 and first.lower() in _FORMATS and "/" in rest[0]:
        return
    entry = session.catalog.find(identifier)
    if entry is None and len(rest) == 1 and "/" in rest[0]:
        raise CloneSourceError(
            source=str(identifier), found=f"{first} is not a format whose files a Delta log can name"
        )
    if entry is None:
        raise NotADeltaTableError(table=str(identifier), found="the catalog has no such table")
    if entry.provider not in _FORMATS:
        kind = f"it is a {entry.provider} table" if entry.provider else "it is a view"
        raise CloneSourceError(source=str(identifier), found=kind)


def _parquet_source(session: DeltaSession, identifier: NameIdentifier) -> CloneSource:
    """A folder of Parquet files with the metadata that CONVERT TO DELTA would give it. Nothing is written."""
    source = convert_source(session, identifier.parts, None)
    with prepare_conversion(source, collects_statistics=True) as prepared:
        adds = [action for action in prepared.actions if isinstance(action, AddFile)]
        metadata = next(action for action in prepared.actions if isinstance(action, Metadata))
        protocol = next(action for action in prepared.actions if isinstance(action, Protocol))
    return CloneSource(
        name=str(identifier),
        version=NO_VERSION,
        root=source.table.path,
        folders=(),
        metadata=metadata,
        protocol=protocol,
        domains={},
        files=table_of_adds(adds),
    )


_OF_ONE_TABLE = (ROW_ID_COLUMN, ROW_VERSION_COLUMN, ENABLEMENT_TIMESTAMP, ENABLEMENT_VERSION, PROTECTED_BEFORE)
"""Properties that concern the files or the history of one table alone."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CloneDefinition:
    """The actions that describe the clone."""

    metadata: Metadata
    protocol: Protocol
    domains: tuple[DomainMetadata, ...]


def clone_definition(
    source: CloneSource, target: Snapshot | None, overrides: Mapping[str, str], *, label: str, random: random.Random
) -> CloneDefinition:
    """The clone of `source`, new or in place of `target`; `overrides` take precedence over the source's properties.

    Session defaults are ignored: a clone is like its source. Raises `ColumnMappingChangeError` and the errors
    of properties.
    """
    properties = validated(overrides, current=source.metadata.configuration)
    requested = requested_protocol(properties)
    configuration = _configuration(source, target, stored_properties(properties))
    _check_mapping_mode(source, target, configuration)
    marked = source.metadata.schema_string
    if target is not None:
        marked = schema_with_marks(source.metadata, target.metadata, table=label)
    shape = table_shape(
        parse_schema(marked, label),
        configuration,
        partition_columns=source.metadata.partition_columns,
        label=label,
        source=random,
        keeps_names=True,
    )
    metadata = msgspec.structs.replace(
        source.metadata,
        id=random_uuid(random) if target is None else target.metadata.id,
        name=None if target is None else target.metadata.name,
        description=None if target is None else target.metadata.description,
        schema_string=schema_string(shape.schema),
        configuration=dict(shape.configuration),
    )
    needed = needed_features(shape.schema, shape.properties) | requested.features
    base = source.protocol
    if target is not None:
        # Older versions of the table may use what it supports.
        base = upgrade_protocol(target.protocol, supported_features(source.protocol))
    return CloneDefinition(metadata=metadata, protocol=upgrade_protocol(base, needed), domains=_domains(source, target))


def _configuration(source: CloneSource, target: Snapshot | None, overrides: Mapping[str, str]) -> dict[str, str]:
    before: Mapping[str, str | None] = {} if target is None else target.metadata.configuration
    kept = {name: value for name, value in source.metadata.configuration.items() if name not in _OF_ONE_TABLE}
    own = {name: before[name] for name in _OF_ONE_TABLE if name in before}
    configuration = {name: value for name, value in {**kept, **own, **overrides}.items() if value is not None}
    if not TableProperties(configuration).in_commit_timestamps_enabled:
        for name in (ENABLEMENT_TIMESTAMP, ENABLEMENT_VERSION):
            configuration.pop(name, None)
    if MAX_ID in configuration:
        # Files of either table may be restored, so no column id of either is used again.
        configuration[MAX_ID] = str(max(int(properties.get(MAX_ID) or 0) for properties in (configuration, before)))
    return configuration


def _check_mapping_mode(source: CloneSource, target: Snapshot | None, configuration: Mapping[str, str]) -> None:
    """Raises `ColumnMappingChangeError`: the names of columns in existing files follow from the mode."""
    wanted = TableProperties(configuration).column_mapping_mode
    modes = [TableProperties(source.metadata.configuration).column_mapping_mode]
    if target is not None:
        modes.append(target.properties.column_mapping_mode)
    for mode in modes:
        if mode != wanted:
            raise ColumnMappingChangeError(old_mode=mode, new_mode=wanted)


def _domains(source: CloneSource, target: Snapshot | None) -> tuple[DomainMetadata, ...]:
    """The clustering domain of the source. Other domains concern one table alone."""
    wanted = source.domains.get(CLUSTERING_DOMAIN)
    current = None if target is None else target.domain_metadata.get(CLUSTERING_DOMAIN)
    if wanted is not None:
        return () if wanted == current else (wanted,)
    if current is None:
        return ()
    return (DomainMetadata(domain=CLUSTERING_DOMAIN, configuration=current.configuration, removed=True),)


# Paths of files in the log of the clone: absolute, so that they do not depend on the folder of the table.
#
# The path of a file in the clone's own folder stays relative: when a clone is cloned back, the paths are the same as
# before.


_URL = re.compile(r"^([A-Za-z][A-Za-z0-9+.\-]+:(?://[^/]*)?)(/.*)$", re.DOTALL)
_PLAIN = r"^[A-Za-z0-9_=\-][A-Za-z0-9_=\-.]*(/[A-Za-z0-9_=\-][A-Za-z0-9_=\-.]*)*$"
"""Relative paths without characters that need encoding, as nearly all are: the root can be prefixed as it is."""
_INLINE, _BY_PATH = "i", "p"


def cloned_files(files: pa.Table, *, source_root: str, folders: Collection[str], target_root: str) -> pa.Table:
    """The live files of a table as files of its clone: without row ids, which every table assigns itself.

    `folders` are those outside its root in which the source may have files. Raises `UnsafePathError` for other paths.
    """
    paths = absolute_uris(files["path"], root=source_root, folders=folders)
    columns = {
        "path": _relative_where_own(paths, target_root),
        "deletion_vector": _absolute_vectors(files["deletion_vector"], root=source_root, folders=folders),
        "base_row_id": pa.nulls(files.num_rows, pa.int64()),
        "default_row_commit_version": pa.nulls(files.num_rows, pa.int64()),
    }
    return pa.table(
        [columns[field.name] if field.name in columns else files[field.name] for field in LIVE_FILE_SCHEMA],
        schema=LIVE_FILE_SCHEMA,
    )


def _relative_where_own(paths: pa.Array, target_root: str) -> pa.Array:
    """Absolute URIs; files in the table's own folder have relative paths."""
    # The same scheme has several spellings, but the rest of the URI has only one.
    folder = absolute_uri(canonical_root(target_root)).partition(":")[2].rstrip("/") + "/"
    maybe_own = pc.match_substring(paths, folder)
    if not pc.any(maybe_own).as_py():
        return paths
    suspects = paths.filter(maybe_own).to_pylist()
    own = [relative_path(uri, table_root=target_root) for uri in suspects]
    named = [uri if path is None else encode_path(path) for uri, path in zip(suspects, own, strict=True)]
    return pc.replace_with_mask(paths, maybe_own, pa.array(named, pa.string()))


def absolute_uris(uris: pa.ChunkedArray, *, root: str, folders: Collection[str]) -> pa.Array:
    """The absolute URIs of paths in a log, for the log of another table. Raises `UnsafePathError`."""
    text = uris.combine_chunks().cast(pa.string())
    below = pc.binary_join_element_wise(absolute_uri(canonical_root(root)).rstrip("/"), text, "/")
    unusual = pc.invert(pc.match_substring_regex(text, _PLAIN))
    if not pc.any(unusual).as_py():
        return below
    absolute = [_absolute(uri, root, folders) for uri in text.filter(unusual).to_pylist()]
    return pc.replace_with_mask(below, unusual, pa.array(absolute, pa.string()))


def absolute_uri(plain: str) -> str:
    """The URI of an absolute plain path, spelled as Java's `new Path(plain).toUri()` spells it."""
    match = _URL.match(plain)
    scheme, path = ("file:", plain) if match is None else match.groups()
    return scheme + encode_path(path)


def _absolute(uri: str, root: str, folders: Collection[str]) -> str:
    plain = decode_path(uri, table_root=root, allowed_prefixes=folders)
    if plain.startswith("/") or _URL.match(plain):
        return absolute_uri(canonical_root(plain))
    return absolute_uri(f"{canonical_root(root)}/{plain}")


def _absolute_vectors(vectors: pa.ChunkedArray, *, root: str, folders: Collection[str]) -> pa.Array:
    if vectors.null_count == len(vectors):
        return pa.nulls(len(vectors), DELETION_VECTOR)
    uris: dict[str, str] = {}
    descriptors = []
    for fields in vectors.to_pylist():
        if fields is None or fields["storage_type"] == _INLINE:
            descriptors.append(fields)
            continue
        text = fields["storage_type"] + fields["path_or_inline_dv"]
        if text not in uris:
            plain = vector_path(DeletionVectorDescriptor(**fields), table_root=root, allowed_prefixes=folders)
            is_absolute = plain.startswith("/") or _URL.match(plain)
            uris[text] = absolute_uri(canonical_root(plain) if is_absolute else f"{canonical_root(root)}/{plain}")
        descriptors.append({**fields, "storage_type": _BY_PATH, "path_or_inline_dv": uris[text]})
    return pa.array(descriptors, DELETION_VECTOR)
