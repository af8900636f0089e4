"""DELETE, UPDATE and MERGE of DeltaTable's methods, as plans that Spark resolves and hands to our commands."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

Assignments = Iterable[tuple[Column | str, Column | str]]
"""What is set, as SQL names it or as a column, and to what."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PlannedClause:
    """A clause of MERGE."""

    action: str
    """`update`, `delete` or `insert`."""
    condition: Column | str | None
    values: Assignments | None = None
    """None for `*` and for `delete`."""


class RowChangePlans:
    """Runs such plans. The rows of a table that they change are a frame over it, whose Columns may be used."""

    def __init__(self, spark: SparkSession, *, conflict_retries: int | str | None) -> None:
        self._spark = spark
        self._session: Any = spark._jsparkSession
        jvm: Any = spark._jvm
        self._plans = jvm.delta.RowChangePlans
        self._array_list = jvm.java.util.ArrayList
        self._retries = None if conflict_retries is None else str(conflict_retries)

    def delete(self, rows: DataFrame, condition: Column | str | None) -> DataFrame:
        """The result of a DELETE."""
        return self._run(self._plans.delete(_plan(rows), self._expression(condition)))

    def update(self, rows: DataFrame, values: Assignments, condition: Column | str | None) -> DataFrame:
        """The result of an UPDATE."""
        names, given = self._assigned(values)
        return self._run(self._plans.update(_plan(rows), names, given, self._expression(condition)))

    def merge(
        self,
        rows: DataFrame,
        source: DataFrame,
        condition: Column | str,
        *,
        matched: Sequence[PlannedClause],
        not_matched: Sequence[PlannedClause],
        not_matched_by_source: Sequence[PlannedClause],
        evolves: bool,
    ) -> DataFrame:
        """The result of a MERGE."""
        clauses = [self._list(map(self._action, each)) for each in (matched, not_matched, not_matched_by_source)]
        on = self._expression(condition)
        return self._run(self._plans.merge(_plan(rows), _plan(source), on, *clauses, evolves))

    def _action(self, clause: PlannedClause) -> Any:
        names, given = (None, None) if clause.values is None else self._assigned(clause.values)
        return self._plans.action(clause.action, self._expression(clause.condition), names, given)

    def _assigned(self, values: Assignments) -> tuple[Any, Any]:
        pairs = list(values)
        names = (name if isinstance(name, str) else self._expression(name) for name, _ in pairs)
        return self._list(names), self._list(self._expression(value) for _, value in pairs)

    def _expression(self, value: Column | str | None) -> Any:
        if value is None:
            return None
        column: Any = F.expr(value) if isinstance(value, str) else value
        return self._session.expression(column._jc)

    def _list(self, values: Iterable[Any]) -> Any:
        found = self._array_list()
        for value in values:
            found.add(value)
        return found

    def _run(self, statement: Any) -> DataFrame:
        return DataFrame(self._plans.run(self._session, statement, self._retries), self._spark)


def _plan(frame: DataFrame) -> Any:
    return frame._jdf.logicalPlan()


def once_more(frame: DataFrame) -> DataFrame:
    """A frame of its own with the very columns of another, so that Columns of either are those of both."""
    jvm: Any = frame.sparkSession._jvm
    session: Any = frame.sparkSession._jsparkSession
    return DataFrame(jvm.org.apache.spark.sql.classic.Dataset.ofRows(session, _plan(frame)), frame.sparkSession)
