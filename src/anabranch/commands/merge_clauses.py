"""MERGE as its user wrote it: a source, a condition, and clauses."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame

from anabranch.commands.assignments import Value
from anabranch.errors.merge import (
    MergeWithoutClauseError,
    UnreachableMatchedClauseError,
    UnreachableMergeClauseError,
    UnreachableNotMatchedBySourceClauseError,
    UnreachableNotMatchedClauseError,
)
from anabranch.spark.row_names import RowNames


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class UpdateClause:
    """`THEN UPDATE SET`, of WHEN MATCHED and of WHEN NOT MATCHED BY SOURCE."""

    condition: Value | None = None
    values: Mapping[str, Value] | None
    """By column, as `a`, `s.x` or `t.a`; the value `DEFAULT` stands for the column's default. None is `*`: each
    column takes the value of the source's column of that name."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class DeleteClause:
    """`THEN DELETE`, of WHEN MATCHED and of WHEN NOT MATCHED BY SOURCE."""

    condition: Value | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class InsertClause:
    """`THEN INSERT`, of WHEN NOT MATCHED."""

    condition: Value | None = None
    values: Mapping[str, Value] | None
    """As in `UpdateClause`. Columns that are left out get their default, or NULL."""


ChangeClause = UpdateClause | DeleteClause
MergeClause = ChangeClause | InsertClause


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MergeStatement:
    """`MERGE INTO … USING source ON condition`, and what to do with which rows.

    Of the clauses of one kind, the first whose condition is true for a row is the one that counts.
    """

    source: DataFrame
    """What its columns are called in conditions and values is up to the frame, with its alias if it has one."""
    condition: Value
    matched: Sequence[ChangeClause] = ()
    not_matched: Sequence[InsertClause] = ()
    """They see the columns of the source alone."""
    not_matched_by_source: Sequence[ChangeClause] = ()
    """They see the columns of the table alone. Their values are given by column."""
    alias: RowNames = None
    """What conditions and values call the table."""
    evolves: bool = False
    """Columns of the source that the table lacks are added to it, as far as a clause sets them."""

    @property
    def changing(self) -> tuple[ChangeClause, ...]:
        """The clauses that change rows of the table; their places are their numbers in the statement."""
        return (*self.matched, *self.not_matched_by_source)

    @property
    def only_inserts(self) -> bool:
        return not self.changing

    @property
    def only_matched(self) -> bool:
        return not self.not_matched and not self.not_matched_by_source

    @property
    def deletes_all_matched(self) -> bool:
        """Whether whatever is matched is deleted, so that it does not matter how often it is."""
        return len(self.matched) == 1 and self.changes_all_matched and isinstance(self.matched[0], DeleteClause)

    @property
    def changes_all_matched(self) -> bool:
        """Whether a clause applies to every row that is matched."""
        return bool(self.matched) and self.matched[-1].condition is None

    def check(self, *, table: str) -> None:
        """Raises `MergeWithoutClauseError`, and `UnreachableMergeClauseError` for a clause that none can reach."""
        if not self.changing and not self.not_matched:
            raise MergeWithoutClauseError(table=table)
        kinds: tuple[tuple[Sequence[MergeClause], type[UnreachableMergeClauseError]], ...] = (
            (self.matched, UnreachableMatchedClauseError),
            (self.not_matched, UnreachableNotMatchedClauseError),
            (self.not_matched_by_source, UnreachableNotMatchedBySourceClauseError),
        )
        for clauses, error in kinds:
            if any(clause.condition is None for clause in clauses[:-1]):
                raise error(table=table)
