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
from anabranch.schema.merging import visible_schema
from anabranch.schema.paths import as_nullable, fold
from anabranch.spark.conditions.column_names import RowNames, alias_of_text, named
from anabranch.spark.conditions.connect_conditions import TextCondition, column_condition, text_condition
from anabranch.spark.conditions.connect_join import changes_by_chance, holds_query, named_columns, written_join
from anabranch.spark.conditions.physical_predicates import PhysicalNames
from anabranch.spark.conditions.repeatable_rows import stop_clock
from anabranch.spark.conditions.user_condition import ask_other_rows, passed_filters, stand_in, tells_the_time, text_of
from anabranch.spark.native.jvm_classes import JvmClasses
from anabranch.spark.session.session_settings import check_sense, is_connect


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
        self.target = _no_rows(spark, schema, alias)
        """Stands for the table: its columns and no rows."""
        self.source = source
        self._spark = spark
        self._table = table
        self._schema = schema
        self._alias = alias
        self._names = PhysicalNames(schema, column_mapping)
        self._now_ms = now_ms
        self._zone = spark.conf.get("spark.sql.session.timeZone") or "UTC"

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
        return stop_clock(value, columns=columns, time_zone=self._zone, now_ms=self._now_ms)

    def has_subquery(self, frame: DataFrame, scope: Scope, values: Sequence[Column]) -> bool:
        """Whether one of the values, which `frame` computes in the scope, holds a subquery. In doubt it does."""
        if is_connect(self._spark):
            return ask_other_rows(frame, values)
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
        if is_connect(self._spark):
            return self._by_its_words(filtered, asked, facts)
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
            repeatable=True,
            of_target=tuple(_column(to_column(part.whole)) for part in parts if part.is_of_target),
            keys=tuple(part.key(to_column) for part in parts if part.is_key),
            target_columns=columns,
        )

    def predicate(self, conditions: Sequence[Column]) -> Predicate:
        """What all of these conditions on the stand-in say together, in physical names; maybe less."""
        if not conditions:
            return TRUE
        if is_connect(self._spark):
            texts = [column_condition(self._spark, each, is_steady_text=self._is_steady).text for each in conditions]
            return self._names.of(conjunction(self._words(text).predicate for text in texts if text is not None))
        frame = self.target
        for condition in conditions:
            frame = frame.where(condition)
        return self._names.of(conjunction(passed_filters(frame._jdf.queryExecution().optimizedPlan(), self._zone)))

    def _by_its_words(self, filtered: DataFrame, asked: Column | str, facts: dict[str, str]) -> JoinCondition:
        """On Spark Connect nothing is resolved where we could see it."""
        # Spark looks at names and types, and nothing runs.
        check_sense(filtered)
        if isinstance(asked, str):
            words: str | None = asked
            steady, has_query = self._is_steady(asked), holds_query(asked)
        else:
            tree = column_condition(self._spark, asked, is_steady_text=self._is_steady)
            words, steady, has_query = tree.text, tree.repeatable, tree.has_subquery
        if has_query:
            raise SubqueryInConditionError(**facts)
        if changes_by_chance(words or facts["expression"]):
            raise NonDeterministicConditionError(**facts)
        columns = None if words is None else named_columns(words, self.target.columns)
        if words is None or not steady:
            return JoinCondition(
                condition=asked, text=words or facts["expression"], repeatable=steady, target_columns=columns
            )
        found = written_join(words, self.target, self.source, alias=alias_of_text(self._alias))
        keys = (
            JoinKey(target=key.target, source=key.source, data_type=key.data_type, null_safe=False, column=key.column)
            for key in found.keys
        )
        return JoinCondition(
            condition=asked,
            text=facts["expression"] if isinstance(asked, str) else words,
            repeatable=True,
            of_target=found.of_target,
            keys=tuple(keys),
            target_columns=columns,
        )

    def _is_steady(self, text: str) -> bool:
        return self._words(text).repeatable

    def _words(self, text: str) -> TextCondition:
        return text_condition(
            self._spark, text, schema=self._schema, alias=alias_of_text(self._alias), time_zone=self._zone, now_ms=None
        )


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


def _no_rows(spark: SparkSession, schema: StructType, alias: RowNames) -> DataFrame:
    if not is_connect(spark):
        return stand_in(spark, schema, alias)
    frame = spark.createDataFrame([], as_nullable(visible_schema(schema)))
    return named(frame, alias)


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
