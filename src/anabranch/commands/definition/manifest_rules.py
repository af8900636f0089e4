"""Which tables may have symlink manifests: those whose rows can be read from the listed files alone."""

from __future__ import annotations

from anabranch.errors.other_formats import ManifestsExcludeVectorsError, ManifestsNeedPlainColumnsError
from anabranch.protocol.properties import TableProperties
from anabranch.schema.column_mapping import ColumnMappingMode


def check_manifests(properties: TableProperties, mode: ColumnMappingMode, *, table: str) -> None:
    """Raises `ManifestsExcludeVectorsError` and `ManifestsNeedPlainColumnsError`."""
    if not properties.symlink_manifests_enabled:
        return
    if properties.deletion_vectors_enabled:
        raise ManifestsExcludeVectorsError(table=table)
    if mode.maps:
        raise ManifestsNeedPlainColumnsError(table=table)
