"""How a clone is described: as its source, but for what a table says of its own history and its own files."""

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
from anabranch.commands.path_suffixes import TimeTravel
from anabranch.commands.read.read_table import snapshot_of
from anabranch.commands.restore.restore_definition import schema_with_marks
from anabranch.commands.table_access import TableRef, is_delta_identifier, table_identified
from anabranch.deletion_vectors.vector_locations import vector_path
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
from anabranch.transaction.commit.commit_draft import ENABLEMENT_TIMESTAMP, ENABLEMENT_VERSION, PROTECTED_BEFORE
from anabranch.transaction.conflicts.metadata_compatibility import CLUSTERING_DOMAIN

# What SHALLOW CLONE takes its files and its description from.


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


def delta_source(table: TableRef, travel: TimeTravel) -> CloneSource:
    """A version of a Delta table."""
    snapshot = snapshot_of(table, travel)
    return CloneSource(
        name=table.label if table.entry is None else ".".join(table.entry.full_name.parts),
        version=snapshot.version,
        root=table.path,
        places=allowed_prefixes_of(table.delta_log.store),
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
    if entry is None:
        raise NotADeltaTableError(table=str(identifier), found="the catalog has no such table")
    if entry.provider not in _FORMATS:
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
        root=source.table.path,
        places=(),
        metadata=metadata,
        protocol=protocol,
        domains={},
        files=table_of_adds(adds),
    )


_OF_ONE_TABLE = (ROW_ID_COLUMN, ROW_VERSION_COLUMN, ENABLEMENT_TIMESTAMP, ENABLEMENT_VERSION, PROTECTED_BEFORE)
"""Properties in which a table notes what concerns no other."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CloneDefinition:
    """The actions that describe the clone."""

    metadata: Metadata
    protocol: Protocol
    domains: tuple[DomainMetadata, ...]


def clone_definition(
    source: CloneSource, target: Snapshot | None, overrides: Mapping[str, str], *, label: str, random: random.Random
) -> CloneDefinition:
    """The clone of `source`, new or in the place of `target`; `overrides` go before the source's properties.

    Session defaults count for nothing: a clone is like its source. Raises `ColumnMappingChangeError` and the errors
    of properties.
    """
    asked = validated(overrides, current=source.metadata.configuration)
    requested = requested_protocol(asked)
    configuration = _configuration(source, target, stored_properties(asked))
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
    found = {name: value for name, value in {**kept, **own, **overrides}.items() if value is not None}
    if not TableProperties(found).in_commit_timestamps_enabled:
        for name in (ENABLEMENT_TIMESTAMP, ENABLEMENT_VERSION):
            found.pop(name, None)
    if MAX_ID in found:
        # Ids that either table has given out are in files that may come back.
        found[MAX_ID] = str(max(int(each.get(MAX_ID) or 0) for each in (found, before)))
    return found


def _check_mapping_mode(source: CloneSource, target: Snapshot | None, configuration: Mapping[str, str]) -> None:
    """Files call their columns in one way, which stays."""
    wanted = TableProperties(configuration).column_mapping_mode
    modes = [TableProperties(source.metadata.configuration).column_mapping_mode]
    if target is not None:
        modes.append(target.properties.column_mapping_mode)
    for mode in modes:
        if mode != wanted:
            raise ColumnMappingChangeError(old_mode=mode, new_mode=wanted)


def _domains(source: CloneSource, target: Snapshot | None) -> tuple[DomainMetadata, ...]:
    """Clustering is the source's. Other domains are about the table that has them."""
    wanted = source.domains.get(CLUSTERING_DOMAIN)
    known = None if target is None else target.domain_metadata.get(CLUSTERING_DOMAIN)
    if wanted is not None:
        return () if wanted == known else (wanted,)
    if known is None:
        return ()
    return (DomainMetadata(domain=CLUSTERING_DOMAIN, configuration=known.configuration, removed=True),)


# Files of one table as the log of another names them: by where they are, whoever reads that log.
#
# Of a file in the new table's own folder the path stays relative: a clone that is cloned back names the very files
# that the table had before.


