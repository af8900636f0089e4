"""Queries of which each row comes of one row of one table, as far as words tell."""

from __future__ import annotations

import dataclasses

from anabranch.errors.arguments import SqlSyntaxError
from anabranch.sql.grammar.clauses import take_alias
from anabranch.sql.grammar.cursor import Cursor, Fragment, TableName

_ASKS_MORE_ROWS = frozenset(
    {
        "CLUSTER", "DISTINCT", "DISTRIBUTE", "EXCEPT", "EXISTS", "GROUP", "HAVING",
        "INTERSECT", "JOIN", "LATERAL", "LIMIT", "MAP", "MINUS", "OFFSET",
        "ORDER", "OVER", "PIVOT", "QUALIFY", "REDUCE", "SORT", "TABLE",
        "TABLESAMPLE", "TRANSFORM", "UNION", "UNPIVOT", "VALUES", "WINDOW", "WITH",
    }
)  # fmt: skip
"""Where one of these is said, even as a name, the query is not looked at any closer."""
_PIPE = "|>"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RowQuery:
    """`SELECT items FROM t [alias] WHERE condition`. Its items may still count rows: aggregates have any name."""

    table: TableName
    alias: str | None
    items: Fragment
    """With the word SELECT."""
    rest: Fragment
    """From the word FROM on."""
    condition: Fragment


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
        table = cursor.table()
        alias = take_alias(cursor, "WHERE")
        cursor.expect("WHERE")
        condition = cursor.rest("a condition")
    except SqlSyntaxError:
        # A table in parentheses, a version of it, several tables: the query goes to Spark as it is.
        return None
    assert start is not None
    return RowQuery(
        table=table,
        alias=alias,
        items=Fragment(query.source, query.start, start.start),
        rest=Fragment(query.source, start.start, query.end),
        condition=condition,
    )
