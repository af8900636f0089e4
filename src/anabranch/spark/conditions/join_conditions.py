"""What the conditions of a MERGE ask of the table and of the source, before either is read.

Decides which files of the table can hold a row that matters: by what the conditions say of the table alone, and by
values of the source that rows of the table must equal.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterator, Sequence
from typing import Any, cast

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.classic.column import Column as ClassicColumn
from pyspark.sql.types import StructType

from anabranch.errors.dml import NonDeterministicConditionError, SubqueryInConditionError
from anabranch.predicates.expressions import TRUE, Predicate, conjunction
from anabranch.schema.column_mapping import ColumnMappingMode
from anabranch.schema.paths import fold
from anabranch.spark.conditions.column_names import RowNames, metadata_named
from anabranch.spark.conditions.physical_predicates import PhysicalNames
from anabranch.spark.conditions.repeatable_rows import stop_clock
from anabranch.spark.conditions.user_condition import passed_filters, stand_in, tells_the_time, text_of
from anabranch.spark.gateway.jvm_classes import JvmClasses
from anabranch.spark.gateway.jvm_time_zones import session_zone


class Scope(enum.Enum):
    """Whose columns a condition may name."""

    BOTH = "both"
    SOURCE = "source"
    TARGET = "target"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class JoinKey:
    """Two values, of which the condition says that they are equal."""

    target: Column
    """Of the stand-in for the table."""
    source: Column
    data_type: str
    """Of both, as Spark calls it; empty where it is not known."""
    null_safe: bool
    column: str | None
    """The table's column, where the value is one as it is."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class JoinCondition:
    """A condition of a MERGE, as far as it is understood."""

    condition: Column | str
    """To hand to Spark; the clock in it stands still where it is text."""
    text: str
    """For people and the log: as it was written, where it was text."""
    repeatable: bool
    """Whether it tells the same of the same rows, asked again later."""
    of_target: tuple[Column, ...] = ()
    """Conditions on the stand-in for the table that are true wherever this one is."""
    keys: tuple[JoinKey, ...] = ()
    target_columns: tuple[str, ...] | None = None
    """The table's columns that it names, maybe more; None where that is not known."""


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
        self.target = stand_in(spark, schema, alias)
        """Stands for the table: its columns and no rows."""
        self.source = source
        self._spark = spark
        self._repeatable = not metadata_named(alias)
        self._table = table
        self._schema = schema
        self._names = PhysicalNames(schema, column_mapping)
        self._now_ms = now_ms

    def frame(self, scope: Scope) -> DataFrame:
        """A frame that shows what a scope shows."""
        if scope is Scope.BOTH:
            return self.target.join(self.source)
        return self.source if scope is Scope.SOURCE else self.target

    def at_one_time(self, value: Column | str) -> Column | str:
        """`value` with the clock in it stopped, where it is text."""
        if not isinstance(value, str):
            return value
        columns = {fold(name) for name in (*self._schema.fieldNames(), *self.source.columns)}
        return stop_clock(value, columns=columns, time_zone=session_zone(self._spark), now_ms=self._now_ms)

    def has_subquery(self, frame: DataFrame, scope: Scope) -> bool:
        """Whether one of the values that `frame` computes in the scope holds a subquery."""
        whole, without = (_subqueries(each) for each in (frame, self.frame(scope)))
        return whole > without

    def understood(self, condition: Column | str, scope: Scope, *, clause: str) -> JoinCondition:
        """What the condition asks. Raises `NonDeterministicConditionError`, `SubqueryInConditionError`, and Spark's
        `AnalysisException` for a condition that makes no sense in its scope.
        """
        asked = self.at_one_time(condition)
        text = text_of(condition)
        facts = {"table": self._table, "clause": clause, "expression": text}
        filtered = self.frame(scope).where(asked)
        resolved = filtered._jdf.queryExecution().analyzed().condition()
        jvm: Any = self._spark.sparkContext._jvm
        if jvm.org.apache.spark.sql.catalyst.expressions.SubqueryExpression.hasSubquery(resolved):
            raise SubqueryInConditionError(**facts)
        if not resolved.deterministic():
            raise NonDeterministicConditionError(**facts)
        told = text if isinstance(condition, str) else str(resolved.sql())
        target = self.target._jdf.queryExecution().analyzed().outputSet()
        columns = tuple(str(each.name()) for each in _elements(resolved.references().toSeq()) if target.contains(each))
        if tells_the_time(resolved):
            # It is the clock of a Column, which goes on.
            return JoinCondition(condition=asked, text=told, repeatable=False, target_columns=columns)
        parts = [_Part.of(each, target) for each in _conjuncts(resolved)]
        to_column = JvmClasses(jvm).ExpressionUtils.column
        return JoinCondition(
            condition=asked,
            text=told,
            repeatable=self._repeatable,
            of_target=tuple(_column(to_column(part.whole)) for part in parts if part.is_of_target),
            keys=tuple(part.key(to_column) for part in parts if part.is_key),
            target_columns=columns,
        )

    def predicate(self, conditions: Sequence[Column]) -> Predicate:
        """What all of these conditions on the stand-in say together, in physical names; maybe less."""
        if not conditions:
            return TRUE
        frame = self.target
        for condition in conditions:
            frame = frame.where(condition)
        return self._names.of(conjunction(passed_filters(self._spark, frame._jdf.queryExecution().optimizedPlan())))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Part:
    """One of the conditions that must all be true, as the JVM has it."""

    whole: Any
    is_of_target: bool
    target: Any = None
    source: Any = None

    @classmethod
    def of(cls, whole: Any, target: Any) -> _Part:
        if whole.references().subsetOf(target):
            return cls(whole=whole, is_of_target=True)
        if str(whole.nodeName()) in ("EqualTo", "EqualNullSafe"):
            for here, there in ((whole.left(), whole.right()), (whole.right(), whole.left())):
                one_side = not here.references().isEmpty() and here.references().subsetOf(target)
                other_side = there.references().intersect(target).isEmpty()
                if one_side and other_side:
                    return cls(whole=whole, is_of_target=False, target=here, source=there)
        return cls(whole=whole, is_of_target=False)

    @property
    def is_key(self) -> bool:
        return self.target is not None

    def key(self, to_column: Any) -> JoinKey:
        is_column = str(self.target.nodeName()) == "AttributeReference"
        types = {str(side.dataType().catalogString()) for side in (self.target, self.source)}
        return JoinKey(
            target=_column(to_column(self.target)),
            source=_column(to_column(self.source)),
            data_type=types.pop() if len(types) == 1 else "",
            null_safe=str(self.whole.nodeName()) == "EqualNullSafe",
            column=str(self.target.name()) if is_column else None,
        )


def _subqueries(frame: DataFrame) -> int:
    return int(frame._jdf.queryExecution().analyzed().subqueriesAll().size())


def _conjuncts(condition: Any) -> Iterator[Any]:
    pending = [condition]
    while pending:
        node = pending.pop()
        if str(node.nodeName()) == "And":
            pending += [node.right(), node.left()]
        else:
            yield node


def _elements(sequence: Any) -> Iterator[Any]:
    return (sequence.apply(place) for place in range(sequence.size()))


def _column(of_jvm: Any) -> Column:
    return cast("Column", ClassicColumn(of_jvm))
