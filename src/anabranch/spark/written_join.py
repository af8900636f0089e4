"""What a join condition says, by its words: all that a client of Spark Connect knows of it."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator

import sqlglot
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention
from pyspark.sql.types import DataType, IntegralType
from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.tokens import Token, TokenType

from anabranch.predicates.sql_literals import DIALECT
from anabranch.schema.paths import child, fold
from anabranch.spark.table_identifiers import quote

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
class WrittenKey:
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
    keys: tuple[WrittenKey, ...] = ()


def changes_by_chance(text: str) -> bool:
    """Whether it calls a built-in function that is not deterministic."""
    return bool(_words(text) & CHANCE_FUNCTIONS)


def holds_query(text: str) -> bool:
    """Whether it holds a subquery."""
    return bool(_words(text) & _QUERIES)


def named_columns(text: str, columns: Iterable[str]) -> tuple[str, ...]:
    """Those of the columns that it names, maybe more."""
    named = {fold(token.text) for token in _tokens(text)}
    return tuple(name for name in columns if fold(name) in named or not _PLAIN.fullmatch(name))


def written_join(text: str, target: DataFrame, source: DataFrame, *, alias: str | None) -> WrittenJoin:
    """What `text` says for certain: nothing of names that could mean something else."""
    try:
        tree = sqlglot.parse_one(text, dialect=DIALECT, into=exp.Condition)
    except (SqlglotError, RecursionError):
        return WrittenJoin()
    names = _Names(target, source, alias)
    of_target: list[Column] = []
    keys: list[WrittenKey] = []
    for part in _conjuncts(tree):
        columns = list(part.find_all(exp.Column))
        if columns and all(names.of_target(column) for column in columns):
            of_target.append(F.expr(part.sql(dialect=DIALECT)))
        elif isinstance(part, exp.EQ):
            keys += names.keys(part.this, part.expression)
    return WrittenJoin(of_target=tuple(of_target), keys=tuple(keys))


class _Names:
    """Whose column a name is, where it can only be one."""

    def __init__(self, target: DataFrame, source: DataFrame, alias: str | None) -> None:
        self._target, self._source = target.schema, source.schema
        self._alias = None if alias is None else fold(alias)
        folded = [fold(name) for schema in (self._target, self._source) for name in schema.fieldNames()]
        self._once = {name for name in folded if folded.count(name) == 1}
        self._columns = frozenset(folded)

    def of_target(self, column: exp.Expression) -> str | None:
        """The table's column that this is."""
        return self._name(column, of_target=True)

    def of_source(self, column: exp.Expression) -> str | None:
        """The source's column that this is."""
        return self._name(column, of_target=False)

    def keys(self, one: exp.Expression, other: exp.Expression) -> Iterator[WrittenKey]:
        """The equality of these two as a key."""
        for here, there in ((one, other), (other, one)):
            column, given = self.of_target(here), self.of_source(there)
            if column is None or given is None:
                continue
            kinds = self._target[column].dataType, self._source[given].dataType
            if _compare_exactly(*kinds):
                yield WrittenKey(
                    target=F.col(quote(column)),
                    source=F.col(quote(given)),
                    data_type=kinds[1].simpleString(),
                    column=column,
                )
                return

    def _name(self, column: exp.Expression, *, of_target: bool) -> str | None:
        if not isinstance(column, exp.Column) or isinstance(column.this, exp.Star):
            return None
        field = child(self._target if of_target else self._source, column.name)
        parts = [fold(part.name) for part in column.parts]
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


def _conjuncts(tree: exp.Expression) -> Iterator[exp.Expression]:
    if isinstance(tree, exp.Paren):
        yield from _conjuncts(tree.this)
    elif isinstance(tree, exp.And):
        yield from _conjuncts(tree.this)
        yield from _conjuncts(tree.expression)
    else:
        yield tree


def _words(text: str) -> frozenset[str]:
    return frozenset(
        token.text.lower()
        for token in _tokens(text)
        if token.token_type not in (TokenType.STRING, TokenType.IDENTIFIER)
    )


def _tokens(text: str) -> list[Token]:
    try:
        tokens: list[Token] = sqlglot.tokenize(text, dialect=DIALECT)
        return tokens
    except SqlglotError:
        return []
