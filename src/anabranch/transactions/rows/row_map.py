"""The row map: where a commit that changes no row, such as OPTIMIZE, has written the rows of each file.

Such a commit records on each tombstone, in a tag of ours, the *runs* of the source. A run is a range of consecutive
rows of one output. The visible rows of the source, under the vector of its tombstone and in ascending order, are the
visible rows of its runs, in order, under the vector that the output has in the same commit. So the runs stay right when
another commit hides rows of the source first: these rows are then hidden in the output too.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated

import msgspec
import numpy as np
from pyroaring import BitMap64

from anabranch.deletion_vectors.bitmap_format import Positions, bitmap_of, sorted_positions
from anabranch.protocol.actions import AddFile, RemoveFile, row_count

MOVED_TO_TAG = "anabranch.movedTo"
RUNS_MAX = 10_000
"""Most runs of one source; a tag with more is ignored."""

_RowCount = Annotated[int, msgspec.Meta(ge=0, le=2**48)]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Rows `start` to `start + count` of an output."""

    path: str
    """The path as in the log."""
    start: int
    count: int


_RUNS = msgspec.json.Decoder(list[tuple[str, _RowCount, _RowCount]])


def moved_to_tags(runs: Sequence[Run]) -> dict[str, str | None]:
    """The tags of the tombstone of a source."""
    return {MOVED_TO_TAG: msgspec.json.encode([(run.path, run.start, run.count) for run in runs]).decode()}


def runs_of(sources: Sequence[int], outputs: Sequence[tuple[str, int]]) -> list[list[Run]]:
    """The runs of each source, if the visible rows of all sources were written one source after the other.

    `sources` has the number of visible rows of each source, `outputs` the files in the order in which they were
    written, with their row counts.
    """
    assert sum(sources) == sum(rows for _, rows in outputs), "as many rows are written as were read"
    remaining = [(path, 0, rows) for path, rows in reversed(outputs) if rows]
    runs_by_source: list[list[Run]] = []
    for row_count_of_source in sources:
        runs: list[Run] = []
        rows_left = row_count_of_source
        while rows_left:
            path, start, output_rows_left = remaining.pop()
            count = min(rows_left, output_rows_left)
            runs.append(Run(path=path, start=start, count=count))
            if count < output_rows_left:
                remaining.append((path, start + count, output_rows_left - count))
            rows_left -= count
        runs_by_source.append(runs)
    return runs_by_source


def has_row_map(remove: RemoveFile) -> bool:
    """Whether the tombstone has the tag of a row map, valid or not."""
    return remove.tags is not None and MOVED_TO_TAG in remove.tags


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Moves:
    """The row map of all sources of one commit. It has been checked against the row counts of the files."""

    runs: Mapping[str, Sequence[Run]]
    """The runs by the path of the source."""
    hidden: Mapping[str, Positions]
    """The rows that each output hides in that commit, ascending, by the path of the output."""

    def moved(self, positions: BitMap64, *, source: str, hidden: BitMap64) -> dict[str, BitMap64]:
        """The new positions of visible rows of the source, by output path. `hidden` are its hidden rows."""
        ranks = sorted_positions(positions)
        if hidden:
            ranks = ranks - sorted_positions(hidden).searchsorted(ranks).astype(np.uint64)
        targets: dict[str, BitMap64] = {}
        runs = self.runs[source]
        first = 0
        for run in runs:
            hidden_in_run = _within(self.hidden[run.path], run)
            last = first + run.count - len(hidden_in_run)
            part = (
                ranks if len(runs) == 1 else ranks[slice(*ranks.searchsorted(np.array([first, last], dtype=np.uint64)))]
            )
            ranks_in_run = part - np.uint64(first)
            new_positions = ranks_in_run + np.uint64(run.start)
            if len(hidden_in_run):
                # For each hidden row of the run, how many visible rows of the run precede it.
                visible_before = hidden_in_run - np.arange(len(hidden_in_run), dtype=np.uint64) - np.uint64(run.start)
                new_positions += visible_before.searchsorted(ranks_in_run, side="right").astype(np.uint64)
            if len(part):
                targets.setdefault(run.path, BitMap64()).update(bitmap_of(new_positions))
            first = last
        return targets


def checked_moves(
    sources: Iterable[tuple[RemoveFile, int | None]], outputs: Sequence[AddFile], hidden: Sequence[BitMap64]
) -> Moves | None:
    """The row map of the tombstones of one commit; None where a tag is missing or the row counts contradict it.

    `sources` has each tombstone with the number of visible rows of its file; if one is None, the result is None.
    """
    hidden_by_path = {add.path: sorted_positions(vector) for add, vector in zip(outputs, hidden, strict=True)}
    rows_by_path = {add.path: row_count(add.stats) for add in outputs}
    runs_by_source: dict[str, list[Run]] = {}
    for remove, visible_count in sources:
        runs = _parsed(remove)
        if runs is None or visible_count is None or any(rows_by_path.get(run.path) is None for run in runs):
            return None
        if sum(run.count - len(_within(hidden_by_path[run.path], run)) for run in runs) != visible_count:
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
        runs = _RUNS.decode(text)
    except msgspec.MsgspecError:
        return None
    if len(runs) > RUNS_MAX:
        return None
    return [Run(path=path, start=start, count=count) for path, start, count in runs]


def _cover(runs: Sequence[Run], rows_by_path: Mapping[str, int | None]) -> bool:
    """Whether each row of each output is in exactly one run, and no run ends after its output."""
    ends = dict.fromkeys(rows_by_path, 0)
    for run in sorted(runs, key=lambda run: (run.path, run.start)):
        if run.start != ends[run.path]:
            return False
        ends[run.path] += run.count
    return ends == rows_by_path


def _within(hidden: Positions, run: Run) -> Positions:
    """The positions that are in the run."""
    if not len(hidden):
        return hidden
    first, last = hidden.searchsorted(np.array([run.start, run.start + run.count], dtype=np.uint64))
    return hidden[first:last]
