"""Rebasing a commit that changes no row, such as OPTIMIZE, over winners that changed rows of its files."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import msgspec
from pyroaring import BitMap64

from anabranch.deletion_vectors.bitmap_format import bitmap_of
from anabranch.protocol.actions import AddFile, RemoveFile, row_count, visible_row_count_of
from anabranch.transactions.conflicts.conflict_context import ConflictContext
from anabranch.transactions.conflicts.rebase_report import Reconciliation
from anabranch.transactions.proposed_commit import Bin, ProposedCommit
from anabranch.transactions.read_set import RowsOfFile
from anabranch.transactions.rows.deletion_vector_actions import with_deletion_vectors
from anabranch.transactions.rows.located_rows import checked_positions
from anabranch.transactions.rows.row_map import Moves, checked_moves


def rebase_compaction(context: ConflictContext) -> ProposedCommit:
    """Our commit with the bins that winners have not made impossible, and without the rows that winners hid.

    Rows that winners hid in sources are hidden in the outputs, too. A bin is left out if one of its sources is gone or
    has visible rows that were hidden before, or if the new positions of its rows are not known. The files of such a
    bin stay in the table, and another commit may rewrite them.
    """
    changed = context.latest.removed_from_base
    actions: list[AddFile | RemoveFile] = []
    dropped: list[Bin] = []
    carried_rows = 0
    for proposed in context.ours.bins:
        if proposed.sources.isdisjoint(changed):
            continue
        rebased = _rebased_bin(context, proposed, changed)
        if rebased is None:
            dropped.append(proposed)
        else:
            actions += rebased.actions
            carried_rows += rebased.carried_rows
    left = context.ours.without_bins(tuple(dropped))
    paths = {action.path for action in actions}
    unchanged = left.without(*(file for file in left.files if file.path in paths))
    ours = dataclasses.replace(unchanged, actions=(*unchanged.actions, *actions))
    return ours.with_tags(Reconciliation(carried_rows=carried_rows, left_out_bins=len(dropped)).tags())


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _RebasedBin:
    """The file actions of a bin after all winners."""

    actions: list[AddFile | RemoveFile]
    carried_rows: int
    """Rows that winners hid in sources, and that are hidden in the outputs."""


def _rebased_bin(
    context: ConflictContext, proposed: Bin, changed: frozenset[tuple[str, str | None]]
) -> _RebasedBin | None:
    """The file actions of a bin after all winners; None if it must be left out."""
    before = context.read.base_files.adds(path for path, _ in proposed.sources)
    now = {path: add for (path, _), add in context.latest.added.items() if path in before}
    removes = [remove for remove in context.ours.removes if remove.key in proposed.sources]
    outputs = [add for add in context.ours.adds if add.path in proposed.outputs]
    written = context.vectors.hidden(outputs)
    moves = checked_moves([(remove, _visible_count(before.get(remove.path))) for remove in removes], outputs, written)
    changed_sources = [remove for remove in removes if remove.key in changed]
    if any(remove.path not in now for remove in changed_sources):
        return None
    deleted = [_deleted_rows(context, before[remove.path], now[remove.path]) for remove in changed_sources]
    moved = _positions_in_outputs(context, [rows for rows in deleted if rows is not None], moves, outputs)
    if moved is None or None in deleted:
        return None
    hidden = {add.path: BitMap64(vector) for add, vector in zip(outputs, written, strict=True)}
    for path, positions in moved:
        hidden[path] |= positions
    if any(len(hidden[add.path]) == row_count(add.stats) for add in outputs):
        return None
    carried_rows = sum(len(hidden[add.path]) - len(vector) for add, vector in zip(outputs, written, strict=True))
    actions: list[AddFile | RemoveFile] = [
        *(_latest_tombstone(remove, now) for remove in removes),
        *_with_hidden_rows(context, outputs, written, hidden),
    ]
    return _RebasedBin(actions=actions, carried_rows=carried_rows)


def _deleted_rows(context: ConflictContext, before: AddFile, now: AddFile) -> RowsOfFile | None:
    """The rows of a source that winners hid; None if rows are visible that were hidden before."""
    hidden_before, hidden_now = context.vectors.hidden([before, now])
    if not hidden_before.issubset(hidden_now):
        return None
    return RowsOfFile(file=before, positions=hidden_now - hidden_before)


def _positions_in_outputs(
    context: ConflictContext, deleted: Sequence[RowsOfFile], moves: Moves | None, outputs: Sequence[AddFile]
) -> list[tuple[str, BitMap64]] | None:
    """The positions of these rows in the outputs: by the row map, else by their values; None if both fail."""
    if moves is None:
        return _positions_by_value(context, deleted, outputs)
    moved: list[tuple[str, BitMap64]] = []
    for rows in deleted:
        assert rows.positions is not None, "deleted rows have positions"
        (hidden,) = context.vectors.hidden([rows.file])
        moved += moves.moved(rows.positions, source=rows.file.path, hidden=hidden).items()
    return moved


def _positions_by_value(
    context: ConflictContext, deleted: Sequence[RowsOfFile], outputs: Sequence[AddFile]
) -> list[tuple[str, BitMap64]] | None:
    if context.find_rows is None or context.read.base is None or context.time_is_up():
        return None
    located = checked_positions(context.find_rows(context.read.base, deleted, outputs), deleted, outputs)
    if located is None:
        return None
    return [
        (outputs[number].path, bitmap_of(rows.positions[rows.outputs == number]))
        for rows in located
        for number in range(len(outputs))
    ]


def _with_hidden_rows(
    context: ConflictContext, outputs: Sequence[AddFile], written: Sequence[BitMap64], hidden: dict[str, BitMap64]
) -> list[AddFile]:
    """The outputs, each with a vector for its rows in `hidden`. `written` are the rows that they hide now."""
    same = [add for add, vector in zip(outputs, written, strict=True) if hidden[add.path] == vector]
    grown = [(add, hidden[add.path]) for add in outputs if add not in same]
    return [*same, *with_deletion_vectors(grown, context.vectors, data_change=False)]


def _latest_tombstone(remove: RemoveFile, now: dict[str, AddFile]) -> RemoveFile:
    """The tombstone of the file as it is live now. The row map stays right, since it counts visible rows."""
    live = now.get(remove.path)
    if live is None:
        return remove
    return msgspec.structs.replace(
        remove,
        deletion_vector=live.deletion_vector,
        stats=live.stats,
        base_row_id=live.base_row_id,
        default_row_commit_version=live.default_row_commit_version,
    )


def _visible_count(add: AddFile | None) -> int | None:
    return None if add is None else visible_row_count_of(add)
