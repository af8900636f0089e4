"""Which features a table supports, which are active, and whether anabranch may read and write it.

See "Table Features" of PROTOCOL.md.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
from collections.abc import Callable, Iterable
from typing import Final, Literal

from pyspark.sql.types import StructType, TimestampNTZType, VariantType

from anabranch.errors.protocol import UnsupportedFeatureError
from anabranch.protocol.actions import Protocol
from anabranch.protocol.column_rules import GEOSPATIAL_TYPES, RuleKind, column_rules, contains_type
from anabranch.protocol.properties import TableProperties

# The table features that exist, one row each. See "Valid Feature Names in Table Features".
#
# To let anabranch read or write a table with a further feature, change its row.


NeedsFeature = Callable[[StructType, TableProperties], bool]
"""Whether the schema or the properties of a table need a feature."""


class FeatureKind(enum.Enum):
    """Which clients must know the feature."""

    WRITER = "writer"
    READER_WRITER = "reader and writer"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    """One table feature."""

    name: str
    kind: FeatureKind
    readable: bool
    """Whether anabranch reads tables that support it."""
    writable: bool
    """Whether anabranch writes tables that support it."""
    legacy_reader: int | None = None
    """The first reader version that implied it; None for writer features and those of versions 3 and 7."""
    legacy_writer: int | None = None
    requires: tuple[str, ...] = ()
    """Features that must be supported with it."""
    needed: NeedsFeature | None = None
    """When it is active. None: as soon as it is supported, which only `delta.feature.<name>` causes."""
    joins_existing_tables: bool = True
    """Whether a change of metadata may add it; if not, the user must set `delta.feature.<name>`."""

    @property
    def reader_version(self) -> int:
        """The lowest reader version that can support it."""
        if self.kind is FeatureKind.WRITER:
            return 1
        return 3 if self.legacy_reader is None else self.legacy_reader

    @property
    def writer_version(self) -> int:
        """The lowest writer version that can support it."""
        return 7 if self.legacy_writer is None else self.legacy_writer


def _is_set(name: str) -> NeedsFeature:
    return lambda _, properties: bool(properties.value(name))


def _has_rule(kind: RuleKind) -> NeedsFeature:
    return lambda schema, _: any(rule.kind is kind for rule in column_rules(schema))


def _has_timestamp_ntz(schema: StructType, _: TableProperties) -> bool:
    return contains_type(schema, lambda data_type: isinstance(data_type, TimestampNTZType))


def _has_variant(schema: StructType, _: TableProperties) -> bool:
    return contains_type(schema, lambda data_type: isinstance(data_type, VariantType))


def _has_geospatial(schema: StructType, _: TableProperties) -> bool:
    return contains_type(schema, lambda data_type: data_type.typeName() in GEOSPATIAL_TYPES)


def _writer_only(
    name: str, *, writable: bool = True, needed: NeedsFeature | None = None, requires: tuple[str, ...] = ()
) -> Feature:
    """A feature that readers may ignore."""
    return Feature(
        name=name, kind=FeatureKind.WRITER, readable=True, writable=writable, needed=needed, requires=requires
    )


def _legacy_writer(name: str, version: int, needed: NeedsFeature) -> Feature:
    return Feature(
        name=name, kind=FeatureKind.WRITER, readable=True, writable=True, legacy_writer=version, needed=needed
    )


def _reader_writer(
    name: str,
    *,
    readable: bool = True,
    writable: bool = True,
    needed: NeedsFeature | None = None,
    requires: tuple[str, ...] = (),
    joins_existing_tables: bool = True,
) -> Feature:
    """A feature that readers must know."""
    return Feature(
        name=name,
        kind=FeatureKind.READER_WRITER,
        readable=readable,
        writable=writable,
        needed=needed,
        requires=requires,
        joins_existing_tables=joins_existing_tables,
    )


_ROWS: Final[tuple[Feature, ...]] = (
    # Those with a legacy version.
    _legacy_writer("appendOnly", 2, _is_set("delta.appendOnly")),
    _legacy_writer("invariants", 2, _has_rule(RuleKind.INVARIANT)),
    _legacy_writer("checkConstraints", 3, lambda _, properties: bool(properties.constraints)),
    _legacy_writer("changeDataFeed", 4, _is_set("delta.enableChangeDataFeed")),
    _legacy_writer("generatedColumns", 4, _has_rule(RuleKind.GENERATED)),
    Feature(
        name="columnMapping",
        kind=FeatureKind.READER_WRITER,
        readable=True,
        writable=True,
        legacy_reader=2,
        legacy_writer=5,
        needed=lambda _, properties: properties.column_mapping_mode != "none",
    ),
    _legacy_writer("identityColumns", 6, _has_rule(RuleKind.IDENTITY)),
    # Readers and writers.
    _reader_writer("timestampNtz", needed=_has_timestamp_ntz, joins_existing_tables=False),
    _reader_writer("timestampWithoutTimezone"),
    _reader_writer("deletionVectors", needed=_is_set("delta.enableDeletionVectors")),
    _reader_writer("v2Checkpoint", needed=lambda _, properties: properties.checkpoint_policy == "v2"),
    _reader_writer("vacuumProtocolCheck"),
    _reader_writer("typeWidening", needed=_is_set("delta.enableTypeWidening")),
    _reader_writer("typeWidening-preview"),
    _reader_writer("variantType", needed=_has_variant),
    _reader_writer("variantType-preview"),
    _reader_writer("variantShredding", needed=_is_set("delta.enableVariantShredding"), requires=("variantType",)),
    _reader_writer("variantShredding-preview"),
    _reader_writer("geospatial", readable=False, writable=False, needed=_has_geospatial),
    _reader_writer("geospatial-dev", readable=False, writable=False),
    _reader_writer(
        "catalogManaged",
        readable=False,
        writable=False,
        requires=("inCommitTimestamp", "vacuumProtocolCheck"),
    ),
    _reader_writer("adaptiveMetadata-preview", readable=False, writable=False),
    _reader_writer(
        "redirectReaderWriter-preview",
        readable=False,
        writable=False,
        needed=lambda _, properties: properties.value("delta.redirectReaderWriter-preview") is not None,
    ),
    # Writers only.
    _writer_only("domainMetadata"),
    _writer_only("rowTracking", needed=_is_set("delta.enableRowTracking"), requires=("domainMetadata",)),
    _writer_only("clustering", requires=("domainMetadata",)),
    _writer_only("allowColumnDefaults"),
    _writer_only("inCommitTimestamp", needed=_is_set("delta.enableInCommitTimestamps")),
    _writer_only("checkpointProtection"),
    _writer_only("icebergCompatV1", needed=_is_set("delta.enableIcebergCompatV1"), requires=("columnMapping",)),
    _writer_only("icebergCompatV2", needed=_is_set("delta.enableIcebergCompatV2"), requires=("columnMapping",)),
    _writer_only(
        "icebergCompatV3",
        writable=False,
        needed=_is_set("delta.enableIcebergCompatV3"),
        requires=("columnMapping", "rowTracking"),
    ),
    _writer_only(
        "materializePartitionColumns",
        writable=False,
        needed=_is_set("delta.enableMaterializePartitionColumnsFeature"),
    ),
    _writer_only(
        "coordinatedCommits-preview",
        writable=False,
        needed=lambda _, properties: properties.value("delta.coordinatedCommits.commitCoordinator-preview") is not None,
        requires=("inCommitTimestamp", "vacuumProtocolCheck"),
    ),
    _writer_only(
        "redirectWriterOnly-preview",
        writable=False,
        needed=lambda _, properties: properties.value("delta.redirectWriterOnly-preview") is not None,
    ),
)

_UNIMPLEMENTED: Final[dict[str, str]] = {
    "catalogOwned-preview": "a catalog decides which commits count",
    "clusteringExpressions": "clustering by expressions",
    "collations": "strings that are compared by a collation",
    "collations-preview": "strings that are compared by a collation",
    "columnMappingUsageTracking": "a record of which columns files use",
    "concurrentIdentityColumns": "numbers that several writers draw at once",
    "geospatial": "geometry and geography",
    "geospatial-dev": "geometry and geography",
    "icebergWriterCompatV1": "rules for writers of which Iceberg's readers take every file",
    "icebergWriterCompatV3": "rules for writers of which Iceberg's readers take every file",
    "multiTableTransaction": "commits of several tables at once",
    "recordLevelIndex": "an index of single rows",
    "tableBranching": "branches of a table",
    "timestampNanos": "timestamps of nanoseconds",
}
"""Features that anabranch does not implement, in words for the message that refuses them."""

FEATURES: Final[dict[str, Feature]] = {row.name: row for row in _ROWS}
FEATURES_BY_LOWER_NAME: Final[dict[str, Feature]] = {row.name.lower(): row for row in _ROWS}
_READABLE: Final = frozenset(row.name for row in _ROWS if row.readable)
_WRITABLE: Final = frozenset(row.name for row in _ROWS if row.writable)
"""Delta stores `delta.feature.<name>` in lower case."""


READER_VERSION_MAX: Final = 3
"""The reader version that lists reader features."""
WRITER_VERSION_MAX: Final = 7
"""The writer version that lists writer features."""

_NO_COLUMNS: Final = StructType([])
_NEWER: Final = "It is newer than this release of anabranch: upgrade, or use an engine that supports it."


def supported_features(protocol: Protocol) -> frozenset[str]:
    """Names of all features that the table supports: listed, or implied by a legacy version.

    Features that anabranch does not know are among them.
    """
    listed = {*(protocol.reader_features or ()), *(protocol.writer_features or ())}
    return frozenset(listed | _implied(protocol.min_reader_version, protocol.min_writer_version))


def same_protocol(one: Protocol, other: Protocol) -> bool:
    """Whether both have the same versions and support the same features, listed or not."""
    versions = one.min_reader_version == other.min_reader_version and one.min_writer_version == other.min_writer_version
    return versions and supported_features(one) == supported_features(other)


def supported(protocol: Protocol, feature: str) -> bool:
    """Whether the protocol supports the feature. See "Supported Features"."""
    listed = feature in (protocol.reader_features or ()) or feature in (protocol.writer_features or ())
    return listed or feature in _implied(protocol.min_reader_version, protocol.min_writer_version)


def active(protocol: Protocol, feature: str, *, properties: TableProperties, schema: StructType = _NO_COLUMNS) -> bool:
    """Whether a feature is supported, and its property set or its column type used. See "Active Features"."""
    if not supported(protocol, feature):
        return False
    row = FEATURES.get(feature)
    return row is None or row.needed is None or row.needed(schema, properties)


def check_readable(protocol: Protocol, *, table: str) -> None:
    """Raises `UnsupportedFeatureError` unless anabranch can read the table."""
    _check_versions(protocol, table, "read")
    _check_features(protocol, _reader_features(protocol), table, "read")


def check_writable(protocol: Protocol, *, table: str) -> None:
    """Raises `UnsupportedFeatureError` unless anabranch can write the table; a writer must read it too."""
    check_readable(protocol, table=table)
    _check_versions(protocol, table, "write")
    _check_features(protocol, supported_features(protocol), table, "write")


@functools.lru_cache(maxsize=64)
def _implied(reader_version: int, writer_version: int) -> frozenset[str]:
    """The legacy features that these versions imply; versions that list features imply none."""
    return frozenset(
        row.name
        for row in FEATURES.values()
        if row.legacy_writer is not None
        and row.legacy_writer <= writer_version < WRITER_VERSION_MAX
        and row.reader_version <= reader_version < READER_VERSION_MAX
    )


def _reader_features(protocol: Protocol) -> Iterable[str]:
    """The features that a reader must know. Reader version 2 implies column mapping, which only writers list."""
    names = protocol.reader_features or ()
    if protocol.min_reader_version == 2:
        return [*names, "columnMapping"]
    return names


def _check_versions(protocol: Protocol, table: str, access: Literal["read", "write"]) -> None:
    detail = ""
    if protocol.min_reader_version > READER_VERSION_MAX or (
        access == "write" and protocol.min_writer_version > WRITER_VERSION_MAX
    ):
        detail = _NEWER
    elif min(protocol.min_reader_version, protocol.min_writer_version) < 0:
        detail = "Versions of the protocol are counted from 1; the log is damaged."
    elif protocol.min_reader_version == READER_VERSION_MAX and protocol.reader_features is None:
        detail = "Reader version 3 must come with `readerFeatures`, and there are none; the log is damaged."
    elif access == "write":
        detail = _writer_fault(protocol)
    if detail:
        raise _unsupported(protocol, table, access, (), detail)


def _writer_fault(protocol: Protocol) -> str:
    if protocol.min_writer_version == WRITER_VERSION_MAX and protocol.writer_features is None:
        return "Writer version 7 must come with `writerFeatures`, and there are none; the log is damaged."
    if protocol.min_reader_version == READER_VERSION_MAX and protocol.min_writer_version < WRITER_VERSION_MAX:
        return "Reader version 3 needs writer version 7; the log is damaged."
    return ""


def _check_features(protocol: Protocol, names: Iterable[str], table: str, access: Literal["read", "write"]) -> None:
    missing = tuple(sorted(set(names) - (_READABLE if access == "read" else _WRITABLE)))
    if missing:
        raise _unsupported(protocol, table, access, missing, "")


def _unsupported(
    protocol: Protocol, table: str, access: Literal["read", "write"], features: tuple[str, ...], detail: str
) -> UnsupportedFeatureError:
    return UnsupportedFeatureError(
        table=table,
        access=access,
        features=features,
        min_reader_version=protocol.min_reader_version,
        min_writer_version=protocol.min_writer_version,
        detail=detail,
        meanings={name: _UNIMPLEMENTED[name] for name in features if name in _UNIMPLEMENTED},
    )
