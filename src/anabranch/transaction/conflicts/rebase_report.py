"""How a commit was fitted behind those that landed first, as `commitInfo.tags` tell it under our own prefix."""

from __future__ import annotations

import dataclasses
import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Annotated, Any

import msgspec
from pyroaring import BitMap64

from anabranch.protocol.actions import AddFile
from anabranch.transaction.read_set import DescribeRows, RowsOfFile

LANDED_AFTER_TAG = "anabranch.landedAfter"
"""The versions that landed between the one read and ours, and with which ours was reconciled."""
MOVED_ROWS_TAG = "anabranch.movedRows"
RELOCATED_ROWS_TAG = "anabranch.foundRows"
UNITED_VECTORS_TAG = "anabranch.unitedVectors"
STANDS_BEFORE_TAG = "anabranch.standsBefore"
CARRIED_ROWS_TAG = "anabranch.carriedRows"
LEFT_OUT_BINS_TAG = "anabranch.leftOutBins"
LOST_TO_TAG = "anabranch.lostTo"

RANGES_MAX = 20
"""Of consecutive versions; of more the first are told."""
CHARACTERS_MAX = 2_000
"""Of a tag; a longer one is not ours."""
VERSIONS_MAX = 10_000

_Count = Annotated[int, msgspec.Meta(ge=1, le=2**48)]
_COUNTS = msgspec.json.Decoder(dict[Annotated[int, msgspec.Meta(ge=0, le=2**62)], _Count])


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Reconciliation:
    """What became of a proposal on its way into the log. Nothing, where nobody was in the way."""

    moved_rows: Mapping[int, int] = dataclasses.field(default_factory=dict)
    """Rows to be hidden that went through an OPTIMIZE that left word of where, by its version."""
    relocated_rows: Mapping[int, int] = dataclasses.field(default_factory=dict)
    """Rows to be hidden that were found again behind a compaction that left no word, by its version."""
    united_vectors: int = 0
    """Files in which winners had hidden other rows than ours."""
    serialized_before: tuple[int, ...] = ()
    """Blind appends that landed first and count as if they came later: see `WriteSerializable`."""
    carried_rows: int = 0
    """Of a commit that changes no row: rows that winners had hidden, and that it hid in its own files."""
    left_out_bins: int = 0
    """Of such a commit: parts that winners had made impossible."""

    def tags(self) -> dict[str, str]:
        """For `commitInfo.tags`; what did not happen is not mentioned."""
        told = {
            MOVED_ROWS_TAG: _counts(self.moved_rows),
            RELOCATED_ROWS_TAG: _counts(self.relocated_rows),
            UNITED_VECTORS_TAG: str(self.united_vectors),
            STANDS_BEFORE_TAG: version_ranges(self.serialized_before),
            CARRIED_ROWS_TAG: str(self.carried_rows),
            LEFT_OUT_BINS_TAG: str(self.left_out_bins),
        }
        return {name: text for name, text in told.items() if text not in {"", "0", "{}"}}


def reconciliation_of(tags: Mapping[str, Any] | None) -> Reconciliation:
    """What a commit says of how it was reconciled. Tags that are not as ours are read as if they were not there."""
    told = tags or {}
    return Reconciliation(
        moved_rows=_parsed_counts(told.get(MOVED_ROWS_TAG)),
        relocated_rows=_parsed_counts(told.get(RELOCATED_ROWS_TAG)),
        united_vectors=_parsed_count(told.get(UNITED_VECTORS_TAG)),
        serialized_before=parsed_versions(told.get(STANDS_BEFORE_TAG)),
        carried_rows=_parsed_count(told.get(CARRIED_ROWS_TAG)),
        left_out_bins=_parsed_count(told.get(LEFT_OUT_BINS_TAG)),
    )


def version_ranges(versions: Iterable[int]) -> str:
    """`14-16,20`, ascending."""
    found: list[list[int]] = []
    for version in sorted(set(versions)):
        if found and version == found[-1][1] + 1:
            found[-1][1] = version
        else:
            found.append([version, version])
    shown = (str(first) if first == last else f"{first}-{last}" for first, last in found[:RANGES_MAX])
    return ",".join(shown)


def parsed_versions(text: object) -> tuple[int, ...]:
    """From `14-16,20`. Of a stretch that is too long to be listed only the ends are."""
    if not isinstance(text, str) or len(text) > CHARACTERS_MAX:
        return ()
    found: list[int] = []
    for stretch in text.split(","):
        parts = re.fullmatch(r"(\d{1,18})(?:-(\d{1,18}))?", stretch)
        if parts is None:
            return ()
        first, last = int(parts[1]), int(parts[2] or parts[1])
        found += range(first, last + 1) if 0 <= last - first < VERSIONS_MAX else (first, last)
    return tuple(found)


def _counts(rows: Mapping[int, int]) -> str:
    return msgspec.json.encode({version: count for version, count in sorted(rows.items()) if count}).decode()


def _parsed_counts(text: object) -> dict[int, int]:
    if not isinstance(text, str) or len(text) > CHARACTERS_MAX:
        return {}
    try:
        return _COUNTS.decode(text)
    except msgspec.MsgspecError:
        return {}


def _parsed_count(text: object) -> int:
    return int(text) if isinstance(text, str) and re.fullmatch(r"\d{1,15}", text) else 0


# A few of the rows in conflict, for the one who reads the message.


LOGGER = logging.getLogger("anabranch.commit")

EXAMPLES_MAX = 3
ROW_CHARACTERS_MAX = 300
"""Of one row; a message is to be read."""


def select_example_rows(found: Iterable[tuple[AddFile, BitMap64]]) -> tuple[RowsOfFile, ...]:
    """The first of these rows, `EXAMPLES_MAX` in all, by file. None of them is hidden by its file's vector."""
    chosen: list[RowsOfFile] = []
    left = EXAMPLES_MAX
    for file, positions in found:
        few = BitMap64(islice(positions, left))
        if few:
            chosen.append(RowsOfFile(file=file, positions=few))
            left -= len(few)
        if not left:
            break
    return tuple(chosen)


def row_texts(rows: Sequence[RowsOfFile], describe: DescribeRows | None) -> tuple[str, ...]:
    """By their values where `describe` tells them, else by where they stand."""
    if not rows:
        return ()
    told = _told(rows, describe) if describe is not None else []
    return tuple(_cut(row) for row in told[:EXAMPLES_MAX]) or _places(rows)


def _told(rows: Sequence[RowsOfFile], describe: DescribeRows) -> list[str]:
    try:
        return [str(row) for row in describe(rows)]
    except Exception:
        # The conflict is what the user must hear of. That its rows can't be read, since VACUUM took their files
        # or the session is closing, must not stand in its place.
        LOGGER.debug("rows in conflict could not be read", exc_info=True)
        return []


def _places(rows: Sequence[RowsOfFile]) -> tuple[str, ...]:
    return tuple(f"row {position} of {each.file.path}" for each in rows for position in each.positions or ())


def _cut(row: str) -> str:
    return row if len(row) <= ROW_CHARACTERS_MAX else f"{row[: ROW_CHARACTERS_MAX - 1]}…"
