"""What a join condition says, by its words: all that a client of Spark Connect knows of it."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention
from pyspark.sql.types import DataType, IntegralType

from anabranch.predicates.sql_lexer import tokenize
from anabranch.predicates.sql_nodes import ConditionSyntaxError, Name, Node, Operation, names_in, parts_of
from anabranch.predicates.sql_tree import parse_condition
from anabranch.schema.paths import child, fold
from anabranch.spark.session.table_identifiers import quote

CHANCE_FUNCTIONS = frozenset(
    {
        *("rand", "random", "randn", "randstr", "uniform", "uuid", "shuffle"),
        *("monotonically_increasing_id", "spark_partition_id"),
        *("input_file_name", "input_file_block_start", "input_file_block_length"),
    }
)
"""Spark's functions that are not deterministic."""
_PLAIN = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_QUERIES = frozenset({"select", "exists"})


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TextJoinKey:
    """`t.a = s.b`, both of them plain columns."""

    target: Column
    source: Column
    data_type: str
    """The source's, in which both compare exactly."""
    column: str
    """The table's column."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WrittenJoin:
    """Parts of a condition, all of which must be true."""

    of_target: tuple[Column, ...] = ()
    keys: tuple[TextJoinKey, ...] = ()


def changes_by_chance(text: str) -> bool:
    """Whether it calls a built-in function that is not deterministic."""
    return bool(_words(text) & CHANCE_FUNCTIONS)


def holds_query(text: str) -> bool:
    """Whether it holds a subquery."""
    return bool(_words(text) & _QUERIES)


def named_columns(text: str, columns: Iterable[str]) -> tuple[str, ...]:
    """Those of the columns that it names, maybe more."""
    named = {fold(token.name) for token in tokenize(text) if token.is_name}
    return tuple(name for name in columns if fold(name) in named or not _PLAIN.fullmatch(name))


def written_join(text: str, target: DataFrame, source: DataFrame, *, alias: str | None) -> WrittenJoin:
    """What `text` says for certain: nothing of names that could mean something else."""
    try:
        tree = parse_condition(text)
    except (ConditionSyntaxError, RecursionError):
        return WrittenJoin()
    if holds_query(text):
        # Whose columns a subquery names does not show.
        return WrittenJoin()
    names = _Names(target, source, alias)
    of_target: list[Column] = []
    keys: list[TextJoinKey] = []
    for part in parts_of(tree):
        columns = list(names_in(part))
        if columns and all(names.of_target(column) for column in columns):
            of_target.append(F.expr(text[part.start : part.end]))
        elif isinstance(part, Operation) and part.operator == "=":
            keys += names.keys(*part.operands)
    return WrittenJoin(of_target=tuple(of_target), keys=tuple(keys))


class _Names:
    """Whose column a name is, where it can only be one."""

    def __init__(self, target: DataFrame, source: DataFrame, alias: str | None) -> None:
        self._target, self._source = target.schema, source.schema
        self._alias = None if alias is None else fold(alias)
        folded = [fold(name) for schema in (self._target, self._source) for name in schema.fieldNames()]
        self._once = {name for name in folded if folded.count(name) == 1}
        self._columns = frozenset(folded)

    def of_target(self, column: Node) -> str | None:
        """The table's column that this is."""
        return self._name(column, of_target=True)

    def of_source(self, column: Node) -> str | None:
        """The source's column that this is."""
        return self._name(column, of_target=False)

    def keys(self, one: Node, other: Node) -> Iterator[TextJoinKey]:
        """The equality of these two as a key."""
        for here, there in ((one, other), (other, one)):
            column, given = self.of_target(here), self.of_source(there)
            if column is None or given is None:
                continue
            kinds = self._target[column].dataType, self._source[given].dataType
            if _compare_exactly(*kinds):
                yield TextJoinKey(
                    target=F.col(quote(column)),
                    source=F.col(quote(given)),
                    data_type=kinds[1].simpleString(),
                    column=column,
                )
                return

    def _name(self, column: Node, *, of_target: bool) -> str | None:
        if not isinstance(column, Name):
            return None
        field = child(self._target if of_target else self._source, column.parts[-1])
        parts = [fold(part) for part in column.parts]
        if field is None or len(parts) > 2:
            return None
        if len(parts) == 1:
            return field.name if parts[0] in self._once else None
        # The qualifier could be a struct, and of which frame the qualifier of the source is does not show.
        if parts[0] in self._columns or (parts[0] == self._alias) != of_target:
            return None
        return field.name


def _compare_exactly(target: DataType, source: DataType) -> bool:
    return target == source or (isinstance(target, IntegralType) and isinstance(source, IntegralType))


def _words(text: str) -> frozenset[str]:
    return frozenset(token.word.lower() for token in tokenize(text))
