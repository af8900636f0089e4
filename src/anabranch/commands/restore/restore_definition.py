"""The metadata of an older version, adapted so that a new version can have it.

Schema, partitioning, properties and clustering are restored. Counters and records of events are not: column ids,
high-water marks, the protocol. A number that was assigned since the older version must not be assigned again.
"""

from __future__ import annotations

import dataclasses

import msgspec
from pyspark.sql.types import StructType

from anabranch.commands.definition.table_definition import MAX_ID
from anabranch.commands.restore.restored_row_ids import ids_continue, with_row_tracking_of
from anabranch.protocol.actions import Action, DomainMetadata, Metadata, Protocol
from anabranch.protocol.features import supported_features
from anabranch.protocol.properties import TableProperties
from anabranch.protocol.protocol_evolution import upgrade_protocol
from anabranch.schema.column_mapping import ColumnMappingMode, physical_name
from anabranch.schema.computed_columns import identity_columns, with_high_water_mark
from anabranch.schema.serialization import parse_schema, schema_string
from anabranch.snapshot.snapshot import Snapshot
from anabranch.transactions.commit.commit_attempt import ENABLEMENT_TIMESTAMP, ENABLEMENT_VERSION, PROTECTED_BEFORE
from anabranch.transactions.conflicts.description_rules import CLUSTERING_DOMAIN

_NO_CLUSTERING = '{"clusteringColumns":[],"domainName":"delta.clustering"}'


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RestoredDefinition:
    """Metadata, protocol and domains of the restored table."""

    metadata: Metadata
    protocol: Protocol
    domains: tuple[DomainMetadata, ...]
    keeps_ids: bool
    """Whether restored rows have their old row ids."""

    def changes(self, now: Snapshot) -> list[Action]:
        """The actions for what differs from `now`."""
        changed: list[Action] = []
        if self.protocol != now.protocol:
            changed.append(self.protocol)
        if self.metadata != now.metadata:
            changed.append(self.metadata)
        return [*changed, *(domain for domain in self.domains if now.domain_metadata.get(domain.domain) != domain)]


def restored_definition(now: Snapshot, then: Snapshot, *, may_downgrade: bool) -> RestoredDefinition:
    """The definition of `then`, adapted to follow `now`.

    The protocol keeps every feature that either version has, since older versions may use it, unless
    `may_downgrade`.
    """
    keeps_ids = ids_continue(now, then)
    protocol = then.protocol if may_downgrade else upgrade_protocol(now.protocol, supported_features(then.protocol))
    metadata = msgspec.structs.replace(
        then.metadata,
        configuration=restored_properties(now, then, keeps_ids=keeps_ids),
        schema_string=schema_with_marks(then.metadata, now.metadata, table=now.table_root),
    )
    domains = _clustering(now, then, protocol)
    return RestoredDefinition(metadata=metadata, protocol=protocol, domains=domains, keeps_ids=keeps_ids)


def restored_properties(now: Snapshot, then: Snapshot, *, keeps_ids: bool) -> dict[str, str | None]:
    """The properties of `then`, with those of `now` that must not be restored."""
    before, after = now.metadata.configuration, then.metadata.configuration
    properties = dict(after)
    if then.column_mapping_mode.maps:
        properties[MAX_ID] = str(max(int(values.get(MAX_ID) or 0) for values in (before, after)))
    kept = _recorded(before, PROTECTED_BEFORE)
    properties.pop(PROTECTED_BEFORE, None)
    if now.properties.in_commit_timestamps_enabled and then.properties.in_commit_timestamps_enabled:
        # They say since when commits have their own timestamps, which is true of the whole history.
        for name in (ENABLEMENT_VERSION, ENABLEMENT_TIMESTAMP):
            properties.pop(name, None)
        kept |= _recorded(before, ENABLEMENT_VERSION, ENABLEMENT_TIMESTAMP)
    return with_row_tracking_of(now, then, properties | kept, go_on=keeps_ids)


def schema_with_marks(wanted: Metadata, reached: Metadata, *, table: str) -> str:
    """The schema of `wanted`, whose identity columns continue at least after the high-water marks of `reached`."""
    schema = parse_schema(wanted.schema_string, table)
    identities = identity_columns(schema, table)
    if not identities:
        return wanted.schema_string
    mode = _mode(wanted)
    marks = _high_water_marks(parse_schema(reached.schema_string, table), _mode(reached), table)
    moved: dict[str, int | None] = {}
    for name, identity in identities.items():
        mark = marks.get(physical_name(schema[name], mode))
        if mark is not None:
            moved[name] = identity.mark_after(mark)
    changed = with_high_water_mark(schema, moved)
    return wanted.schema_string if changed == schema else schema_string(changed)


def _high_water_marks(schema: StructType, mode: ColumnMappingMode, table: str) -> dict[str, int]:
    """The high-water marks by physical name, which a column keeps when it is renamed."""
    return {
        physical_name(schema[name], mode): identity.high_water_mark
        for name, identity in identity_columns(schema, table).items()
        if identity.high_water_mark is not None
    }


def _mode(metadata: Metadata) -> ColumnMappingMode:
    return ColumnMappingMode.parse(TableProperties(metadata.configuration).column_mapping_mode)


def _recorded(configuration: dict[str, str | None], *names: str) -> dict[str, str | None]:
    return {name: configuration[name] for name in names if name in configuration}


def _clustering(now: Snapshot, then: Snapshot, protocol: Protocol) -> tuple[DomainMetadata, ...]:
    """The restored clustering. Other domains stay: they may concern the whole history, as that of row tracking."""
    if "domainMetadata" not in supported_features(protocol):
        return ()
    wanted = then.domain_metadata.get(CLUSTERING_DOMAIN)
    if wanted is not None:
        return (wanted,)
    if CLUSTERING_DOMAIN not in now.domain_metadata:
        return ()
    return (DomainMetadata(domain=CLUSTERING_DOMAIN, configuration=_NO_CLUSTERING, removed=False),)
