"""Queries of which each row comes of one row of each of their tables, as far as words tell."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from anabranch.errors.arguments import SqlSyntaxError
from anabranch.predicates.sql_nodes import Call, ConditionSyntaxError, Constant, Node, names_in, parts_of
from anabranch.predicates.sql_tree import parse_condition
from anabranch.sql.grammar.clauses import take_alias
from anabranch.sql.grammar.cursor import Cursor, Fragment, TableName

_ASKS_MORE_ROWS = frozenset(
    {
        "CLUSTER", "DISTINCT", "DISTRIBUTE", "EXCEPT", "EXISTS", "GROUP", "HAVING",
        "INTERSECT", "LATERAL", "LIMIT", "MAP", "MINUS", "NATURAL", "OFFSET",
        "ORDER", "OVER", "PIVOT", "QUALIFY", "REDUCE", "SORT", "TABLE",
        "TABLESAMPLE", "TRANSFORM", "UNION", "UNPIVOT", "USING", "WINDOW", "WITH",
    }
)  # fmt: skip
"""Where one of these is said, even as a name, the query is not looked at any closer."""
_JOIN_WORDS = frozenset({"ANTI", "CROSS", "FULL", "INNER", "JOIN", "LEFT", "ON", "RIGHT", "SEMI", "WHERE"})
"""Spark takes none of them for an alias."""
_PIPE = "|>"
_VARIABLES = frozenset({"session", "system"})
"""Qualifiers of session variables."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """What stands between the words FROM, JOIN, ON."""

    table: TableName | None
    """None for rows of VALUES."""
    alias: str | None
    is_filtered: bool
    """Whether what is false of a row of it in WHERE, or in ON of an inner join, keeps the row out of the query."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RowQuery:
    """`SELECT items FROM t [alias] [JOIN u ON …] WHERE …`. Its items may still count rows: aggregates have any name."""

    items: Fragment
    """With the word SELECT."""
    rest: Fragment
    """From the word FROM on."""
    sources: tuple[Source, ...]
    conditions: tuple[Fragment, ...]
    """That of WHERE, and those of inner joins: all true of every row that the query gives."""

    def conditions_on(self, alias: str | None) -> tuple[Fragment, ...]:
        """What the conditions say of the source of that name alone.

        Of several tables, only columns with the name before them count: another may belong to any of them, and by
        itself mean something else, such as a variable.
        """
        if len(self.sources) == 1:
            return self.conditions
        if alias is None or alias.lower() in _VARIABLES:
            return ()
        return tuple(part for condition in self.conditions for part in _parts_on(condition, alias))


def parse_row_query(query: Fragment) -> RowQuery | None:
    """The query's parts; None where it is of another form."""
    every = Cursor(query.source)
    cursor = Cursor(query.source, [token for token in every.tokens if query.start <= token.start < query.end])
    words = [token.word for token in cursor.tokens]
    is_one_query = words.count("SELECT") == words.count("FROM") == 1
    if not is_one_query or not _ASKS_MORE_ROWS.isdisjoint(words) or _PIPE in query.text:
        return None
    try:
        cursor.expect("SELECT")
        cursor.until(lambda: cursor.sees("FROM"))
        start = cursor.peek()
        cursor.expect("FROM")
        sources, conditions = _take_sources(cursor)
        if cursor.takes("WHERE"):
            conditions.append(cursor.rest("a condition"))
        cursor.expect_end()
    except SqlSyntaxError:
        # A table in parentheses, a version of it, a join of another kind: the query goes to Spark as it is.
        return None
    assert start is not None
    return RowQuery(
        items=Fragment(query.source, query.start, start.start),
        rest=Fragment(query.source, start.start, query.end),
        sources=tuple(sources),
        conditions=tuple(conditions),
    )


def _take_sources(cursor: Cursor) -> tuple[list[Source], list[Fragment]]:
    """Tables with commas or joins between them, up to WHERE, and the conditions of their inner joins.

    No join is taken that keeps a row of its right side which matches nothing: what comes from the left side would be
    NULL then, and a condition on it would not keep the row out.
    """
    sources = [_take_source(cursor, is_filtered=True)]
    conditions = []
    while not cursor.is_at_end and not cursor.sees("WHERE"):
        if cursor.takes_symbol(","):
            sources.append(_take_source(cursor, is_filtered=True))
            continue
        is_inner = _takes_inner_join(cursor)
        if not is_inner:
            cursor.expect("LEFT")
            cursor.takes("OUTER|SEMI|ANTI")
            cursor.expect("JOIN")
        sources.append(_take_source(cursor, is_filtered=is_inner))
        if cursor.takes("ON"):
            condition = cursor.until(lambda: _ends_condition(cursor))
            if is_inner:
                conditions.append(condition)
    return sources, conditions


def _takes_inner_join(cursor: Cursor) -> bool:
    return cursor.takes("JOIN") or cursor.takes("INNER|CROSS", "JOIN")


def _ends_condition(cursor: Cursor) -> bool:
    """Whether what comes is a comma or a keyword, and no function `left` or column `t.left`."""
    before = cursor.peek(-1)
    is_name = cursor.sees_symbol("(", 1) or (before is not None and before.is_symbol("."))
    return cursor.sees_symbol(",") or (cursor.word() in _JOIN_WORDS and not is_name)


def _take_source(cursor: Cursor, *, is_filtered: bool) -> Source:
    if cursor.takes("VALUES"):
        cursor.skip_parenthesized()
        while cursor.sees_symbol(",") and cursor.sees_symbol("(", 1):
            cursor.takes_symbol(",")
            cursor.skip_parenthesized()
        alias = take_alias(cursor, *_JOIN_WORDS)
        if cursor.sees_symbol("("):
            cursor.skip_parenthesized()
        return Source(table=None, alias=alias, is_filtered=is_filtered)
    table = cursor.table()
    return Source(table=table, alias=take_alias(cursor, *_JOIN_WORDS), is_filtered=is_filtered)


def _parts_on(condition: Fragment, alias: str) -> Iterator[Fragment]:
    """The parts of a condition, all of which must be true, that read columns of `alias` and nothing else."""
    try:
        tree = parse_condition(condition.text)
    except (ConditionSyntaxError, RecursionError):
        return
    for part in parts_of(tree):
        names = list(names_in(part))
        # A name of another case may be that of a column, where names are told apart by it.
        is_on = all(len(name.parts) > 1 and name.parts[0] == alias for name in names)
        if names and is_on and not any(_may_name_columns(node) for node in part.walk()):
            yield Fragment(condition.source, condition.start + part.start, condition.start + part.end)


def _may_name_columns(node: Node) -> bool:
    """Whether it may read columns that are not among its names: by IDENTIFIER, or in quotes that may be a name's."""
    if isinstance(node, Call):
        return node.name[-1].lower() == "identifier"
    return isinstance(node, Constant) and any(token.text.startswith('"') for token in node.tokens)
