"""The rows that satisfy the condition of a DELETE or UPDATE, and what its transaction remembers of having looked."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
from pyroaring import BitMap64
from pyspark.sql import DataFrame

from anabranch.commands.dml.target_table import ReadFiles, TargetRows
from anabranch.log.file_columns import FileMask
from anabranch.predicates.expressions import is_opaque
from anabranch.spark.conditions.user_condition import ReadCondition
from anabranch.spark.native.plan_reading import versions_read
from anabranch.spark.rows.hidden_rows import marked_positions
from anabranch.transaction.read_set import FileKey, RowsOfFile
from anabranch.transaction.transaction import Transaction


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class RowSelection:
    """Which rows a statement is about, before Spark has looked for them."""

    asked: ReadCondition | None
    """None for all rows."""
    candidates: FileMask
    """Every row it is about is in one of these files."""
    fully_matching: FileMask
    """Those of them of which it is about every row, for certain."""

    @property
    def partly_matching(self) -> FileMask:
        """Those that must be read to know."""
        return self.candidates & ~self.fully_matching


def select_rows(target: TargetRows, asked: ReadCondition | None) -> RowSelection:
    """Which files the condition is about."""
    everything = np.ones(target.snapshot.files.count, dtype=bool)
    if asked is None:
        return RowSelection(asked=None, candidates=everything, fully_matching=everything)
    candidates = target.candidates(asked.predicate)
    return RowSelection(
        asked=asked, candidates=candidates, fully_matching=target.fully_matching(asked.predicate) & candidates
    )


def satisfying(read: ReadFiles, asked: ReadCondition | None) -> DataFrame:
    """The rows that the statement is about, positions included."""
    return read.frame if asked is None else read.frame.where(asked.condition)


def found_rows(read: ReadFiles, frame: DataFrame) -> list[RowsOfFile]:
    """Run the frame, made of `read.frame`, and say which rows it gives."""
    return read.rows(marked_positions(frame))


def rows_asked_for(target: TargetRows, select_rows: RowSelection) -> list[RowsOfFile]:
    """The rows that the statement is about; Spark looks where statistics cannot tell."""
    rows = whole_files(target, select_rows.fully_matching)
    if select_rows.partly_matching.any():
        read = target.read(select_rows.partly_matching)
        rows += found_rows(read, satisfying(read, select_rows.asked))
    return rows


def whole_files(target: TargetRows, files: FileMask) -> list[RowsOfFile]:
    """All rows of these files."""
    return [RowsOfFile(file=add, positions=None) for add in target.snapshot.files.to_actions(files)]


def older_version_read(target: TargetRows, frame: DataFrame) -> int | None:
    """The oldest version of the table that the frame reads, if that is older than the one the statement began with.

    A subquery may name a frame of the same table that was made before. What landed since must count as a winner.
    """
    versions = versions_read(frame, target.table.path)
    oldest = min(versions, default=target.snapshot.version)
    return oldest if oldest < target.snapshot.version else None


def record(transaction: Transaction, target: TargetRows, select_rows: RowSelection, rows: Sequence[RowsOfFile]) -> None:
    """Remember what the statement asked and which rows that gave, all of them in `rows`."""
    asked = select_rows.asked
    if asked is None:
        transaction.record_whole_table()
        return
    files = [add.key for add in target.snapshot.files.to_actions(select_rows.candidates)]
    if asked.repeatable:
        again = target.asking(asked.condition)
        transaction.record_scan(asked.predicate, files=files, rows=_positions(target, rows), reevaluate=again)
    elif asked.has_subquery and not is_opaque(asked.predicate):
        # Other tables stand still in it, as they were. Asked of new rows, it would read them as they are.
        transaction.record_scan(asked.predicate, files=files, rows=_positions(target, rows))
    else:
        transaction.record_scan(asked.predicate, files=files)


def _positions(target: TargetRows, rows: Sequence[RowsOfFile]) -> dict[FileKey, BitMap64] | None:
    """Where the rows stand; None where a file taken whole does not say how many rows it has."""
    found = target.all_rows([each.file for each in rows if each.positions is None])
    if found is None:
        return None
    return found | {each.file.key: each.positions for each in rows if each.positions is not None}
