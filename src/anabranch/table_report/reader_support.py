"""Which programs can read a table, by the features of its protocol.

The answers about other programs are those of the tests in `tests/interop`, which read a table with each feature; see
`docs/reference/features.md`. For delta-spark the first release with a feature is that of Delta Lake's documentation.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Final

from anabranch import __version__
from anabranch.protocol.actions import Protocol
from anabranch.protocol.features import FEATURES, READER_VERSION_MAX, active, supported_features
from anabranch.snapshot.snapshot import Snapshot
from anabranch.table_report.report_values import Access, FeatureFacts, ReaderFacts
from anabranch.text_format import listed, plain

TESTED: Final = frozenset(
    {
        *("columnMapping", "deletionVectors", "timestampNtz", "typeWidening", "v2Checkpoint", "vacuumProtocolCheck"),
        *("variantType", "variantShredding"),
    }
)
"""The features for readers with which the programs were tested."""
LACKS: Final = "lacks {}"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A program that reads Delta tables, and why it does not read some."""

    name: str
    release: str
    refuses: Mapping[str, str]
    """What it cannot do, by the feature."""


OTHERS: Final[tuple[Program, ...]] = (
    Program(
        name="delta-rs",
        release="1.6.3",
        refuses={name: LACKS.format(name) for name in ("typeWidening", "variantShredding", "vacuumProtocolCheck")},
    ),
    Program(
        name="DuckDB",
        release="1.4.4",
        refuses={"variantType": "has no VARIANT type", "variantShredding": LACKS.format("variantShredding")},
    ),
    Program(
        name="Polars",
        release="2.1",
        refuses={
            "columnMapping": "has no column mapping",
            "variantType": "has no VARIANT type",
            **{
                name: LACKS.format(name)
                for name in ("typeWidening", "variantShredding", "v2Checkpoint", "vacuumProtocolCheck")
            },
        },
    ),
)
DELTA_SPARK_TESTED: Final = "4.4.0"
FIRST_RELEASES: Final[Mapping[str, tuple[int, int]]] = {
    "columnMapping": (1, 2),
    "deletionVectors": (2, 3),
    "timestampNtz": (2, 4),
    "v2Checkpoint": (3, 0),
    "typeWidening": (4, 0),
    "variantType": (4, 0),
}
"""The first release of Delta Lake that reads a feature; for others the release that was tested is named."""
TABLE_FEATURES_RELEASE: Final = (2, 3)
"""The first release that knows reader version 3, which lists features."""


def access_to(snapshot: Snapshot) -> Access:
    """The features of the protocol, and who can read the table."""
    protocol = snapshot.protocol
    needed = reader_features(protocol)
    return Access(
        min_reader_version=protocol.min_reader_version,
        min_writer_version=protocol.min_writer_version,
        features=tuple(
            FeatureFacts(name=plain(name), readers_need_it=name in needed, active=_is_active(snapshot, name))
            for name in sorted(supported_features(protocol), key=lambda name: (name not in needed, name.lower()))
        ),
        readers=(
            ReaderFacts(
                program="anabranch", tested=__version__, reads=True, reason="supports all features that readers need"
            ),
            _delta_spark(protocol, needed),
            *(program_reads(program, protocol) for program in OTHERS),
        ),
    )


def reader_features(protocol: Protocol) -> frozenset[str]:
    """The features that a reader must know. Reader version 2 implies column mapping."""
    if protocol.min_reader_version >= READER_VERSION_MAX:
        return frozenset(protocol.reader_features or ())
    return frozenset({"columnMapping"} if protocol.min_reader_version == 2 else ())


def _is_active(snapshot: Snapshot, name: str) -> bool | None:
    if name not in FEATURES:
        return None
    return active(snapshot.protocol, name, properties=snapshot.properties, schema=snapshot.schema)


def _delta_spark(protocol: Protocol, needed: frozenset[str]) -> ReaderFacts:
    if untested := needed - TESTED:
        return _unknown("delta-spark", DELTA_SPARK_TESTED, untested)
    if needed - FIRST_RELEASES.keys():
        reason = f"tested with {DELTA_SPARK_TESTED}"
    else:
        releases = [FIRST_RELEASES[name] for name in needed]
        if protocol.min_reader_version >= READER_VERSION_MAX:
            releases.append(TABLE_FEATURES_RELEASE)
        first = max(releases, default=None)
        reason = "every release" if first is None else f"from release {first[0]}.{first[1]} on"
    return ReaderFacts(program="delta-spark", tested=DELTA_SPARK_TESTED, reads=True, reason=reason)


def program_reads(program: Program, protocol: Protocol) -> ReaderFacts:
    """Whether a program reads tables with this protocol, and why."""
    needed = reader_features(protocol)
    reasons = [program.refuses[name] for name in sorted(needed & program.refuses.keys())]
    if program.name == "DuckDB" and protocol.min_reader_version == 2 and protocol.min_writer_version == 7:
        reasons.append("refuses reader version 2 with writer version 7")
    if reasons:
        return ReaderFacts(program=program.name, tested=program.release, reads=False, reason=listed(reasons))
    if untested := needed - TESTED:
        return _unknown(program.name, program.release, untested)
    reason = "supports all features that readers need" if needed else "the table needs no feature of readers"
    return ReaderFacts(program=program.name, tested=program.release, reads=True, reason=reason)


def _unknown(program: str, tested: str, features: frozenset[str]) -> ReaderFacts:
    names = listed([plain(name) for name in sorted(features)])
    return ReaderFacts(program=program, tested=tested, reads=None, reason=f"not tested with {names}")
