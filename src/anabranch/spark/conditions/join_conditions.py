"""The conditions of a MERGE, resolved before table or source are read.

They decide which files of the table can hold a row that matters: by conditions on the table alone, and by values of the
source that rows of the table must equal.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import json
from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.types import StructType

from anabranch.errors.dml import NonDeterministicConditionError, SubqueryInConditionError
from anabranch.predicates.expressions import TRUE, Predicate, conjunction
from anabranch.schema.column_mapping import ColumnMappingMode
from anabranch.schema.paths import fold
from anabranch.spark.conditions.column_names import PhysicalNames, RowNames, metadata_columns
from anabranch.spark.conditions.repeatable_rows import fix_clock
from anabranch.spark.conditions.user_condition import empty_frame, passed_filters, text_of
from anabranch.spark.gateway.jvm_classes import column_of
from anabranch.spark.gateway.jvm_sessions import session_zone


class Scope(enum.Enum):
    """Whose columns a condition may name."""

    BOTH = "both"
    SOURCE = "source"
    TARGET = "target"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class JoinKey:
    """Two values that are equal in all rows for which the condition is true."""

    target: Column
    """A value of `JoinScope.target`."""
    source: Column
    data_type: str
    """Spark's name for the type of both; empty where the types differ."""
    null_safe: bool
    column: str | None
    """The table's column, where the target value is a column and no other expression."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class JoinCondition:
    """A condition of a MERGE, resolved by Spark's analyzer."""

    condition: Column | str
    """The condition for Spark; clock functions in a text are replaced by literals."""
    text: str
    """The condition for people and the log: as the user wrote it, where it was text."""
    repeatable: bool
    """Whether it has the same value for the same rows when it is evaluated again later."""
    of_target: tuple[Column, ...] = ()
    """Conditions on `JoinScope.target` that are true whenever this one is."""
    keys: tuple[JoinKey, ...] = ()
    target_columns: tuple[str, ...] | None = None
    """The table's columns that it reads, maybe more; None where that is not known."""


class JoinScope:
    """The columns of a table and of a source, as conditions see them."""

    def __init__(
        self,
        spark: SparkSession,
        source: DataFrame,
        *,
        table: str,
        schema: StructType,
        column_mapping: ColumnMappingMode,
        alias: RowNames,
        now_ms: int,
    ) -> None:
        self.target = empty_frame(spark, schema, alias)
        """An empty frame with the table's columns."""
        self.source = source
        self._spark = spark
        self._repeatable = not metadata_columns(alias)
        self._table = table
        self._schema = schema
        self._names = PhysicalNames(schema, column_mapping)
        self._now_ms = now_ms

    def frame(self, scope: Scope) -> DataFrame:
        """A frame with the columns that a condition of the scope may name."""
        if scope is Scope.BOTH:
            return self._pairs
        return self.source if scope is Scope.SOURCE else self.target

    @functools.cached_property
    def _pairs(self) -> DataFrame:
        return self.target.join(self.source)

    def with_fixed_clock(self, value: Column | str) -> Column | str:
        """`value`, with literals for its clock functions where it is text."""
        if not isinstance(value, str):
            return value
        columns = {fold(name) for name in (*self._schema.fieldNames(), *self.source.columns)}
        return fix_clock(value, columns=columns, time_zone=session_zone(self._spark), now_ms=self._now_ms)

    def has_subquery(self, frame: DataFrame, scope: Scope) -> bool:
        """Whether one of the values that `frame` computes in the scope holds a subquery."""
        whole, without = (_subqueries(part) for part in (frame, self.frame(scope)))
        return whole > without

    def resolve_condition(self, condition: Column | str, scope: Scope, *, clause: str) -> JoinCondition:
        """The condition, resolved in its scope.

        Raises `NonDeterministicConditionError`, `SubqueryInConditionError`, and Spark's `AnalysisException` for a
        condition that cannot be resolved in its scope.
        """
        timed = self.with_fixed_clock(condition)
        text = text_of(condition)
        facts = {"table": self._table, "clause": clause, "expression": text}
        filtered = self.frame(scope).where(timed)
        jvm: Any = self._spark._jvm
        resolved = jvm.anabranch.JoinCondition(filtered._jdf, self.target._jdf, not isinstance(condition, str))
        described = json.loads(resolved.facts())
        if described["subquery"]:
            raise SubqueryInConditionError(**facts)
        if not described["deterministic"]:
            raise NonDeterministicConditionError(**facts)
        shown = text if isinstance(condition, str) else described["sql"]
        columns = tuple(described["columns"])
        if described["clock"]:
            # Clock functions of a Column are not replaced: their values change.
            return JoinCondition(condition=timed, text=shown, repeatable=False, target_columns=columns)
        return JoinCondition(
            condition=timed,
            text=shown,
            repeatable=self._repeatable,
            of_target=tuple(
                column_of(resolved.column(part["target"])) for part in described["parts"] if "source" not in part
            ),
            keys=tuple(_key(resolved, part) for part in described["parts"] if "source" in part),
            target_columns=columns,
        )

    def predicate(self, conditions: Sequence[Column]) -> Predicate:
        """A predicate in physical names: true whenever all these conditions on `target` are, maybe for more rows."""
        if not conditions:
            return TRUE
        return self._names.of(conjunction(passed_filters(self._filtered(conditions))))

    def where(self, rows: DataFrame, conditions: Sequence[Column]) -> DataFrame:
        """The rows for which these conditions on `target` are true; `rows` begins with the table's columns."""
        if not conditions:
            return rows
        jvm: Any = self._spark._jvm
        filtered = self._filtered(conditions)
        return DataFrame(
            jvm.anabranch.PlanFunctions.filteredLike(rows._jdf, filtered._jdf, self.target._jdf), self._spark
        )

    def _filtered(self, conditions: Sequence[Column]) -> DataFrame:
        frame = self.target
        for condition in conditions:
            frame = frame.where(condition)
        return frame


def _key(resolved: Any, part: Mapping[str, Any]) -> JoinKey:
    """The key that a part of a `JoinCondition` of ours in the JVM describes."""
    return JoinKey(
        target=column_of(resolved.column(part["target"])),
        source=column_of(resolved.column(part["source"])),
        data_type=part["type"],
        null_safe=part["nullSafe"],
        column=part["column"],
    )


def _subqueries(frame: DataFrame) -> int:
    jvm: Any = frame.sparkSession._jvm
    return int(jvm.anabranch.PlanFunctions.subqueries(frame._jdf))
