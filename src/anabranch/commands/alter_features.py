"""ALTER TABLE … DROP FEATURE, and the calls that raise the protocol of a table."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Final

import msgspec
import pyarrow.compute as pc

from anabranch.commands.alter_properties import alter_set_properties
from anabranch.commands.alteration import Alteration
from anabranch.commands.table_access import TableHandle
from anabranch.commands.table_definition import current_properties
from anabranch.errors.alterations import FeatureDropError, FeatureNotSupportedByTableError
from anabranch.errors.protocol import InvalidProtocolError
from anabranch.protocol.feature_table import FEATURES, FEATURES_BY_LOWER_NAME
from anabranch.protocol.features import supported_features
from anabranch.protocol.properties import FEATURE_PREFIX
from anabranch.protocol.protocol_evolution import protocol_of
from anabranch.snapshot.snapshot import Snapshot
from anabranch.transaction.committed_version import CommittedVersion
from anabranch.transaction.row_ids import ROW_TRACKING_DOMAIN

_TIMESTAMPS: Final = (
    "delta.enableInCommitTimestamps",
    "delta.inCommitTimestampEnablementVersion",
    "delta.inCommitTimestampEnablementTimestamp",
)
_IN_HISTORY: Final = (
    "old versions of the table use it, and engines that do not know it would misread them. It can go only when no "
    "version that uses it is left in the log"
)
_REMAINS: Final = {
    "columnMapping": "data files must be rewritten under the names that users see; anabranch does not do that yet",
    "deletionVectors": "set 'delta.enableDeletionVectors' = 'false', run REORG TABLE … APPLY (PURGE); even then, "
    + _IN_HISTORY,
    "typeWidening": "files with old types must be rewritten; even then, " + _IN_HISTORY,
    "typeWidening-preview": "files with old types must be rewritten; even then, " + _IN_HISTORY,
    "v2Checkpoint": "set 'delta.checkpointPolicy' = 'classic'; even then, " + _IN_HISTORY,
}


def alter_drop_feature(handle: TableHandle, feature: str, *, truncate_history: bool = False) -> CommittedVersion | None:
    """Take a table feature out of the protocol, where nothing uses it any more.

    Raises `FeatureNotSupportedByTableError`, and `FeatureDropError`, which says what has to be done first.
    """
    alteration = Alteration(handle)
    have = supported_features(alteration.snapshot.protocol)
    row = FEATURES_BY_LOWER_NAME.get(feature.lower())
    name = row.name if row is not None else feature
    if name not in have:
        raise FeatureNotSupportedByTableError(table=handle.label, feature=feature, features=tuple(sorted(have)))
    dependent = sorted(other for other in have if other in FEATURES and name in FEATURES[other].requires)
    if dependent:
        raise _refused(handle, name, f"{', '.join(dependent)} needs it; drop that first")
    in_the_way = _DROPPABLE.get(name, _not_droppable)(alteration.snapshot)
    if in_the_way is not None:
        raise _refused(handle, name, _REMAINS.get(name, in_the_way))
    if truncate_history:
        raise _refused(handle, name, "it leaves nothing in old versions; leave TRUNCATE HISTORY out")
    properties = current_properties(alteration.snapshot.metadata)
    for gone in _PROPERTIES.get(name, ()):
        properties.pop(gone, None)
    defined = alteration.define(configuration=properties)
    defined = dataclasses.replace(defined, protocol=protocol_of(have - {name}))
    gone_domains = [
        msgspec.structs.replace(domain, removed=True)
        for domain in alteration.snapshot.domain_metadata.values()
        if domain.domain == _DOMAINS.get(name)
    ]
    parameters = {"featureName": name, "truncateHistory": truncate_history}
    return alteration.commit("DROP FEATURE", parameters, defined, gone_domains)


def alter_add_feature(handle: TableHandle, feature: str) -> CommittedVersion | None:
    """Let the table support a feature. Raises `UnknownFeatureError`, `UnsupportedFeatureError`."""
    return alter_set_properties(handle, {f"{FEATURE_PREFIX}{feature}": "supported"})


def alter_upgrade_protocol(handle: TableHandle, reader_version: int, writer_version: int) -> CommittedVersion | None:
    """Let the table support what these versions imply. Raises `InvalidProtocolError`, also for lower versions."""
    current = handle.latest().protocol
    if reader_version < current.min_reader_version or writer_version < current.min_writer_version:
        raise InvalidProtocolError(
            reason=f"{handle.label} has reader version {current.min_reader_version} and writer version "
            f"{current.min_writer_version}, which cannot become {reader_version} and {writer_version}: versions only "
            "rise. DROP FEATURE may lower them."
        )
    versions = {"delta.minReaderVersion": str(reader_version), "delta.minWriterVersion": str(writer_version)}
    return alter_set_properties(handle, versions)


def _not_droppable(_: Snapshot) -> str | None:
    return "once a table supports it, it stays"


def _constraints(snapshot: Snapshot) -> str | None:
    names = sorted(snapshot.properties.constraints)
    return f"the table has the constraints {', '.join(names)}; drop them first" if names else None


def _domains(snapshot: Snapshot) -> str | None:
    names = sorted(snapshot.domain_metadata)
    return f"the table has metadata domains: {', '.join(names)}" if names else None


def _row_ids(snapshot: Snapshot) -> str | None:
    if snapshot.properties.row_tracking_enabled:
        return "row tracking is on; set 'delta.enableRowTracking' = 'false' first"
    known = pc.sum(pc.is_valid(snapshot.files.columns("base_row_id")["base_row_id"])).as_py() or 0
    return f"{known} files of the table have row ids, which anabranch does not take away yet" if known else None


_DROPPABLE: Final[Mapping[str, Callable[[Snapshot], str | None]]] = {
    "checkConstraints": _constraints,
    "domainMetadata": _domains,
    "inCommitTimestamp": lambda _: None,
    "rowTracking": _row_ids,
    "vacuumProtocolCheck": lambda _: None,
}
"""What is in the way of dropping a feature; None if nothing is."""
_PROPERTIES: Final[Mapping[str, tuple[str, ...]]] = {
    "inCommitTimestamp": _TIMESTAMPS,
    "rowTracking": (
        "delta.enableRowTracking",
        "delta.rowTrackingSuspended",
        "delta.rowTracking.materializedRowIdColumnName",
        "delta.rowTracking.materializedRowCommitVersionColumnName",
    ),
}
_DOMAINS: Final = {"rowTracking": ROW_TRACKING_DOMAIN}


def _refused(handle: TableHandle, feature: str, reason: str) -> FeatureDropError:
    return FeatureDropError(table=handle.label, feature=feature, reason=reason)
