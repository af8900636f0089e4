"""A few of the rows in conflict, for the one who reads the message."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from itertools import islice

from pyroaring import BitMap64

from anabranch.protocol.actions import AddFile
from anabranch.transaction.read_set import DescribeRows, RowsOfFile

LOGGER = logging.getLogger("anabranch.commit")

EXAMPLES_MAX = 3
ROW_CHARACTERS_MAX = 300
"""Of one row; a message is to be read."""


def few_rows(found: Iterable[tuple[AddFile, BitMap64]]) -> tuple[RowsOfFile, ...]:
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


def rows_in_words(rows: Sequence[RowsOfFile], describe: DescribeRows | None) -> tuple[str, ...]:
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
