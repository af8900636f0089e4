"""Choosing the protocol of a new table and raising that of an existing one, never higher than needed.

See "Table Features for New and Existing Tables". A protocol is treated as its set of features, and
written in the weakest form that means exactly this set: legacy versions where they imply it, else version
7 with a list, and reader version 3 only where a reader must know one of them.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Iterable, Mapping
from typing import Final

from pyspark.sql.types import StructType

from anabranch.errors.protocol import (
    FeatureByNameOnlyError,
    FeatureStatusError,
    InvalidProtocolError,
    UnknownFeatureError,
)
from anabranch.protocol.actions import Protocol
from anabranch.protocol.features import (
    FEATURES,
    FEATURES_BY_LOWER_NAME,
    READER_VERSION_MAX,
    WRITER_VERSION_MAX,
    FeatureKind,
    supported_features,
)
from anabranch.protocol.properties import FEATURE_PREFIX, TableProperties

DEFAULT_READER_VERSION: Final = 1
DEFAULT_WRITER_VERSION: Final = 2
"""The version of a table without requests: it has `appendOnly` and `invariants`, as with Delta."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ProtocolRequest:
    """The protocol that a user requests, through properties that are never stored."""

    features: frozenset[str] = frozenset()
    """From `delta.feature.<name> = supported`."""
    min_reader_version: int | None = None
    min_writer_version: int | None = None


def requested_protocol(properties: Mapping[str, str]) -> ProtocolRequest:
    """The protocol pseudo-properties among validated ones (`properties.validated`).

    Raises `UnknownFeatureError`, `InvalidPropertyError`.
    """
    view = TableProperties(dict(properties))
    return ProtocolRequest(
        features=frozenset(
            _requested_feature(name, value) for name, value in properties.items() if name.startswith(FEATURE_PREFIX)
        ),
        min_reader_version=view.value("delta.minReaderVersion"),
        min_writer_version=view.value("delta.minWriterVersion"),
    )


def needed_features(schema: StructType, properties: TableProperties) -> frozenset[str]:
    """The features that schema and properties need, without those that these require in turn."""
    return frozenset(
        name for name, row in FEATURES.items() if row.needed is not None and row.needed(schema, properties)
    )


def with_required(features: Iterable[str]) -> frozenset[str]:
    """`features`, and all features that they require, directly or not."""
    complete: set[str] = set()
    waiting = list(features)
    while waiting:
        name = waiting.pop()
        if name not in complete:
            complete.add(name)
            row = FEATURES.get(name)
            waiting.extend(row.requires if row else ())
    return frozenset(complete)


def protocol_for_new_table(
    schema: StructType,
    properties: TableProperties,
    requested: ProtocolRequest = ProtocolRequest(),
) -> Protocol:
    """The weakest protocol with all features that the table needs or the user requests.

    Requested versions count as the features that they imply; writer version 7 implies none.
    Raises `InvalidProtocolError`.
    """
    writer_version = requested.min_writer_version or DEFAULT_WRITER_VERSION
    reader_version = requested.min_reader_version or DEFAULT_READER_VERSION
    if writer_version < WRITER_VERSION_MAX and reader_version == READER_VERSION_MAX:
        raise InvalidProtocolError(reason=f"Reader version 3 needs writer version 7, not {writer_version}.")
    base = (
        Protocol(min_reader_version=reader_version, min_writer_version=writer_version)
        if writer_version < WRITER_VERSION_MAX
        else Protocol(min_reader_version=DEFAULT_READER_VERSION, min_writer_version=DEFAULT_WRITER_VERSION)
    )
    needed = needed_features(schema, properties)
    _check_preview_clash(requested.features)
    return protocol_of(supported_features(base) | with_required(_without_previews(needed, requested.features)))


