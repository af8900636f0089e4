"""The rows that an UPDATE changes: found, computed and written by one read of their files, or found before the write.

To compute the new rows while their positions are looked for reads the files once, and keeps the rows until they are
written. That is best for few rows. Many take longer to keep than the files take to read again. Where rows can be marked
while they are written, none are kept.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from pyspark.sql import DataFrame

from anabranch.commands.dml import file_sample
from anabranch.commands.dml.assignments import Assignments
from anabranch.commands.dml.row_changes import records_changes
from anabranch.commands.dml.statement import uses_vectors
from anabranch.commands.dml.target_table import (
    BegunStatement,
    ReadFiles,
    RowSelection,
    TargetRows,
    read_candidates,
    rows_of_frame,
    satisfying,
    whole_files,
    with_row_counts,
)
from anabranch.log.file_columns import num_bytes
from anabranch.spark.conditions.repeatable_rows import is_deterministic
from anabranch.spark.native.plan_reading import versions_read
from anabranch.spark.rows.cached_rows import (
    CACHED_ROWS_MAX,
    CachedRows,
    cache_or_checkpoint,
    cache_rows,
    is_small,
    kept_if_small,
)
from anabranch.spark.rows.row_marks import RowMarks
from anabranch.transactions.read_set import RowsOfFile


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BegunUpdate(BegunStatement):
    """An UPDATE on one version of the table, begun and not yet run."""

    assignments: Assignments
    read: ReadFiles
    """The files that may have rows to update."""
    with_new_values: Callable[[DataFrame], DataFrame]
    """Gives rows of the table their new values, beside what else is needed of them."""
    changed: DataFrame
    """The rows to update with their new values."""
    has_subquery: bool
    """Whether there is a subquery in the condition or in the new values."""

    def versions_read(self) -> frozenset[int]:
        return versions_read(self.changed, self.target.table.path) if self.has_subquery else frozenset()


def may_write_at_once(begun: BegunUpdate) -> bool:
    """Whether the read that finds the rows also writes them, and none are kept.

    Small reads need no job to find the rows. Without vectors, rows that stay are written with the others.
    """
    snapshot, selection = begun.target.snapshot, begun.selection
    return (
        selection.condition is not None
        and selection.condition.repeatable
        and bool(selection.partly_matching.any())
        and num_bytes(snapshot.files.table, selection.candidates) >= file_sample.SAMPLED_BYTES_MIN
        and uses_vectors(snapshot)
        and not records_changes(snapshot)
        and RowMarks.can_mark(begun.changed)
    )


def find_rows(begun: BegunUpdate, cached: list[CachedRows]) -> tuple[Sequence[RowsOfFile], DataFrame]:
    """The rows that the condition selects, and the frame to write them from with their new values.

    What is kept of them is added to `cached`.
    """
    target, selection, changed = begun.target, begun.selection, begun.changed
    has_feed = records_changes(target.snapshot)
    if not selection.partly_matching.any():
        rows = whole_files(target, selection.fully_matching)
        if not has_feed:
            # No job but the write needs them.
            return rows, _kept_if_small(changed)
        cached.append(cache_or_checkpoint(changed))
        return rows, cached[-1].frame
    num_rows = _estimate(target, selection)
    if num_rows is not None and num_rows > CACHED_ROWS_MAX and not has_feed:
        rows = rows_of_frame(begun.read, satisfying(begun.read, selection.condition))
        rows = with_row_counts(rows, target.table)
        # By their positions: the condition is not evaluated again, which for a function of Python may not be the same.
        return rows, begun.with_new_values(target.read_rows(rows).frame)
    # Computed once, so that the written rows are the marked ones even where expressions are not deterministic.
    if num_rows is None or not is_deterministic(changed):
        cached.append(cache_or_checkpoint(changed))
    else:
        cached.append(cache_rows(changed, as_rows=is_small(changed.schema.fields, num_rows)))
    return rows_of_frame(begun.read, cached[-1].frame), cached[-1].frame


def _kept_if_small(frame: DataFrame) -> DataFrame:
    kept = kept_if_small(frame)
    return frame if kept is None else kept


def _estimate(target: TargetRows, selection: RowSelection) -> int | None:
    """How many rows are selected, as some of the files say; None where that is not worth a job, or says nothing."""
    condition, files = selection.condition, selection.candidates
    assert condition is not None, "without a condition all rows are selected"
    size = num_bytes(target.snapshot.files.table, files)
    if not condition.repeatable or size < file_sample.SAMPLED_BYTES_MIN or not file_sample.are_enough(files):
        return None
    sample = file_sample.sample_of(files)
    selected = satisfying(read_candidates(target, selection, sample), condition).selectExpr()
    # Counted as an RDD, since an aggregate is a shuffle and a second job.
    num_rows: int = selected._jdf.queryExecution().toRdd().count()
    return num_rows * size // max(1, num_bytes(target.snapshot.files.table, sample))
