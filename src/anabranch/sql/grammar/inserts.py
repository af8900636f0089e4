"""INSERT INTO and INSERT OVERWRITE."""

from __future__ import annotations

import dataclasses

from anabranch.sql.grammar.clauses import take_value
from anabranch.sql.grammar.cursor import QUERY_STARTS, Cursor, Fragment, TableName
from anabranch.sql.grammar.tokens import TokenKind

_DEFAULT = "DEFAULT"
_OPERAND_EXPECTED = frozenset(
    {"AND", "OR", "NOT", "IN", "EXISTS", "ANY", "ALL", "SOME", "LIKE", "ILIKE", "RLIKE", "WHERE", "BETWEEN", "ON"}
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PartitionValue:
    """A part of `PARTITION (a = 1, b)`."""

    column: str
    value: Fragment | None
    """None where the rows bring it."""


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
    replaces: str | None = None
    """`REPLACE ON` or `REPLACE USING`, if it is there."""
    query: Fragment
    rows: tuple[Row, ...] | None = None
    """The query's rows, where it is VALUES and says DEFAULT somewhere."""


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
    by_name = columns is None and cursor.takes("BY", "NAME")
    replace_where, replaces = _take_replace(cursor)
    if not cursor.sees_query():
        raise cursor.unexpected("a query")
    rows = _rows_with_default(cursor)
    return Insert(
        table=table,
        overwrite=overwrite,
        evolves=evolves,
        partition=partition,
        if_not_exists=if_not_exists,
        columns=columns,
        by_name=by_name,
        replace_where=replace_where,
        replaces=replaces,
        query=cursor.rest("a query"),
        rows=rows,
    )


def _take_partition(cursor: Cursor) -> tuple[PartitionValue, ...]:
    found: list[PartitionValue] = []

    def read() -> None:
        column = cursor.name("a partition column")
        value = None
        if cursor.takes_symbol("=") or cursor.takes_symbol("=="):
            value = cursor.until(lambda: cursor.sees_symbol(","), "a constant")
        found.append(PartitionValue(column=column, value=value))

    if cursor.takes("PARTITION"):
        cursor.listed(read)
    return tuple(found)


def _take_columns(cursor: Cursor) -> tuple[str, ...] | None:
    if not cursor.sees_symbol("(") or cursor.sees_query():
        return None
    found: list[str] = []
    cursor.listed(lambda: found.append(cursor.name("a column")))
    return tuple(found)


def _take_replace(cursor: Cursor) -> tuple[Fragment | None, str | None]:
    """What REPLACE WHERE says, or by what name REPLACE is to be refused. An alias comes with REPLACE ON alone."""
    if cursor.sees("AS") or (cursor.word(1) == "REPLACE" and not cursor.sees("REPLACE")):
        cursor.takes("AS")
        cursor.name("an alias")
    if cursor.takes("REPLACE", "WHERE"):
        return cursor.until(lambda: _query_follows(cursor), "a condition"), None
    if cursor.sees("REPLACE", "ON|USING"):
        name = f"REPLACE {cursor.word(1)}"
        cursor.at += 2
        cursor.until(lambda: _query_follows(cursor))
        return None, name
    return None, None


def _query_follows(cursor: Cursor) -> bool:
    """Whether the condition is over. A query in parentheses may also be a part of the condition."""
    before = cursor.peek(-1)
    assert before is not None
    if cursor.word() in QUERY_STARTS:
        return cursor.word() != "FROM" or before.word != "DISTINCT"
    ends_operand = before.kind is not TokenKind.SYMBOL or before.text in {")", "]"}
    return cursor.sees_symbol("(") and cursor.sees_query() and ends_operand and before.word not in _OPERAND_EXPECTED


def _rows_with_default(cursor: Cursor) -> tuple[Row, ...] | None:
    """The rows of VALUES that say DEFAULT; the cursor stays where it is."""
    first = cursor.at
    says_default = any(len(token.text) == len(_DEFAULT) and token.word == _DEFAULT for token in cursor.tokens[first:])
    if not says_default or not cursor.takes("VALUES"):
        return None
    rows = [_row(cursor)]
    while cursor.takes_symbol(","):
        rows.append(_row(cursor))
    complete = cursor.is_at_end
    cursor.at = first
    return tuple(rows) if complete else None


def _row(cursor: Cursor) -> Row:
    if not cursor.takes_symbol("("):
        return (take_value(cursor),)
    values = [take_value(cursor)]
    while cursor.takes_symbol(","):
        values.append(take_value(cursor))
    cursor.expect_symbol(")")
    return tuple(values)
