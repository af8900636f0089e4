"""INSERT INTO and INSERT OVERWRITE."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from anabranch.predicates.sql_lexer import Token, TokenKind
from anabranch.sql.grammar.clauses import take_alias, take_value
from anabranch.sql.grammar.cursor import BRACKETS, QUERY_STARTS, Cursor, Fragment, TableName

_DEFAULT = "DEFAULT"
_OPERAND_EXPECTED = frozenset(
    {"AND", "OR", "NOT", "IN", "EXISTS", "ANY", "ALL", "SOME", "LIKE", "ILIKE", "RLIKE", "WHERE", "BETWEEN", "ON"}
)


_SET_OPERATIONS = ("UNION", "EXCEPT", "INTERSECT", "MINUS")
_QUERY_CONTINUES = (*_SET_OPERATIONS, "ORDER", "LIMIT", "OFFSET", "SORT", "CLUSTER", "DISTRIBUTE")
_ENDS_LIST = {"FROM", "WHERE", "LATERAL", "GROUP", "HAVING", "WINDOW", *_QUERY_CONTINUES}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PartitionValue:
    """A part of `PARTITION (a = 1, b)`."""

    column: str
    value: Fragment | None
    """None where the rows have the values."""


Row = tuple[Fragment | None, ...]
"""Values; None for the keyword DEFAULT."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Insert:
    """`INSERT`."""

    table: TableName
    overwrite: bool
    evolves: bool
    """WITH SCHEMA EVOLUTION: columns that the table lacks are added."""
    partition: tuple[PartitionValue, ...] = ()
    if_not_exists: bool = False
    columns: tuple[str, ...] | None = None
    by_name: bool = False
    replace_where: Fragment | None = None
    alias: str | None = None
    """The alias of the table, for `REPLACE ON`."""
    replace_on: Fragment | None = None
    replace_using: tuple[str, ...] = ()
    query: Fragment
    query_alias: str | None = None
    """The alias of the query, for `REPLACE ON`."""
    rows: tuple[Row, ...] | None = None
    """The rows of the query, where it is VALUES with a DEFAULT."""
    defaults: tuple[int, ...] = ()
    """The columns of the query that are the keyword DEFAULT, where it is a SELECT. `query` has NULL there."""


def parse_insert(cursor: Cursor) -> Insert:
    """`INSERT [WITH SCHEMA EVOLUTION] {INTO | OVERWRITE} t [PARTITION …] [columns | BY NAME] [REPLACE …] query`."""
    cursor.expect("INSERT")
    evolves = cursor.takes("WITH", "SCHEMA", "EVOLUTION")
    overwrite = cursor.takes("OVERWRITE")
    if not overwrite:
        cursor.expect("INTO")
    cursor.takes("TABLE")
    table = cursor.table()
    partition = _take_partition(cursor)
    if_not_exists = cursor.takes("IF", "NOT", "EXISTS")
    columns = _take_columns(cursor)
    alias, by_name = None, columns is None and cursor.takes("BY", "NAME")
    if not cursor.sees("REPLACE", "WHERE|ON|USING") and not cursor.sees_query():
        alias = take_alias(cursor)
        by_name = by_name or cursor.takes("BY", "NAME")
    replaces = _take_replace(cursor)
    if not cursor.sees_query():
        raise cursor.unexpected("a query")
    if alias is not None and not replaces:
        raise cursor.unexpected("REPLACE, after an alias of the table")
    rows = _rows_with_default(cursor)
    defaults = _selected_defaults(cursor)
    query, query_alias = _with_nulls(cursor, cursor.rest("a query"), defaults), None
    if "replace_on" in replaces:
        query, query_alias = _without_alias(cursor, query)
    return Insert(
        table=table,
        overwrite=overwrite,
        evolves=evolves,
        partition=partition,
        if_not_exists=if_not_exists,
        columns=columns,
        by_name=by_name,
        alias=alias,
        **replaces,
        query=query,
        query_alias=query_alias,
        rows=rows,
        defaults=tuple(defaults),
    )


def _take_partition(cursor: Cursor) -> tuple[PartitionValue, ...]:
    parts: list[PartitionValue] = []

    def read() -> None:
        column = cursor.name("a partition column")
        value = None
        if cursor.takes_symbol("=") or cursor.takes_symbol("=="):
            value = cursor.until(lambda: cursor.sees_symbol(","), "a constant")
        parts.append(PartitionValue(column=column, value=value))

    if cursor.takes("PARTITION"):
        cursor.listed(read)
    return tuple(parts)


def _take_columns(cursor: Cursor) -> tuple[str, ...] | None:
    if not cursor.sees_symbol("(") or cursor.sees_query():
        return None
    names: list[str] = []
    cursor.listed(lambda: names.append(cursor.name("a column")))
    return tuple(names)


