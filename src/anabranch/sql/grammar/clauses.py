"""Clauses that several statements share."""

from __future__ import annotations

import dataclasses

from anabranch.predicates.sql_strings import string_value
from anabranch.predicates.sql_tokens import TokenKind
from anabranch.sql.grammar.cursor import Cursor, Fragment

Properties = tuple[tuple[str, str], ...]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """`column = value`."""

    column: tuple[str, ...]
    value: Fragment | None
    """None for the keyword DEFAULT."""


def take_properties(cursor: Cursor) -> Properties:
    """Take `('key' = 'value', a.b = 1)`."""
    found: list[tuple[str, str]] = []

    def read() -> None:
        key = take_property_key(cursor)
        if not cursor.takes_symbol("="):
            cursor.takes_symbol("==")
        found.append((key, _property_value(cursor)))

    cursor.listed(read)
    return tuple(found)


def take_property_keys(cursor: Cursor) -> tuple[str, ...]:
    """Take `('key', a.b)`."""
    found: list[str] = []
    cursor.listed(lambda: found.append(take_property_key(cursor)))
    return tuple(found)


def take_property_key(cursor: Cursor) -> str:
    """Take a property's name, a string or words joined by dots."""
    token = cursor.peek()
    if token is not None and token.kind is TokenKind.STRING:
        # Not several, as one string elsewhere may be: the next is the value, where no = stands between.
        cursor.at += 1
        return string_value(token.text)
    return ".".join(cursor.path("the name of a property"))


def take_alias(cursor: Cursor, *not_names: str) -> str | None:
    """Take `[AS] alias`, which is none of the words that may follow."""
    if cursor.takes("AS"):
        return cursor.name("an alias")
    token = cursor.peek()
    if token is None or not token.is_name or token.word in not_names:
        return None
    return cursor.name()


def take_assignments(cursor: Cursor, *ends: str) -> tuple[Assignment, ...]:
    """Take `a = 1, b.c = DEFAULT`, up to one of these words or the end."""
    found = [_assignment(cursor, ends)]
    while cursor.takes_symbol(","):
        found.append(_assignment(cursor, ends))
    return tuple(found)


def take_value(cursor: Cursor, *ends: str) -> Fragment | None:
    """Take an expression, up to a comma, one of these words, or the end; None for the keyword DEFAULT."""
    value = cursor.until(lambda: cursor.sees_symbol(",") or cursor.word() in ends)
    return None if value.text.upper() == "DEFAULT" else value


def _assignment(cursor: Cursor, ends: tuple[str, ...]) -> Assignment:
    if cursor.word() in ends:
        raise cursor.unexpected("a column")
    column = cursor.path()
    if not cursor.takes_symbol("=="):
        cursor.expect_symbol("=")
    return Assignment(column=column, value=take_value(cursor, *ends))


def _property_value(cursor: Cursor) -> str:
    if cursor.sees("TRUE|FALSE"):
        return cursor.name().lower()
    sign = "-" if cursor.takes_symbol("-") else ""
    token = cursor.peek()
    if token is not None and token.kind is TokenKind.NUMBER:
        cursor.at += 1
        return sign + token.text
    return cursor.string("a string, a number, true or false")
