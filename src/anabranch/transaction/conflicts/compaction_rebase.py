"""A commit that changes no row, behind commits that did: what is left of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import msgspec
from pyroaring import BitMap64

from anabranch.protocol.actions import AddFile, RemoveFile
from anabranch.transaction.conflicts.conflict_context import ConflictContext
from anabranch.transaction.conflicts.rebase_report import Reconciliation
from anabranch.transaction.proposed_commit import Bin, ProposedCommit
from anabranch.transaction.read_set import RowsOfFile
from anabranch.transaction.rows.deletion_vector_actions import with_deletion_vectors
from anabranch.transaction.rows.row_access import checked_positions
from anabranch.transaction.rows.row_ids import row_count, visible_row_count_of
from anabranch.transaction.rows.row_map import Moves, checked_moves


def rebase_compaction(context: ConflictContext) -> ProposedCommit:
    """The bins whose sources still hold what was written, less the rows that winners hid meanwhile.

    Those rows are hidden in the outputs too. A bin is left out if a source of it is gone, or shows rows that it
    did not, or if nobody knows where its rows went: what it leaves is as it was, to be done again.
    """
    touched = context.latest.removed_from_base
    replaced: list[AddFile | RemoveFile] = []
    dropped: list[Bin] = []
    carried_rows = 0
    for each in context.ours.bins:
        if each.sources.isdisjoint(touched):
            continue
        carried = _carried(context, each, touched)
        if carried is None:
            dropped.append(each)
        else:
            replaced += carried.actions
            carried_rows += carried.rows
    left = context.ours.without_bins(tuple(dropped))
    paths = {action.path for action in replaced}
    kept = left.without(*(file for file in left.files if file.path in paths))
    fitting = dataclasses.replace(kept, actions=(*kept.actions, *replaced))
    return fitting.with_tags(Reconciliation(carried_rows=carried_rows, left_out_bins=len(dropped)).tags())


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Carried:
    """A bin behind the winners."""

    actions: list[AddFile | RemoveFile]
    rows: int
    """Marks of winners in its outputs."""


def _carried(context: ConflictContext, each: Bin, touched: frozenset[tuple[str, str | None]]) -> _Carried | None:
    """The file actions of a bin with the marks of winners in its outputs; None if it cannot be kept."""
    before = context.read.base_files.adds(path for path, _ in each.sources)
    now = {path: add for (path, _), add in context.latest.added.items() if path in before}
    removes = [remove for remove in context.ours.removes if remove.key in each.sources]
    outputs = [add for add in context.ours.adds if add.path in each.outputs]
    written = context.vectors.hidden(outputs)
    moves = checked_moves([(remove, _rows(before.get(remove.path))) for remove in removes], outputs, written)
    changed = [remove for remove in removes if remove.key in touched]
    if any(remove.path not in now for remove in changed):
        return None
    hidden = {add.path: BitMap64(vector) for add, vector in zip(outputs, written, strict=True)}
    gone = [_gone(context, before[remove.path], now[remove.path]) for remove in changed]
    marks = _new_marks(context, [rows for rows in gone if rows is not None], moves, outputs)
    if marks is None or None in gone:
        return None
    for path, positions in marks:
        hidden[path] |= positions
    if any(len(hidden[add.path]) == row_count(add.stats) for add in outputs):
        return None
    rows = sum(len(hidden[add.path]) - len(vector) for add, vector in zip(outputs, written, strict=True))
    actions: list[AddFile | RemoveFile] = [
        *(_at_head(remove, now) for remove in removes),
        *_with_marks(context, outputs, written, hidden),
    ]
    return _Carried(actions=actions, rows=rows)


def _gone(context: ConflictContext, before: AddFile, now: AddFile) -> RowsOfFile | None:
    """The rows of a source that were hidden meanwhile; None if others came to light."""
    hidden_before, hidden_now = context.vectors.hidden([before, now])
    if not hidden_before.issubset(hidden_now):
        return None
    return RowsOfFile(file=before, positions=hidden_now - hidden_before)


def _new_marks(
    context: ConflictContext, gone: Sequence[RowsOfFile], moves: Moves | None, outputs: Sequence[AddFile]
) -> list[tuple[str, BitMap64]] | None:
    """Where in the outputs those rows stand: as the tombstones say, else by their values; None if that fails, too."""
    if moves is None:
        return _found_by_value(context, gone, outputs)
    marks: list[tuple[str, BitMap64]] = []
    for rows in gone:
        assert rows.positions is not None, "rows that went are known one by one"
        (hidden,) = context.vectors.hidden([rows.file])
        marks += moves.moved(rows.positions, source=rows.file.path, hidden=hidden).items()
    return marks


def _found_by_value(
    context: ConflictContext, gone: Sequence[RowsOfFile], outputs: Sequence[AddFile]
) -> list[tuple[str, BitMap64]] | None:
    if context.find_rows is None or context.read.base is None or context.time_is_up():
        return None
    places = checked_positions(context.find_rows(context.read.base, gone, outputs), gone, outputs)
    if places is None:
        return None
    return [
        (outputs[number].path, BitMap64(place.positions[place.outputs == number]))
        for place in places
        for number in range(len(outputs))
    ]


def _with_marks(
    context: ConflictContext, outputs: Sequence[AddFile], written: Sequence[BitMap64], hidden: dict[str, BitMap64]
) -> list[AddFile]:
    same = [add for add, vector in zip(outputs, written, strict=True) if hidden[add.path] == vector]
    grown = [(add, hidden[add.path]) for add in outputs if add not in same]
    return [*same, *with_deletion_vectors(grown, context.vectors, data_change=False)]


def _at_head(remove: RemoveFile, now: dict[str, AddFile]) -> RemoveFile:
    """The tombstone of what is live now. Where its rows went is told by counting those that are left."""
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


def _rows(add: AddFile | None) -> int | None:
    return None if add is None else visible_row_count_of(add)