def _take_replace(cursor: Cursor) -> dict[str, Any]:
    """Take the REPLACE clause; the result has fields of `Insert`."""
    if cursor.takes("REPLACE", "WHERE"):
        return {"replace_where": cursor.until(lambda: _query_follows(cursor), "a condition")}
    if cursor.takes("REPLACE", "ON"):
        return {"replace_on": cursor.until(lambda: _query_follows(cursor), "a condition")}
    if cursor.takes("REPLACE", "USING"):
        names: list[str] = []
        cursor.listed(lambda: names.append(cursor.name("a column")))
        return {"replace_using": tuple(names)}
    return {}


def _without_alias(cursor: Cursor, query: Fragment) -> tuple[Fragment, str | None]:
    """`(query) [AS] name` as the query and the name."""
    part = Cursor(cursor.text, [token for token in cursor.tokens if query.start <= token.start < query.end])
    if not part.sees_symbol("("):
        return query, None
    part.skip_parenthesized()
    inner = Fragment(cursor.text, query.start, part.end_of_last)
    alias = take_alias(part, *_QUERY_CONTINUES)
    return (inner, alias) if alias is not None and part.is_at_end else (query, None)


def _query_follows(cursor: Cursor) -> bool:
    """Whether the condition is over. A query in parentheses may also be a part of the condition."""
    before = cursor.peek(-1)
    assert before is not None
    if cursor.word() in QUERY_STARTS:
        return cursor.word() != "FROM" or before.word != "DISTINCT"
    ends_operand = before.kind is not TokenKind.SYMBOL or before.text in {")", "]"}
    return cursor.sees_symbol("(") and cursor.sees_query() and ends_operand and before.word not in _OPERAND_EXPECTED


def _rows_with_default(cursor: Cursor) -> tuple[Row, ...] | None:
    """The rows of VALUES that have a DEFAULT. The cursor is not moved."""
    first = cursor.at
    if not _has_default(cursor) or not cursor.takes("VALUES"):
        return None
    rows = [_row(cursor)]
    while cursor.takes_symbol(","):
        rows.append(_row(cursor))
    complete = cursor.is_at_end
    cursor.at = first
    return tuple(rows) if complete else None


def _selected_defaults(cursor: Cursor) -> dict[int, Token]:
    """The keyword DEFAULT in the list of a SELECT that is next, by its index in the list."""
    if not _has_default(cursor) or not cursor.sees("SELECT"):
        return {}
    items: list[list[Token]] = [[]]
    depth, list_goes_on = 0, True
    for index in range(cursor.at + 1, len(cursor.tokens)):
        token, before = cursor.tokens[index], cursor.tokens[index - 1]
        depth += BRACKETS.get(token.text, 0)
        if depth == 0 and token.word in _SET_OPERATIONS:
            # Another query adds rows, which have no DEFAULT here.
            return {}
        ends = token.word in _ENDS_LIST and not (token.word == "FROM" and before.word == "DISTINCT")
        list_goes_on = list_goes_on and not (depth == 0 and ends)
        if list_goes_on and depth == 0 and token.is_symbol(","):
            items.append([])
        elif list_goes_on:
            items[-1].append(token)
    if items[0] and items[0][0].word in {"ALL", "DISTINCT"}:
        del items[0][0]
    return {index: item[0] for index, item in enumerate(items) if len(item) == 1 and item[0].word == _DEFAULT}


def _with_nulls(cursor: Cursor, query: Fragment, defaults: Mapping[int, Token]) -> Fragment:
    text = cursor.text
    for token in defaults.values():
        text = text[: token.start] + "NULL".ljust(len(_DEFAULT)) + text[token.end :]
    return dataclasses.replace(query, source=text)


def _has_default(cursor: Cursor) -> bool:
    return any(len(token.text) == len(_DEFAULT) and token.word == _DEFAULT for token in cursor.tokens[cursor.at :])


def _row(cursor: Cursor) -> Row:
    if not cursor.takes_symbol("("):
        return (take_value(cursor),)
    values = [take_value(cursor)]
    while cursor.takes_symbol(","):
        values.append(take_value(cursor))
    cursor.expect_symbol(")")
    return tuple(values)


# `WITH a AS (query), b (x) AS (query)` before a statement.


def take_named_queries(cursor: Cursor) -> Fragment | None:
    """Take the WITH clause, if it is next."""
    first = cursor.at
    return None if not _take_names(cursor) else Fragment(cursor.text, cursor.tokens[first].start, cursor.end_of_last)


def _take_names(cursor: Cursor) -> tuple[str, ...]:
    names: list[str] = []
    if not cursor.takes("WITH"):
        return ()
    if cursor.sees("RECURSIVE") and not (cursor.sees("RECURSIVE", "AS") or cursor.sees_symbol("(", 1)):
        cursor.takes("RECURSIVE")
    while True:
        names.append(cursor.name("the name of a query"))
        if cursor.sees_symbol("("):
            cursor.skip_parenthesized()
        if cursor.takes("MAX", "RECURSION", "LEVEL"):
            cursor.integer()
        if cursor.takes("AS") or cursor.sees_symbol("("):
            cursor.skip_parenthesized()
        if not cursor.takes_symbol(","):
            return tuple(names)
