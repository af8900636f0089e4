"""Where rows went when a commit wrote them to other files and changed none, as OPTIMIZE does.

Such a commit records on each tombstone, in a tag of ours, the *runs* of the source. A run is a stretch of
consecutive rows of one output. The rows that the source showed, under the vector of its tombstone and in
ascending order, are the rows that its runs show, in order, under the vector that the output has in that same
commit. So a source of which a rival hid rows meanwhile needs no other runs: the rows are hidden in the output too.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated

import msgspec
import numpy as np
import numpy.typing as npt
from pyroaring import BitMap64

from anabranch.protocol.actions import AddFile, RemoveFile
from anabranch.transaction.rows.row_ids import row_count

MOVED_TO_TAG = "anabranch.movedTo"
RUNS_MAX = 10_000
"""Of one source; a tombstone that names more is not believed."""

Positions = npt.NDArray[np.uint64]
_RowCount = Annotated[int, msgspec.Meta(ge=0, le=2**48)]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Rows `start` to `start + count` of an output."""

    path: str
    """As in the log."""
    start: int
    count: int


_RUNS = msgspec.json.Decoder(list[tuple[str, _RowCount, _RowCount]])


def moved_to_tags(runs: Sequence[Run]) -> dict[str, str | None]:
    """The tags for the tombstone of a source."""
    return {MOVED_TO_TAG: msgspec.json.encode([(run.path, run.start, run.count) for run in runs]).decode()}


def runs_of(sources: Sequence[int], outputs: Sequence[tuple[str, int]]) -> list[list[Run]]:
    """The runs of each source, when the shown rows of all sources were written one source after the other.

    `sources` holds how many rows each showed, `outputs` the files in the order they were written, each with its rows.
    """
    assert sum(sources) == sum(rows for _, rows in outputs), "as many rows are written as were read"
    remaining = [(path, 0, rows) for path, rows in reversed(outputs) if rows]
    found: list[list[Run]] = []
    for shown in sources:
        runs: list[Run] = []
        wanted = shown
        while wanted:
            path, start, left = remaining.pop()
            taken = min(wanted, left)
            runs.append(Run(path=path, start=start, count=taken))
            if taken < left:
                remaining.append((path, start + taken, left - taken))
            wanted -= taken
        found.append(runs)
    return found


def has_row_map(remove: RemoveFile) -> bool:
    """Whether the tombstone says where its rows went, be it true or not."""
    return remove.tags is not None and MOVED_TO_TAG in remove.tags


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Moves:
    """Where the rows of all sources of one commit went; every claim has been checked against the counts of rows."""

    runs: Mapping[str, Sequence[Run]]
    """By the path of the source."""
    hidden: Mapping[str, Positions]
    """By the path of the output: what its vector hides in that commit, ascending."""

    def moved(self, positions: BitMap64, *, source: str, hidden: BitMap64) -> dict[str, BitMap64]:
        """Rows that the source showed, by the outputs in which they stand now. `hidden` is what its vector hid."""
        shown = sorted_positions(positions)
        ranks = shown - np.searchsorted(sorted_positions(hidden), shown).astype(np.uint64)
        targets: dict[str, BitMap64] = {}
        first = 0
        for run in self.runs[source]:
            hidden_in_run = _within(self.hidden[run.path], run)
            last = first + run.count - len(hidden_in_run)
            here = ranks[np.searchsorted(ranks, first) : np.searchsorted(ranks, last)] - np.uint64(first)
            if len(here):
                # Before the hidden row number n of the run stand that many shown ones.
                shown_before = hidden_in_run - np.arange(len(hidden_in_run), dtype=np.uint64) - np.uint64(run.start)
                places = here + np.searchsorted(shown_before, here, side="right").astype(np.uint64)
                targets.setdefault(run.path, BitMap64()).update(BitMap64(places + np.uint64(run.start)))
            first = last
        return targets


def checked_moves(
    sources: Iterable[tuple[RemoveFile, int | None]], outputs: Sequence[AddFile], hidden: Sequence[BitMap64]
) -> Moves | None:
    """What the tombstones of one commit say, or None where they are silent, incomplete or not to be believed.

    `sources` holds with each tombstone how many rows its file showed; None for not known, which is not enough.
    """
    hidden_by_path = {add.path: sorted_positions(vector) for add, vector in zip(outputs, hidden, strict=True)}
    rows_by_path = {add.path: row_count(add.stats) for add in outputs}
    runs_by_source: dict[str, list[Run]] = {}
    for remove, shown in sources:
        runs = _parsed(remove)
        if runs is None or shown is None or any(rows_by_path.get(run.path) is None for run in runs):
            return None
        if sum(run.count - len(_within(hidden_by_path[run.path], run)) for run in runs) != shown:
            return None
        runs_by_source[remove.path] = runs
    if not _cover([run for runs in runs_by_source.values() for run in runs], rows_by_path):
        return None
    return Moves(runs=runs_by_source, hidden=hidden_by_path)


def _parsed(remove: RemoveFile) -> list[Run] | None:
    text = (remove.tags or {}).get(MOVED_TO_TAG)
    if text is None:
        return None
    try:
        found = _RUNS.decode(text)
    except msgspec.MsgspecError:
        return None
    if len(found) > RUNS_MAX:
        return None
    return [Run(path=path, start=start, count=count) for path, start, count in found]


def _cover(runs: Sequence[Run], rows_by_path: Mapping[str, int | None]) -> bool:
    """Whether each row of each output is in one run, and no run reaches beyond."""
    ends = dict.fromkeys(rows_by_path, 0)
    for run in sorted(runs, key=lambda run: (run.path, run.start)):
        if run.start != ends[run.path]:
            return False
        ends[run.path] += run.count
    return ends == rows_by_path


def sorted_positions(positions: BitMap64) -> Positions:
    """As numbers, ascending."""
    return np.asarray(positions.to_array(), dtype=np.uint64)


def _within(hidden: Positions, run: Run) -> Positions:
    """Those of the positions that are in the run."""
    first, last = np.searchsorted(hidden, np.array([run.start, run.start + run.count], dtype=np.uint64))
    return hidden[first:last]
