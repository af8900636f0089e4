"""The table features that exist, one row each. See "Valid Feature Names in Table Features".

To let anabranch read or write a table with a further feature, change its row.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable
from typing import Final

from pyspark.sql.types import StructType, TimestampNTZType, VariantType

from anabranch.protocol.column_rules import GEOSPATIAL_TYPES, RuleKind, column_rules, contains_type
from anabranch.protocol.properties import TableProperties

Need = Callable[[StructType, TableProperties], bool]
"""Whether schema or properties of a table ask for a feature."""


class FeatureKind(enum.Enum):
    """Who must know the feature."""

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
    """First reader version that implied it; None for writer features and those of versions 3 and 7."""
    legacy_writer: int | None = None
    requires: tuple[str, ...] = ()
    """Features that must be supported with it."""
    needed: Need | None = None
    """When it is active; None: as soon as it is supported, which only `delta.feature.<name>` asks for."""
    joins_existing_tables: bool = True
    """Whether a change of metadata may bring it in; if not, the user must ask for it by name."""

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


def _flag(name: str) -> Need:
    return lambda _, properties: bool(properties.value(name))


def _rule(kind: RuleKind) -> Need:
    return lambda schema, _: any(rule.kind is kind for rule in column_rules(schema))


def _has_timestamp_ntz(schema: StructType, _: TableProperties) -> bool:
    return contains_type(schema, lambda data_type: isinstance(data_type, TimestampNTZType))


def _has_variant(schema: StructType, _: TableProperties) -> bool:
    return contains_type(schema, lambda data_type: isinstance(data_type, VariantType))


def _has_geospatial(schema: StructType, _: TableProperties) -> bool:
    return contains_type(schema, lambda data_type: data_type.typeName() in GEOSPATIAL_TYPES)


def _writer(name: str, *, writable: bool = True, needed: Need | None = None, requires: tuple[str, ...] = ()) -> Feature:
    """A feature that readers may ignore."""
    return Feature(
        name=name, kind=FeatureKind.WRITER, readable=True, writable=writable, needed=needed, requires=requires
    )


def _legacy_writer(name: str, version: int, needed: Need) -> Feature:
    return Feature(
        name=name, kind=FeatureKind.WRITER, readable=True, writable=True, legacy_writer=version, needed=needed
    )


def _both(
    name: str,
    *,
    readable: bool = True,
    writable: bool = True,
    needed: Need | None = None,
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
    _legacy_writer("appendOnly", 2, _flag("delta.appendOnly")),
    _legacy_writer("invariants", 2, _rule(RuleKind.INVARIANT)),
    _legacy_writer("checkConstraints", 3, lambda _, properties: bool(properties.constraints)),
    _legacy_writer("changeDataFeed", 4, _flag("delta.enableChangeDataFeed")),
    _legacy_writer("generatedColumns", 4, _rule(RuleKind.GENERATED)),
    Feature(
        name="columnMapping",
        kind=FeatureKind.READER_WRITER,
        readable=True,
        writable=True,
        legacy_reader=2,
        legacy_writer=5,
        needed=lambda _, properties: properties.column_mapping_mode != "none",
    ),
    _legacy_writer("identityColumns", 6, _rule(RuleKind.IDENTITY)),
    # Readers and writers.
    _both("timestampNtz", needed=_has_timestamp_ntz, joins_existing_tables=False),
    _both("deletionVectors", needed=_flag("delta.enableDeletionVectors")),
    _both("v2Checkpoint", needed=lambda _, properties: properties.checkpoint_policy == "v2"),
    _both("vacuumProtocolCheck"),
    _both("typeWidening", needed=_flag("delta.enableTypeWidening")),
    _both("typeWidening-preview"),
    _both("variantType", needed=_has_variant),
    _both("variantType-preview"),
    _both("variantShredding", writable=False, needed=_flag("delta.enableVariantShredding"), requires=("variantType",)),
    _both("variantShredding-preview", writable=False),
    _both("geospatial", readable=False, writable=False, needed=_has_geospatial),
    _both("geospatial-dev", readable=False, writable=False),
    _both(
        "catalogManaged",
        readable=False,
        writable=False,
        requires=("inCommitTimestamp", "vacuumProtocolCheck"),
    ),
    _both("adaptiveMetadata-preview", readable=False, writable=False),
    _both(
        "redirectReaderWriter-preview",
        readable=False,
        writable=False,
        needed=lambda _, properties: properties.value("delta.redirectReaderWriter-preview") is not None,
    ),
    # Writers only.
    _writer("domainMetadata"),
    _writer("rowTracking", needed=_flag("delta.enableRowTracking"), requires=("domainMetadata",)),
    _writer("clustering", requires=("domainMetadata",)),
    _writer("allowColumnDefaults"),
    _writer("inCommitTimestamp", needed=_flag("delta.enableInCommitTimestamps")),
    _writer("checkpointProtection"),
    _writer("icebergCompatV1", needed=_flag("delta.enableIcebergCompatV1"), requires=("columnMapping",)),
    _writer("icebergCompatV2", needed=_flag("delta.enableIcebergCompatV2"), requires=("columnMapping",)),
    _writer(
        "icebergCompatV3",
        writable=False,
        needed=_flag("delta.enableIcebergCompatV3"),
        requires=("columnMapping", "rowTracking"),
    ),
    _writer(
        "materializePartitionColumns",
        writable=False,
        needed=_flag("delta.enableMaterializePartitionColumnsFeature"),
    ),
    _writer(
        "coordinatedCommits-preview",
        writable=False,
        needed=lambda _, properties: properties.value("delta.coordinatedCommits.commitCoordinator-preview") is not None,
        requires=("inCommitTimestamp", "vacuumProtocolCheck"),
    ),
    _writer(
        "redirectWriterOnly-preview",
        writable=False,
        needed=lambda _, properties: properties.value("delta.redirectWriterOnly-preview") is not None,
    ),
)

FEATURES: Final[dict[str, Feature]] = {row.name: row for row in _ROWS}
FEATURES_BY_LOWER_NAME: Final[dict[str, Feature]] = {row.name.lower(): row for row in _ROWS}
"""`delta.feature.<name>` is stored by Delta in small letters."""
