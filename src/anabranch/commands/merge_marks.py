"""Which rows of the table a MERGE matches and changes, and what its transaction remembers of that."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

from pyroaring import BitMap64
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from anabranch.commands.merge_clauses import DeleteClause, MergeStatement
from anabranch.commands.merge_join import ACTION_COLUMN, LEFT_ALONE, POSITION, MergeJoin
from anabranch.commands.merge_plan import MergePlan
from anabranch.commands.merge_source import SourceFacts
from anabranch.commands.target_rows import ReadFiles, TargetRows, with_row_counts
from anabranch.errors.merge import AmbiguousMergeError
from anabranch.spark.engine import FileMask
from anabranch.spark.marking_rows import mark_rows
from anabranch.transaction.read_set import FileKey, RowsOfFile
from anabranch.transaction.transaction import Transaction

_Positions = dict[int, BitMap64]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MergeMarks:
    """Rows of the table by what is to become of them."""

    read: ReadFiles | None
    """None where no file can hold a row that matters."""
    changed: _Positions
    """Rows to which a clause applies, by file id."""
    matched: _Positions
    """Rows that are matched, whether a clause applies or not."""
    counts: dict[str, int]
    """Rows by `matched` or `unmatched`, and `updated` or `deleted`."""
    is_ambiguous: bool
    """Whether a row is changed by several rows of the source."""

    @property
    def num_updated(self) -> int:
        return self.counts["matched updated"] + self.counts["unmatched updated"]

    @property
    def num_deleted(self) -> int:
        return self.counts["matched deleted"] + self.counts["unmatched deleted"]

    def changed_rows(self) -> list[RowsOfFile]:
        """Those that leave their files."""
        return self.read.rows(self.changed) if self.read is not None and self.changed else []


def no_marks() -> MergeMarks:
    """Where nothing is matched and no clause applies."""
    return MergeMarks(read=None, changed={}, matched={}, counts=_no_counts(), is_ambiguous=False)


def mark(frame: DataFrame, read: ReadFiles, statement: MergeStatement) -> MergeMarks:
    """Run the frame, which `MergeJoin.decided` gave for the rows of `read`."""
    changed: _Positions = {}
    matched: _Positions = {}
    counts = _no_counts()
    given = 0
    for marks in mark_rows(frame, group_by=(ACTION_COLUMN,)):
        (action,) = marks.group
        assert marks.file_id is not None, "the rows are those of files"
        is_matched = action < len(statement.matched)
        if is_matched:
            matched[marks.file_id] = matched.get(marks.file_id, BitMap64()) | marks.positions
        if action == LEFT_ALONE:
            continue
        changed[marks.file_id] = changed.get(marks.file_id, BitMap64()) | marks.positions
        given += marks.count
        what = "deleted" if isinstance(statement.changing[action], DeleteClause) else "updated"
        counts[f"{'matched' if is_matched else 'unmatched'} {what}"] += len(marks.positions)
    # Each pair of rows was given; a row that a clause changes must be in one of them only.
    twice = given > sum(map(len, changed.values())) and not statement.deletes_all_matched
    return MergeMarks(read=read, changed=changed, matched=matched, counts=counts, is_ambiguous=twice)


def ambiguity(frame: DataFrame, marks: MergeMarks, target: TargetRows, columns: Sequence[str]) -> AmbiguousMergeError:
    """The error that names a row which several rows of the source would change, by these columns of it."""
    applied = frame.where(F.col(ACTION_COLUMN) != LEFT_ALONE)
    twice = applied.groupBy(*POSITION).count().where("`count` > 1").limit(1).collect()
    assert twice, "rows were counted twice"
    assert marks.read is not None
    file_id, position = int(twice[0][0]), int(twice[0][1])
    rows = with_row_counts(marks.read.rows({file_id: BitMap64([position])}), target.handle)
    return AmbiguousMergeError(table=target.handle.label, row=target.described(rows, columns=columns)[0])


def record(
    transaction: Transaction,
    target: TargetRows,
    plan: MergePlan,
    facts: SourceFacts,
    join: MergeJoin,
    marks: MergeMarks,
    candidates: FileMask,
) -> None:
    """Remember what the statement asked of the table, and which rows that gave."""
    statement, predicate = plan.statement, plan.changed_predicate(facts)
    if not plan.repeatable:
        transaction.record_scan(predicate, files=candidates)
        return
    if statement.changing:
        transaction.record_scan(
            predicate,
            files=candidates,
            rows=_by_key(marks, marks.changed),
            again=lambda rows: target.answers(rows, join.changed),
        )
    if statement.not_matched and not statement.changes_all_matched:
        # A row that is matched keeps an insert away, whether a clause changes it or not.
        transaction.record_scan(
            plan.matched_predicate(facts),
            files=candidates,
            rows=_by_key(marks, marks.matched),
            again=lambda rows: target.answers(rows, join.matched),
        )


def _by_key(marks: MergeMarks, positions: _Positions) -> dict[FileKey, BitMap64]:
    if marks.read is None:
        return {}
    found: Iterable[RowsOfFile] = marks.read.rows(positions)
    return {each.file.key: each.positions for each in found if each.positions is not None}


def _no_counts() -> dict[str, int]:
    return dict.fromkeys(("matched updated", "matched deleted", "unmatched updated", "unmatched deleted"), 0)
