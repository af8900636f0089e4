"""A MERGE as its user wrote it: a source, a condition, and clauses."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame

from anabranch.commands.dml.assignments import Value
from anabranch.errors.dml import (
    MergeWithoutClauseError,
    UnreachableMatchedClauseError,
    UnreachableMergeClauseError,
    UnreachableNotMatchedBySourceClauseError,
    UnreachableNotMatchedClauseError,
)
from anabranch.spark.conditions.column_names import RowNames


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class UpdateClause:
    """`THEN UPDATE SET`, after WHEN MATCHED or WHEN NOT MATCHED BY SOURCE."""

    condition: Value | None = None
    values: Mapping[str, Value] | None
    """The new values by column, as `a`, `s.x` or `t.a`; the value `DEFAULT` sets a column to its default. None is `*`:
    each column takes the value of the source's column of that name."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class DeleteClause:
    """`THEN DELETE`, after WHEN MATCHED or WHEN NOT MATCHED BY SOURCE."""

    condition: Value | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class InsertClause:
    """`THEN INSERT`, after WHEN NOT MATCHED."""

    condition: Value | None = None
    values: Mapping[str, Value] | None
    """The values, as in `UpdateClause`. Columns that are left out get their default, or NULL."""


ChangeClause = UpdateClause | DeleteClause
MergeClause = ChangeClause | InsertClause


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MergeStatement:
    """`MERGE INTO … USING source ON condition`, with its clauses.

    Of the clauses of one kind, the first whose condition is true for a row applies to it.
    """

    source: DataFrame
    """Conditions and values name its columns as the frame does, with its alias if it has one."""
    condition: Value
    matched: Sequence[ChangeClause] = ()
    not_matched: Sequence[InsertClause] = ()
    """Their conditions and values may use only columns of the source."""
    not_matched_by_source: Sequence[ChangeClause] = ()
    """Their conditions and values may use only columns of the table. Their values are never `*`."""
    alias: RowNames = None
    """The name of the table in conditions and values."""
    evolves: bool = False
    """Whether columns of the source that the table lacks are added to it, as far as a clause sets them."""

    @property
    def changing(self) -> tuple[ChangeClause, ...]:
        """The clauses that change rows of the table; the number of a clause is its index here."""
        return (*self.matched, *self.not_matched_by_source)

    @property
    def only_inserts(self) -> bool:
        return not self.changing

    @property
    def only_matched(self) -> bool:
        return not self.not_matched and not self.not_matched_by_source

    @property
    def deletes_all_matched(self) -> bool:
        """Whether every matched row is deleted, so that it may match several rows of the source."""
        return len(self.matched) == 1 and self.changes_all_matched and isinstance(self.matched[0], DeleteClause)

    @property
    def changes_all_matched(self) -> bool:
        """Whether a clause applies to every matched row."""
        return bool(self.matched) and self.matched[-1].condition is None

    def check(self, *, table: str) -> None:
        """Raises `MergeWithoutClauseError`, and `UnreachableMergeClauseError` for a clause that can apply to no row."""
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
