"""The conditions of a MERGE, resolved before table or source are read.

They decide which files of the table can hold a row that matters: by conditions on the table alone, and by values of the
source that rows of the table must equal.
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
from anabranch.spark.conditions.column_names import RowNames, metadata_columns
from anabranch.spark.conditions.physical_predicates import PhysicalNames
from anabranch.spark.conditions.repeatable_rows import fix_clock
from anabranch.spark.conditions.user_condition import empty_frame, passed_filters, reads_clock, text_of
from anabranch.spark.gateway.jvm_classes import JvmClasses
from anabranch.spark.gateway.jvm_time_zones import session_zone


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
            return self.target.join(self.source)
        return self.source if scope is Scope.SOURCE else self.target

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
        resolved = filtered._jdf.queryExecution().analyzed().condition()
        jvm: Any = self._spark.sparkContext._jvm
        if jvm.org.apache.spark.sql.catalyst.expressions.SubqueryExpression.hasSubquery(resolved):
            raise SubqueryInConditionError(**facts)
        if not resolved.deterministic():
            raise NonDeterministicConditionError(**facts)
        shown = text if isinstance(condition, str) else str(resolved.sql())
        target = self.target._jdf.queryExecution().analyzed().outputSet()
        references = _elements(resolved.references().toSeq())
        columns = tuple(str(column.name()) for column in references if target.contains(column))
        if reads_clock(resolved):
            # Clock functions of a Column are not replaced: their values change.
            return JoinCondition(condition=timed, text=shown, repeatable=False, target_columns=columns)
        parts = [_Part.of(conjunct, target) for conjunct in _conjuncts(resolved)]
        to_column = JvmClasses(jvm).ExpressionUtils.column
        return JoinCondition(
            condition=timed,
            text=shown,
            repeatable=self._repeatable,
            of_target=tuple(_column(to_column(part.whole)) for part in parts if part.is_of_target),
            keys=tuple(part.key(to_column) for part in parts if part.is_key),
            target_columns=columns,
        )

    def predicate(self, conditions: Sequence[Column]) -> Predicate:
        """A predicate in physical names: true whenever all these conditions on `target` are, maybe for more rows."""
        if not conditions:
            return TRUE
        frame = self.target
        for condition in conditions:
            frame = frame.where(condition)
        return self._names.of(conjunction(passed_filters(self._spark, frame._jdf.queryExecution().optimizedPlan())))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Part:
    """One conjunct of a condition, as an expression of the JVM's."""

    whole: Any
    is_of_target: bool
    target: Any = None
    source: Any = None

    @classmethod
    def of(cls, whole: Any, target: Any) -> _Part:
        if whole.references().subsetOf(target):
            return cls(whole=whole, is_of_target=True)
        if str(whole.nodeName()) in ("EqualTo", "EqualNullSafe"):
            for ours, theirs in ((whole.left(), whole.right()), (whole.right(), whole.left())):
                one_side = not ours.references().isEmpty() and ours.references().subsetOf(target)
                other_side = theirs.references().intersect(target).isEmpty()
                if one_side and other_side:
                    return cls(whole=whole, is_of_target=False, target=ours, source=theirs)
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
    return (sequence.apply(index) for index in range(sequence.size()))


def _column(jvm_column: Any) -> Column:
    return cast("Column", ClassicColumn(jvm_column))