def upgrade_protocol(current: Protocol, needed: Iterable[str]) -> Protocol:
    """`current` with these features and those that they require; `current` itself where it has them all.

    Features that a legacy version implied are listed, since older versions of the table may have used it.
    """
    have = supported_features(current)
    wanted = with_required(needed)
    if wanted <= have:
        return current
    return protocol_of(have | wanted)


def protocol_for_existing_table(
    current: Protocol,
    schema: StructType,
    properties: TableProperties,
    requested: ProtocolRequest = ProtocolRequest(),
) -> Protocol:
    """The protocol that the table needs before it may have this schema and these properties.

    It is `current` itself where nothing is missing. Raises `FeatureByNameOnlyError` for a feature that
    an existing table gets only when the user sets `delta.feature.<name>`.
    """
    have = supported_features(current)
    needed = _without_previews(needed_features(schema, properties), have | requested.features) - have
    by_name_only = sorted(name for name in needed - requested.features if not FEATURES[name].joins_existing_tables)
    if by_name_only:
        names = ", ".join(f"'{FEATURE_PREFIX}{name}' = 'supported'" for name in by_name_only)
        raise FeatureByNameOnlyError(
            reason=f"The new schema needs table features that this table does not support yet. "
            f"Allow them first: ALTER TABLE … SET TBLPROPERTIES ({names})."
        )
    return upgrade_protocol(current, needed | requested.features | _requested_legacy(requested))


def protocol_of(features: Iterable[str]) -> Protocol:
    """The weakest protocol that supports exactly these features.

    Unknown features are assumed to concern readers too, and stay listed.
    """
    names = frozenset(features)
    rows = [FEATURES[name] for name in names if name in FEATURES]
    unknown = names - FEATURES.keys()
    reader = max((row.reader_version for row in rows), default=1)
    writer = max((row.writer_version for row in rows), default=1)
    if not unknown:
        legacy = Protocol(min_reader_version=reader, min_writer_version=writer)
        if writer < WRITER_VERSION_MAX and supported_features(legacy) == names:
            return legacy
    if unknown:
        reader = READER_VERSION_MAX
    reader_features = sorted(unknown | {row.name for row in rows if row.kind is FeatureKind.READER_WRITER})
    return Protocol(
        min_reader_version=reader,
        min_writer_version=WRITER_VERSION_MAX,
        reader_features=reader_features if reader == READER_VERSION_MAX else None,
        writer_features=sorted(names),
    )


def _requested_feature(name: str, value: str) -> str:
    feature = name[len(FEATURE_PREFIX) :]
    row = FEATURES_BY_LOWER_NAME.get(feature.lower())
    if row is None:
        near = difflib.get_close_matches(feature.lower(), FEATURES_BY_LOWER_NAME, n=3)
        raise UnknownFeatureError(name=feature, suggestions=tuple(FEATURES_BY_LOWER_NAME[match].name for match in near))
    if value.lower() not in {"supported", "enabled"}:
        raise FeatureStatusError(name=f"{FEATURE_PREFIX}{row.name}", value=value, expected="'supported'")
    return row.name


def _requested_legacy(requested: ProtocolRequest) -> frozenset[str]:
    """Features implied by the versions that the user requests; versions that list features imply none."""
    reader = min(requested.min_reader_version or 1, READER_VERSION_MAX - 1)
    writer = requested.min_writer_version or 1
    return supported_features(Protocol(min_reader_version=reader, min_writer_version=writer))


def _without_previews(needed: frozenset[str], requested: frozenset[str]) -> frozenset[str]:
    """`needed` and `requested`, but for final features of which the table has the preview already."""
    served = {name.removesuffix("-preview") for name in requested if name.endswith("-preview")}
    return (needed - served) | {name for name in requested if name in FEATURES}


def _check_preview_clash(requested: frozenset[str]) -> None:
    for name in requested:
        if f"{name}-preview" in requested:
            raise InvalidProtocolError(reason=f"Request `{name}` or `{name}-preview`, not both.")
