"""Iceberg compatibility as properties tell it: which version is on, and what it needs of other properties.

See "Iceberg Compatibility V1", "Iceberg Compatibility V2"; the rules themselves are in `schema.iceberg_rules`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from anabranch.protocol.properties import TableProperties

COMPAT_VERSIONS: Final = (1, 2)
"""Those that anabranch keeps to."""
COMPAT_TAG: Final = "ICEBERG_COMPAT_VERSION"
"""Among the tags of a data file: the version whose rules it was written by; from version 2 on."""
FORMATS: Final = "delta.universalFormat.enabledFormats"
ICEBERG: Final = "iceberg"
VECTORS: Final = "delta.enableDeletionVectors"
MAPPING_MODE: Final = "delta.columnMapping.mode"


def compat_property(version: int) -> str:
    """The property that turns a version on."""
    return f"delta.enableIcebergCompatV{version}"


def compat_versions(properties: TableProperties) -> tuple[int, ...]:
    """The versions that are on; more than one is a mistake."""
    return tuple(version for version in COMPAT_VERSIONS if properties.value(compat_property(version)))


def stores_partition_columns(properties: TableProperties) -> bool:
    """Whether data files hold the partition columns too, behind all others."""
    return bool(compat_versions(properties)) or bool(properties.value("delta.writePartitionColumnsToParquet"))


def numbers_nested_fields(properties: TableProperties) -> bool:
    """Whether elements, keys and values have ids as columns do."""
    return max(compat_versions(properties), default=0) >= 2


def file_tags(properties: TableProperties) -> dict[str, str] | None:
    """What the log says of every file that is written today; None for nothing."""
    version = max(compat_versions(properties), default=0)
    return {COMPAT_TAG: str(version)} if version >= 2 else None


def universal_formats(properties: TableProperties) -> tuple[str, ...]:
    """The formats that each version of the table is written for besides Delta."""
    formats: tuple[str, ...] = properties.value(FORMATS)
    return formats


def writes_iceberg(properties: TableProperties) -> bool:
    """Whether every version of the table gets Iceberg metadata."""
    return ICEBERG in universal_formats(properties) and bool(compat_versions(properties))


def with_requirements(configuration: Mapping[str, str]) -> dict[str, str]:
    """The properties of a new table with those that Iceberg compatibility needs and the user left open."""
    found = dict(configuration)
    if compat_versions(TableProperties(found)):
        found.setdefault(MAPPING_MODE, "name")
        found.setdefault(VECTORS, "false")
    return found


def without_orphaned_format(old: TableProperties, configuration: Mapping[str, str]) -> dict[str, str]:
    """`configuration`, which no longer asks for Iceberg metadata where it turns compatibility off."""
    found, new = dict(configuration), TableProperties(configuration)
    if compat_versions(old) and not compat_versions(new) and ICEBERG in universal_formats(new):
        kept = [name for name in universal_formats(new) if name != ICEBERG]
        found.pop(FORMATS)
        if kept:
            found[FORMATS] = ",".join(kept)
    return found
