"""How a commit was rebased, as recorded in `commitInfo.tags` under our own prefix, and example rows for messages."""

from __future__ import annotations

import dataclasses
import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Annotated, Any

import msgspec
from pyroaring import BitMap64

from anabranch.errors.commits import RowValues, text_of_row
from anabranch.protocol.actions import AddFile
from anabranch.transactions.read_set import DescribeRows, RowsOfFile

LANDED_AFTER_TAG = "anabranch.landedAfter"
"""The versions between the one read and ours, over which ours was rebased."""
MOVED_ROWS_TAG = "anabranch.movedRows"
RELOCATED_ROWS_TAG = "anabranch.foundRows"
UNITED_VECTORS_TAG = "anabranch.unitedVectors"
STANDS_BEFORE_TAG = "anabranch.standsBefore"
CARRIED_ROWS_TAG = "anabranch.carriedRows"
LEFT_OUT_BINS_TAG = "anabranch.leftOutBins"
LOST_TO_TAG = "anabranch.lostTo"

RANGES_MAX = 20
"""Ranges of consecutive versions in a tag; further ones are left out."""
CHARACTERS_MAX = 2_000
"""Length of a tag; a longer one is not ours and is ignored."""
VERSIONS_MAX = 10_000
"""Versions of one range that are listed when a tag is read."""

_Count = Annotated[int, msgspec.Meta(ge=1, le=2**48)]
_COUNTS = msgspec.json.Decoder(dict[Annotated[int, msgspec.Meta(ge=0, le=2**62)], _Count])


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Reconciliation:
    """How a proposal was changed by rebasing it. It is empty where no other commit landed first."""

    moved_rows: Mapping[int, int] = dataclasses.field(default_factory=dict)
    """The number of deleted rows that an OPTIMIZE with a row map had moved, by its version."""
    relocated_rows: Mapping[int, int] = dataclasses.field(default_factory=dict)
    """The number of deleted rows that a compaction without a row map had moved, by its version."""
    united_vectors: int = 0
    """Files in which winners had hidden other rows than ours."""
    serialized_before: tuple[int, ...] = ()
    """Blind appends that landed first and that ours is ordered before: see `WriteSerializable`."""
    carried_rows: int = 0
    """For a commit that changes no row: rows that winners had hidden, and that it hid in its own files."""
    left_out_bins: int = 0
    """For such a commit: bins that winners had made impossible."""

    def tags(self) -> dict[str, str]:
        """The tags for `commitInfo.tags`, without those of empty fields."""
        tags = {
            MOVED_ROWS_TAG: _counts(self.moved_rows),
            RELOCATED_ROWS_TAG: _counts(self.relocated_rows),
            UNITED_VECTORS_TAG: str(self.united_vectors),
            STANDS_BEFORE_TAG: version_ranges(self.serialized_before),
            CARRIED_ROWS_TAG: str(self.carried_rows),
            LEFT_OUT_BINS_TAG: str(self.left_out_bins),
        }
        return {name: text for name, text in tags.items() if text not in {"", "0", "{}"}}


def reconciliation_of(tags: Mapping[str, Any] | None) -> Reconciliation:
    """The reconciliation that the tags of a commit record. A malformed tag counts as missing."""
    tags = tags or {}
    return Reconciliation(
        moved_rows=_parsed_counts(tags.get(MOVED_ROWS_TAG)),
        relocated_rows=_parsed_counts(tags.get(RELOCATED_ROWS_TAG)),
        united_vectors=_parsed_count(tags.get(UNITED_VECTORS_TAG)),
        serialized_before=parsed_versions(tags.get(STANDS_BEFORE_TAG)),
        carried_rows=_parsed_count(tags.get(CARRIED_ROWS_TAG)),
        left_out_bins=_parsed_count(tags.get(LEFT_OUT_BINS_TAG)),
    )


def version_ranges(versions: Iterable[int]) -> str:
    """The versions as text, ascending, such as `14-16,20`."""
    ranges: list[list[int]] = []
    for version in sorted(set(versions)):
        if ranges and version == ranges[-1][1] + 1:
            ranges[-1][1] = version
        else:
            ranges.append([version, version])
    texts = (str(first) if first == last else f"{first}-{last}" for first, last in ranges[:RANGES_MAX])
    return ",".join(texts)


def parsed_versions(text: object) -> tuple[int, ...]:
    """The versions of a text such as `14-16,20`. Only the ends of a very long range are listed."""
    if not isinstance(text, str) or len(text) > CHARACTERS_MAX:
        return ()
    versions: list[int] = []
    for version_range in text.split(","):
        ends = re.fullmatch(r"(\d{1,18})(?:-(\d{1,18}))?", version_range)
        if ends is None:
            return ()
        first, last = int(ends[1]), int(ends[2] or ends[1])
        versions += range(first, last + 1) if 0 <= last - first < VERSIONS_MAX else (first, last)
    return tuple(versions)


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


# A few of the rows in conflict, for the message.


LOGGER = logging.getLogger("anabranch.commit")

EXAMPLES_MAX = 3
ROW_CHARACTERS_MAX = 300
"""Length of one row in a message, and of one value in a table, which must stay readable."""


def select_example_rows(rows: Iterable[tuple[AddFile, BitMap64]]) -> tuple[RowsOfFile, ...]:
    """The first of these rows, `EXAMPLES_MAX` in all, by file. None of them is hidden by its file's vector."""
    chosen: list[RowsOfFile] = []
    left = EXAMPLES_MAX
    for file, positions in rows:
        first = BitMap64(islice(positions, left))
        if first:
            chosen.append(RowsOfFile(file=file, positions=first))
            left -= len(first)
        if not left:
            break
    return tuple(chosen)


def values_of_rows(rows: Sequence[RowsOfFile], describe: DescribeRows | None) -> tuple[RowValues, ...]:
    """The values of the rows; empty where they cannot be read."""
    if not rows or describe is None:
        return ()
    try:
        described = describe(rows)[:EXAMPLES_MAX]
        return tuple(tuple((name, _cut(value)) for name, value in row) for row in described)
    except Exception:
        # The user must get the conflict. An error in reading its rows, since VACUUM deleted their files or the session
        # is closing, must not replace it.
        LOGGER.debug("rows in conflict could not be read", exc_info=True)
        return ()


def row_texts(rows: Sequence[RowsOfFile], values: Sequence[RowValues]) -> tuple[str, ...]:
    """The rows by their values where these are known, else by file and position."""
    return tuple(_cut(text_of_row(row)) for row in values) or _positions_as_text(rows)


def _positions_as_text(rows: Sequence[RowsOfFile]) -> tuple[str, ...]:
    return tuple(f"row {position} of {chosen.file.path}" for chosen in rows for position in chosen.positions or ())


def _cut(text: str) -> str:
    return text if len(text) <= ROW_CHARACTERS_MAX else f"{text[: ROW_CHARACTERS_MAX - 1]}…"
