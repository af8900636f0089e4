"""Iceberg compatibility, read from the properties: which version is on, and which other properties it needs.

See "Iceberg Compatibility V1", "Iceberg Compatibility V2"; the rules themselves are in `schema.iceberg_rules`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from anabranch.protocol.properties import TableProperties

COMPAT_VERSIONS: Final = (1, 2)
"""The versions that anabranch implements."""
COMPAT_TAG: Final = "ICEBERG_COMPAT_VERSION"
"""A tag of a data file: the version whose rules it was written by, from version 2 on."""
FORMATS: Final = "delta.universalFormat.enabledFormats"
ICEBERG: Final = "iceberg"
VECTORS: Final = "delta.enableDeletionVectors"
MAPPING_MODE: Final = "delta.columnMapping.mode"


def compat_property(version: int) -> str:
    """The property that turns a version on."""
    return f"delta.enableIcebergCompatV{version}"


_VERSION_OF_PROPERTY: Final = {compat_property(version): version for version in COMPAT_VERSIONS}
"""Each is off where it is not set."""


def compat_versions(properties: TableProperties) -> tuple[int, ...]:
    """The versions that are on; more than one is a mistake."""
    names = _VERSION_OF_PROPERTY.keys() & properties.configuration.keys()
    return tuple(sorted([_VERSION_OF_PROPERTY[name] for name in names if properties.value(name)])) if names else ()


def stores_partition_columns(properties: TableProperties) -> bool:
    """Whether data files hold the partition columns too, behind all others."""
    return bool(compat_versions(properties)) or bool(properties.value("delta.writePartitionColumnsToParquet"))


def numbers_nested_fields(properties: TableProperties) -> bool:
    """Whether elements, keys and values have field ids, as columns do."""
    return max(compat_versions(properties), default=0) >= 2


def file_tags(properties: TableProperties) -> dict[str, str] | None:
    """The tags of every new data file; None for none."""
    version = max(compat_versions(properties), default=0)
    return {COMPAT_TAG: str(version)} if version >= 2 else None


def universal_formats(properties: TableProperties) -> tuple[str, ...]:
    """The formats besides Delta for which each version of the table gets metadata."""
    formats: tuple[str, ...] = properties.value(FORMATS)
    return formats


def writes_iceberg(properties: TableProperties) -> bool:
    """Whether every version of the table gets Iceberg metadata."""
    return ICEBERG in universal_formats(properties) and bool(compat_versions(properties))


def with_requirements(configuration: Mapping[str, str]) -> dict[str, str]:
    """The properties of a new table, with those that Iceberg compatibility needs and the user did not set."""
    completed = dict(configuration)
    if compat_versions(TableProperties(completed)):
        completed.setdefault(MAPPING_MODE, "name")
        completed.setdefault(VECTORS, "false")
    return completed


def without_orphaned_format(old: TableProperties, configuration: Mapping[str, str]) -> dict[str, str]:
    """`configuration`, without Iceberg among its formats where it turns compatibility off."""
    remaining, new = dict(configuration), TableProperties(configuration)
    if compat_versions(old) and not compat_versions(new) and ICEBERG in universal_formats(new):
        kept = [name for name in universal_formats(new) if name != ICEBERG]
        remaining.pop(FORMATS)
        if kept:
            remaining[FORMATS] = ",".join(kept)
    return remaining
