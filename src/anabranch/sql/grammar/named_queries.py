"""`WITH a AS (query), b (x) AS (query)` before a statement."""

from __future__ import annotations

from anabranch.sql.grammar.cursor import Cursor, Fragment


def take_named_queries(cursor: Cursor) -> Fragment | None:
    """Take them, if they are there."""
    first = cursor.at
    return None if not _take_names(cursor) else Fragment(cursor.text, cursor.tokens[first].start, cursor.end_of_last)


def named_queries(text: str) -> tuple[str, ...]:
    """The names that are given, in order."""
    return _take_names(Cursor(text))


def _take_names(cursor: Cursor) -> tuple[str, ...]:
    found: list[str] = []
    if not cursor.takes("WITH"):
        return ()
    if cursor.sees("RECURSIVE") and not (cursor.sees("RECURSIVE", "AS") or cursor.sees_symbol("(", 1)):
        cursor.takes("RECURSIVE")
    while True:
        found.append(cursor.name("the name of a query"))
        if cursor.sees_symbol("("):
            cursor.skip_parenthesized()
        if cursor.takes("MAX", "RECURSION", "LEVEL"):
            cursor.integer()
        if cursor.takes("AS") or cursor.sees_symbol("("):
            cursor.skip_parenthesized()
        if not cursor.takes_symbol(","):
            return tuple(found)
