"""Whether pyiceberg, the library that writes Iceberg's metadata, is installed."""

from __future__ import annotations

import importlib.util

from anabranch.errors.other_formats import PyIcebergMissingError
from anabranch.protocol.properties import TableProperties, writes_iceberg


def is_installed() -> bool:
    """Whether pyiceberg can be imported, without importing it."""
    return importlib.util.find_spec("pyiceberg") is not None


def check_installed(properties: TableProperties, *, table: str) -> None:
    """Raises `PyIcebergMissingError` where properties enable Iceberg metadata and pyiceberg is not installed."""
    if writes_iceberg(properties) and not is_installed():
        raise PyIcebergMissingError(table=table)
