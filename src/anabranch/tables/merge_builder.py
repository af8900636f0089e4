"""`DeltaMergeBuilder`, with the names and arguments of Delta's Python API."""

from __future__ import annotations

import dataclasses

from pyspark.sql import Column, DataFrame
from pyspark.sql.types import LongType, StructField, StructType

from anabranch.commands.merge.merge_statement import (
    ChangeClause,
    DeleteClause,
    InsertClause,
    MergeStatement,
    UpdateClause,
)
from anabranch.tables.argument_checks import ColumnMapping, column_values, condition_or_none
from anabranch.tables.shown_frames import shown_as_table
from anabranch.tables.table_operations import TableOperations

MERGED = StructType(
    [
        StructField(name, LongType(), nullable=False)
        for name in ("num_affected_rows", "num_updated_rows", "num_deleted_rows", "num_inserted_rows")
    ]
)


class DeltaMergeBuilder:
    """The clauses of a MERGE; `execute` runs it. `DeltaTable.merge` returns one.

    A row of the table is *matched* where the condition of the merge is true for it and a row of the source. Of the
    clauses of one kind, the first whose condition is true for a row applies to it, so that their order matters and
    only the last may leave its condition out. A row to which no clause applies stays as it is. No row may be changed
    by two rows of the source.
    """

    def __init__(self, table: TableOperations, statement: MergeStatement, *, alias: str | None) -> None:
        self._table = table
        self._statement = statement
        self._alias = alias

    def __repr__(self) -> str:
        statement = self._statement
        clauses = len(statement.matched) + len(statement.not_matched) + len(statement.not_matched_by_source)
        return f"DeltaMergeBuilder(MERGE INTO {self._table.label}, {clauses} clauses; run by execute())"

    def whenMatchedUpdate(
        self, condition: str | Column | None = None, set: ColumnMapping | None = None
    ) -> DeltaMergeBuilder:
        """Set columns of rows that are matched. `set` maps columns, as `a` or `s.x`, to a Column or to SQL."""
        values = column_values(set, argument="'set' in whenMatchedUpdate")
        return self._matched(UpdateClause(condition=condition_or_none(condition), values=values))

    def whenMatchedUpdateAll(self, condition: str | Column | None = None) -> DeltaMergeBuilder:
        """Set every column of rows that are matched to the value of the source's column of that name."""
        return self._matched(UpdateClause(condition=condition_or_none(condition), values=None))

    def whenMatchedDelete(self, condition: str | Column | None = None) -> DeltaMergeBuilder:
        """Delete rows that are matched."""
        return self._matched(DeleteClause(condition=condition_or_none(condition)))

    def whenNotMatchedInsert(
        self, condition: str | Column | None = None, values: ColumnMapping | None = None
    ) -> DeltaMergeBuilder:
        """Insert a row for each row of the source that matches none.

        `values` maps columns to a Column or to SQL, which can only use columns of the source. Columns that are left out
        get their default, or NULL.
        """
        checked = column_values(values, argument="'values' in whenNotMatchedInsert")
        return self._not_matched(InsertClause(condition=condition_or_none(condition), values=checked))

    def whenNotMatchedInsertAll(self, condition: str | Column | None = None) -> DeltaMergeBuilder:
        """Insert all rows of the source that match none, with the values of the columns of the same names."""
        return self._not_matched(InsertClause(condition=condition_or_none(condition), values=None))

    def whenNotMatchedBySourceUpdate(
        self, condition: str | Column | None = None, set: ColumnMapping | None = None
    ) -> DeltaMergeBuilder:
        """Set columns of rows that no row of the source matches. Values can only use columns of the table."""
        values = column_values(set, argument="'set' in whenNotMatchedBySourceUpdate")
        return self._by_source(UpdateClause(condition=condition_or_none(condition), values=values))

    def whenNotMatchedBySourceDelete(self, condition: str | Column | None = None) -> DeltaMergeBuilder:
        """Delete rows that no row of the source matches."""
        return self._by_source(DeleteClause(condition=condition_or_none(condition)))

    def withSchemaEvolution(self) -> DeltaMergeBuilder:
        """Add columns and fields of the source that a clause sets to the table."""
        return self._with(dataclasses.replace(self._statement, evolves=True))

    def execute(self, *, conflictRetries: int | None = None) -> DataFrame:
        """Merge. Returns one row with the numbers of affected, updated, deleted and inserted rows.

        `conflictRetries` says how often the statement may be executed again after a conflict. The default is
        `spark.anabranch.conflictRetries`. Raises the errors of `anabranch.errors.dml` and the exceptions of
        `anabranch.exceptions`.
        """
        merged = self._table.merge(self._statement, alias=self._alias, conflict_retries=conflictRetries)
        return shown_as_table(merged)

    def _matched(self, clause: ChangeClause) -> DeltaMergeBuilder:
        return self._with(dataclasses.replace(self._statement, matched=(*self._statement.matched, clause)))

    def _not_matched(self, clause: InsertClause) -> DeltaMergeBuilder:
        return self._with(dataclasses.replace(self._statement, not_matched=(*self._statement.not_matched, clause)))

    def _by_source(self, clause: ChangeClause) -> DeltaMergeBuilder:
        clauses = (*self._statement.not_matched_by_source, clause)
        return self._with(dataclasses.replace(self._statement, not_matched_by_source=clauses))

    def _with(self, statement: MergeStatement) -> DeltaMergeBuilder:
        return DeltaMergeBuilder(self._table, statement, alias=self._alias)
