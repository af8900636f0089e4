"""Which features a table supports, which are active, and whether anabranch may read and write it.

See "Table Features" of PROTOCOL.md; the features themselves are rows of `feature_table`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal

from pyspark.sql.types import StructType

from anabranch.errors.protocol import UnsupportedFeatureError
from anabranch.protocol.actions import Protocol
from anabranch.protocol.feature_table import FEATURES, Feature
from anabranch.protocol.properties import TableProperties

READER_VERSION_MAX: Final = 3
"""The one that lists reader features."""
WRITER_VERSION_MAX: Final = 7
"""The one that lists writer features."""

_NO_COLUMNS: Final = StructType([])
_NEWER: Final = "It is newer than this anabranch; upgrade, or use an engine that knows it."


def supported_features(protocol: Protocol) -> frozenset[str]:
    """Names of all features that the table supports: listed, or implied by a legacy version.

    Names nobody here knows are among them.
    """
    listed = {*(protocol.reader_features or ()), *(protocol.writer_features or ())}
    return frozenset(listed | _implied(protocol.min_reader_version, protocol.min_writer_version))


def supported(protocol: Protocol, feature: str) -> bool:
    """See "Supported Features"."""
    return feature in supported_features(protocol)


def active(protocol: Protocol, feature: str, *, properties: TableProperties, schema: StructType = _NO_COLUMNS) -> bool:
    """Supported, and its property is set or its column type is there. See "Active Features"."""
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


def _implied(reader_version: int, writer_version: int) -> set[str]:
    """Legacy features that come with versions below those that list features."""
    return {
        row.name
        for row in FEATURES.values()
        if row.legacy_writer is not None
        and row.legacy_writer <= writer_version < WRITER_VERSION_MAX
        and row.reader_version <= reader_version < READER_VERSION_MAX
    }


def _reader_features(protocol: Protocol) -> Iterable[str]:
    """What a reader must know. Column mapping is listed for writers alone where the reader version is 2."""
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
        return "Reader version 3 goes with writer version 7 only; the log is damaged."
    return ""


def _check_features(protocol: Protocol, names: Iterable[str], table: str, access: Literal["read", "write"]) -> None:
    missing = tuple(sorted(name for name in names if not _can(FEATURES.get(name), access)))
    if missing:
        raise _unsupported(protocol, table, access, missing, "")


def _can(row: Feature | None, access: Literal["read", "write"]) -> bool:
    if row is None:
        return False
    return row.readable if access == "read" else row.writable


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
    )