_URL = re.compile(r"^([A-Za-z][A-Za-z0-9+.\-]+:(?://[^/]*)?)(/.*)$", re.DOTALL)
_PLAIN = r"^[A-Za-z0-9_=\-][A-Za-z0-9_=\-.]*(/[A-Za-z0-9_=\-][A-Za-z0-9_=\-.]*)*$"
"""Relative paths that any root may be put before: nearly all."""
_INLINE, _BY_PATH = "i", "p"


def cloned_files(files: pa.Table, *, source_root: str, places: Collection[str], target_root: str) -> pa.Table:
    """The live files of a table as those of its clone: without row ids, which each table counts for itself.

    `places` are where the source may have files outside its root. Raises `UnsafePathError` for any other.
    """
    paths = absolute_uris(files["path"], root=source_root, places=places)
    columns = {
        "path": _relative_where_own(paths, target_root),
        "deletion_vector": _absolute_vectors(files["deletion_vector"], root=source_root, places=places),
        "base_row_id": pa.nulls(files.num_rows, pa.int64()),
        "default_row_commit_version": pa.nulls(files.num_rows, pa.int64()),
    }
    return pa.table(
        [columns[field.name] if field.name in columns else files[field.name] for field in LIVE_FILE_SCHEMA],
        schema=LIVE_FILE_SCHEMA,
    )


def _relative_where_own(paths: pa.Array, target_root: str) -> pa.Array:
    """Absolute URIs, but for files in the table's own folder, which are named from there."""
    # A scheme may be spelled in several ways; what follows it, in one.
    folder = absolute_uri(canonical_root(target_root)).partition(":")[2].rstrip("/") + "/"
    maybe_own = pc.match_substring(paths, folder)
    if not pc.any(maybe_own).as_py():
        return paths
    suspects = paths.filter(maybe_own).to_pylist()
    own = [relative_path(uri, table_root=target_root) for uri in suspects]
    named = [uri if path is None else encode_path(path) for uri, path in zip(suspects, own, strict=True)]
    return pc.replace_with_mask(paths, maybe_own, pa.array(named, pa.string()))


def absolute_uris(uris: pa.ChunkedArray, *, root: str, places: Collection[str]) -> pa.Array:
    """Paths of a log, as a log of another table may name the same files. Raises `UnsafePathError`."""
    text = uris.combine_chunks().cast(pa.string())
    below = pc.binary_join_element_wise(absolute_uri(canonical_root(root)).rstrip("/"), text, "/")
    unusual = pc.invert(pc.match_substring_regex(text, _PLAIN))
    if not pc.any(unusual).as_py():
        return below
    found = [_absolute(uri, root, places) for uri in text.filter(unusual).to_pylist()]
    return pc.replace_with_mask(below, unusual, pa.array(found, pa.string()))


def absolute_uri(plain: str) -> str:
    """The URI of an absolute plain path, spelled as Java's `new Path(plain).toUri()` spells it."""
    match = _URL.match(plain)
    scheme, path = ("file:", plain) if match is None else match.groups()
    return scheme + encode_path(path)


def _absolute(uri: str, root: str, places: Collection[str]) -> str:
    plain = decode_path(uri, table_root=root, allowed_prefixes=places)
    if plain.startswith("/") or _URL.match(plain):
        return absolute_uri(canonical_root(plain))
    return absolute_uri(f"{canonical_root(root)}/{plain}")


def _absolute_vectors(vectors: pa.ChunkedArray, *, root: str, places: Collection[str]) -> pa.Array:
    if vectors.null_count == len(vectors):
        return pa.nulls(len(vectors), DELETION_VECTOR)
    known: dict[str, str] = {}
    found = []
    for fields in vectors.to_pylist():
        if fields is None or fields["storage_type"] == _INLINE:
            found.append(fields)
            continue
        text = fields["storage_type"] + fields["path_or_inline_dv"]
        if text not in known:
            plain = vector_path(DeletionVectorDescriptor(**fields), table_root=root, allowed_prefixes=places)
            is_absolute = plain.startswith("/") or _URL.match(plain)
            known[text] = absolute_uri(canonical_root(plain) if is_absolute else f"{canonical_root(root)}/{plain}")
        found.append({**fields, "storage_type": _BY_PATH, "path_or_inline_dv": known[text]})
    return pa.array(found, DELETION_VECTOR)
