"""DELETE, UPDATE and MERGE of DeltaTable's methods, as plans that Spark resolves and our commands execute."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

Assignments = Iterable[tuple[Column | str, Column | str]]
"""Pairs of a column, as SQL text or as a Column, and its new value."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PlannedClause:
    """A clause of MERGE."""

    action: str
    """`update`, `delete` or `insert`."""
    condition: Column | str | None
    values: Assignments | None = None
    """None for `*` and for `delete`."""


class RowChangePlans:
    """Runs such plans. The table that they change is a frame, whose Columns may be used in conditions and values."""

    def __init__(self, spark: SparkSession, *, conflict_retries: int | str | None) -> None:
        self._spark = spark
        self._session: Any = spark._jsparkSession
        jvm: Any = spark._jvm
        self._plans = jvm.anabranch.RowChangePlans
        self._array_list = jvm.java.util.ArrayList
        self._retries = None if conflict_retries is None else str(conflict_retries)

    def delete(self, rows: DataFrame, condition: Column | str | None) -> DataFrame:
        """Runs a DELETE and returns its result."""
        return self._run(self._plans.delete(_plan(rows), self._expression(condition)))

    def update(self, rows: DataFrame, values: Assignments, condition: Column | str | None) -> DataFrame:
        """Runs an UPDATE and returns its result."""
        names, assigned = self._assigned(values)
        return self._run(self._plans.update(_plan(rows), names, assigned, self._expression(condition)))

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
        """Runs a MERGE and returns its result."""
        clauses = [self._list(map(self._action, group)) for group in (matched, not_matched, not_matched_by_source)]
        on = self._expression(condition)
        return self._run(self._plans.merge(_plan(rows), _plan(source), on, *clauses, evolves))

    def _action(self, clause: PlannedClause) -> Any:
        names, assigned = (None, None) if clause.values is None else self._assigned(clause.values)
        return self._plans.action(clause.action, self._expression(clause.condition), names, assigned)

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
        array_list = self._array_list()
        for value in values:
            array_list.add(value)
        return array_list

    def _run(self, statement: Any) -> DataFrame:
        return DataFrame(self._plans.run(self._session, statement, self._retries), self._spark)


def _plan(frame: DataFrame) -> Any:
    return frame._jdf.logicalPlan()


def copy_of_frame(frame: DataFrame) -> DataFrame:
    """Another frame with the same attributes, so that Columns of either frame name columns of both."""
    jvm: Any = frame.sparkSession._jvm
    session: Any = frame.sparkSession._jsparkSession
    return DataFrame(jvm.org.apache.spark.sql.classic.Dataset.ofRows(session, _plan(frame)), frame.sparkSession)
