"""`DeltaMergeBuilder`, with the names and arguments of Delta's Python API."""

from __future__ import annotations

import dataclasses

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.types import LongType, StructField, StructType

from anabranch.commands.merge.merge_source import (
    ChangeClause,
    DeleteClause,
    InsertClause,
    MergeClause,
    MergeStatement,
    UpdateClause,
)
from anabranch.commands.table_access import TableRef
from anabranch.spark.extension.row_change_plans import PlannedClause
from anabranch.tables.table_rows import TableRows

# The dictionaries of column values that Delta's Python API takes.


ColumnMapping = dict[str, str | Column]


def column_values(given: ColumnMapping | None, *, argument: str) -> ColumnMapping:
    """The dictionary, checked. Raises `TypeError` and `ValueError`, as Delta's API does."""
    if given is None:
        raise ValueError(f"{argument} cannot be None")
    if not isinstance(given, dict):
        raise TypeError(f"{argument} must be a dict of column names and values, got {type(given).__name__}")
    for name, value in given.items():
        if not isinstance(name, str):
            raise TypeError(f"Keys of dict in {argument} must contain only strings, found {name!r}")
        if not isinstance(value, str | Column):
            raise TypeError(
                f"Values of dict in {argument} must contain only Spark SQL Columns or strings with SQL, found {value!r}"
            )
    return given


def condition_or_none(given: str | Column | None, *, argument: str = "condition") -> str | Column | None:
    """The condition, checked. Raises `TypeError`, as Delta's API does."""
    if given is not None and not isinstance(given, str | Column):
        raise TypeError(f"{argument} must be a Spark SQL Column or a string with SQL, got {type(given).__name__}")
    return given


MERGED = StructType(
    [
        StructField(name, LongType(), nullable=False)
        for name in ("num_affected_rows", "num_updated_rows", "num_deleted_rows", "num_inserted_rows")
    ]
)


def merge_statement(source: DataFrame, condition: str | Column, *, alias: str | None) -> MergeStatement:
    """What a MERGE begins with, checked. Raises `TypeError` and `ValueError`, as Delta's API does."""
    if source is None:
        raise ValueError("'source' in merge cannot be None")
    if not isinstance(source, DataFrame):
        raise TypeError(f"Type of 'source' in merge must be DataFrame, got {type(source).__name__}")
    if condition is None:
        raise ValueError("'condition' in merge cannot be None")
    checked = condition_or_none(condition, argument="'condition' in merge")
    assert checked is not None
    return MergeStatement(source=source, condition=checked, alias=alias)


class DeltaMergeBuilder:
    """Says clause by clause what a MERGE does; `execute` does it. `DeltaTable.merge` gives one.

    A row of the table is *matched* where the condition of the merge is true for it and a row of the source. Of the
    clauses of one kind, the first whose condition is true for a row applies to it, so that their order matters and
    only the last may leave its condition out. A row to which no clause applies stays as it is. No row may be changed
    by two rows of the source.
    """

    def __init__(self, spark: SparkSession, handle: TableRef, rows: TableRows, statement: MergeStatement) -> None:
        self._spark = spark
        self._handle = handle
        self._rows = rows
        self._statement = statement

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

        `values` maps columns to a Column or to SQL, of the source's columns alone. Columns that are left out get
        their default, or NULL.
        """
        given = column_values(values, argument="'values' in whenNotMatchedInsert")
        return self._not_matched(InsertClause(condition=condition_or_none(condition), values=given))

    def whenNotMatchedInsertAll(self, condition: str | Column | None = None) -> DeltaMergeBuilder:
        """Insert each row of the source that matches none, column by column of the same name."""
        return self._not_matched(InsertClause(condition=condition_or_none(condition), values=None))

    def whenNotMatchedBySourceUpdate(
        self, condition: str | Column | None = None, set: ColumnMapping | None = None
    ) -> DeltaMergeBuilder:
        """Set columns of rows that no row of the source matches; of the table's columns alone."""
        values = column_values(set, argument="'set' in whenNotMatchedBySourceUpdate")
        return self._by_source(UpdateClause(condition=condition_or_none(condition), values=values))

    def whenNotMatchedBySourceDelete(self, condition: str | Column | None = None) -> DeltaMergeBuilder:
        """Delete rows that no row of the source matches."""
        return self._by_source(DeleteClause(condition=condition_or_none(condition)))

    def withSchemaEvolution(self) -> DeltaMergeBuilder:
        """Let the table gain columns and fields of the source that a clause sets."""
        return self._with(dataclasses.replace(self._statement, evolves=True))

    def execute(self, *, conflictRetries: int | None = None) -> DataFrame:
        """Merge, and say in one row how many rows were affected: updated, deleted and inserted.

        `conflictRetries` says how often the statement may be executed again after a conflict; by default
        `spark.anabranch.conflictRetries` does. Raises the errors of `anabranch.errors.dml` and the exceptions of
        `anabranch.exceptions`.
        """
        statement, alias = self._statement, self._statement.alias
        assert alias is None or isinstance(alias, str)
        return self._rows.plans(conflictRetries).merge(
            self._rows.frame(alias),
            statement.source,
            statement.condition,
            matched=[_planned(each) for each in statement.matched],
            not_matched=[_planned(each) for each in statement.not_matched],
            not_matched_by_source=[_planned(each) for each in statement.not_matched_by_source],
            evolves=statement.evolves,
        )

    def _matched(self, clause: ChangeClause) -> DeltaMergeBuilder:
        return self._with(dataclasses.replace(self._statement, matched=(*self._statement.matched, clause)))

    def _not_matched(self, clause: InsertClause) -> DeltaMergeBuilder:
        return self._with(dataclasses.replace(self._statement, not_matched=(*self._statement.not_matched, clause)))

    def _by_source(self, clause: ChangeClause) -> DeltaMergeBuilder:
        clauses = (*self._statement.not_matched_by_source, clause)
        return self._with(dataclasses.replace(self._statement, not_matched_by_source=clauses))

    def _with(self, statement: MergeStatement) -> DeltaMergeBuilder:
        return DeltaMergeBuilder(self._spark, self._handle, self._rows, statement)


def _planned(clause: MergeClause) -> PlannedClause:
    if isinstance(clause, DeleteClause):
        return PlannedClause(action="delete", condition=clause.condition)
    action = "update" if isinstance(clause, UpdateClause) else "insert"
    values = None if clause.values is None else clause.values.items()
    return PlannedClause(action=action, condition=clause.condition, values=values)
