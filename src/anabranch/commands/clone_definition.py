"""How a clone is described: as its source, but for what a table says of its own history and its own files."""

from __future__ import annotations

import dataclasses
import random
import uuid
from collections.abc import Mapping

import msgspec

from anabranch.commands.clone_source import CloneSource
from anabranch.commands.restore_definition import schema_with_marks
from anabranch.commands.table_shape import MAX_ID, ROW_ID_COLUMN, ROW_VERSION_COLUMN, table_shape
from anabranch.errors.schema import ColumnMappingChangeError
from anabranch.protocol.actions import DomainMetadata, Metadata, Protocol
from anabranch.protocol.features import supported_features
from anabranch.protocol.properties import TableProperties, stored_properties, validated
from anabranch.protocol.protocol_evolution import needed_features, requested_protocol, upgrade_protocol
from anabranch.schema.serialization import parse_schema, schema_string
from anabranch.snapshot.snapshot import Snapshot
from anabranch.transaction.checkpoint_protection import PROTECTED_BEFORE
from anabranch.transaction.commit_timestamps import ENABLEMENT_TIMESTAMP, ENABLEMENT_VERSION
from anabranch.transaction.description_rules import CLUSTERING_DOMAIN

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
        id=str(uuid.UUID(int=random.getrandbits(128), version=4)) if target is None else target.metadata.id,
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
