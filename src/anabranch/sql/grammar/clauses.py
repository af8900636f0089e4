"""Clauses that several statements share."""

from __future__ import annotations

import dataclasses

from anabranch.predicates.sql_lexer import TokenKind, string_value
from anabranch.sql.grammar.cursor import Cursor, Fragment

Properties = tuple[tuple[str, str], ...]


def take_properties(cursor: Cursor) -> Properties:
    """Take `('key' = 'value', a.b = 1)`."""
    properties: list[tuple[str, str]] = []

    def read() -> None:
        key = take_property_key(cursor)
        if not cursor.takes_symbol("="):
            cursor.takes_symbol("==")
        properties.append((key, _property_value(cursor)))

    cursor.listed(read)
    return tuple(properties)


def take_property_key(cursor: Cursor) -> str:
    """Take a property's name, a string or words joined by dots."""
    token = cursor.peek()
    if token is not None and token.kind is TokenKind.STRING:
        # Strings in a row are one string elsewhere; here the next one is the value, if there is no = between.
        cursor.at += 1
        return string_value(token.text)
    return ".".join(cursor.path("the name of a property"))


def take_alias(cursor: Cursor, *not_names: str) -> str | None:
    """Take `[AS] alias`. Words that may follow are no alias."""
    if cursor.takes("AS"):
        return cursor.name("an alias")
    token = cursor.peek()
    if token is None or not token.is_name or token.word in not_names:
        return None
    return cursor.name()


def take_value(cursor: Cursor, *ends: str) -> Fragment | None:
    """Take an expression, up to a comma, one of these words, or the end; None for the keyword DEFAULT."""
    value = cursor.until(lambda: cursor.sees_symbol(",") or cursor.word() in ends)
    return None if value.text.upper() == "DEFAULT" else value


def _property_value(cursor: Cursor) -> str:
    if cursor.sees("TRUE|FALSE"):
        return cursor.name().lower()
    sign = "-" if cursor.takes_symbol("-") else ""
    token = cursor.peek()
    if token is not None and token.kind is TokenKind.NUMBER:
        cursor.at += 1
        return sign + token.text
    return cursor.string("a string, a number, true or false")


# Definitions of columns, in CREATE TABLE and ALTER TABLE.


_AFTER_DEFAULT = frozenset(
    ("COMMENT", "GENERATED", "CHECK", "CONSTRAINT", "FIRST", "AFTER", "PRIMARY", "UNIQUE", "REFERENCES")
)
_TYPE_GOES_ON = "TO|YEAR|MONTH|DAY|HOUR|MINUTE|SECOND|WITH|WITHOUT|LOCAL|TIME|ZONE"
_CLOSES = {"(": ")", "<": ">"}
_CLOSE_TWO = (">>", ">>>", "<>")
_OPERAND_EXPECTED = frozenset({"IS", "AND", "OR", "WHEN", "THEN", "ELSE", "CASE", "NOT", "IN", "LIKE", "BETWEEN"})


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """`GENERATED … AS IDENTITY`."""

    start: int = 1
    step: int = 1
    allow_explicit: bool
    """BY DEFAULT: rows may have their own numbers."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """`[CONSTRAINT name] CHECK (condition)`."""

    name: str | None
    condition: Fragment


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ColumnPosition:
    """The position of a column: the first, or after another one."""

    after: str | None
    """None for the first position."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ColumnDefinition:
    """The definition of a column in a statement."""

    path: tuple[str, ...]
    type: Fragment
    nullable: bool = True
    comment: str | None = None
    default: Fragment | None = None
    generated: Fragment | None = None
    identity: Identity | None = None
    checks: tuple[Check, ...] = ()
    position: ColumnPosition | None = None


def take_column(cursor: Cursor) -> ColumnDefinition:
    """Take `a.b type [NOT NULL] [DEFAULT …] [GENERATED …] [COMMENT …] [CHECK …] [FIRST | AFTER c]`."""
    path = cursor.path("the name of a column")
    cursor.takes_symbol(":")
    column = ColumnDefinition(path=path, type=take_type(cursor))
    while (changed := _with_clause(cursor, column)) is not None:
        column = changed
    return column


def take_type(cursor: Cursor) -> Fragment:
    """Take a type, with all nested types."""
    first = cursor.at
    cursor.name("the type of a column")
    while (token := cursor.peek()) is not None:
        if token.is_symbol("(") or token.is_symbol("<"):
            _take_nested(cursor)
        elif cursor.takes("COLLATE"):
            cursor.path("a collation")
        elif not cursor.takes(_TYPE_GOES_ON):
            break
    return Fragment(cursor.text, cursor.tokens[first].start, cursor.end_of_last)


def _take_nested(cursor: Cursor) -> None:
    """Take `(…)` or `<…>`."""
    closing: list[str] = []
    while (token := cursor.peek()) is not None:
        # `>>` closes two.
        for character in token.text if token.text in _CLOSE_TWO else (token.text,):
            if character in _CLOSES:
                closing.append(_CLOSES[character])
            elif character in _CLOSES.values() and (not closing or closing.pop() != character):
                raise cursor.unexpected("the rest of the type of a column")
        cursor.at += 1
        if not closing:
            return
    raise cursor.unexpected("the rest of the type of a column")


def take_check(cursor: Cursor) -> Check | None:
    """Take `[CONSTRAINT name] CHECK (condition) [ENFORCED]`, if it is next."""
    if not cursor.sees("CHECK") and not cursor.sees("CONSTRAINT"):
        return None
    name = cursor.name("the name of a constraint") if cursor.takes("CONSTRAINT") else None
    cursor.expect("CHECK")
    condition = cursor.parenthesized("a condition")
    cursor.takes("ENFORCED")
    return Check(name=name, condition=condition)


def take_position(cursor: Cursor) -> ColumnPosition | None:
    """Take `FIRST` or `AFTER c`, if it is next."""
    if cursor.takes("FIRST"):
        return ColumnPosition(after=None)
    if cursor.takes("AFTER"):
        return ColumnPosition(after=cursor.name("a column"))
    return None


def take_default(cursor: Cursor) -> Fragment:
    """Take the expression of a default, up to the next clause of the column."""

    def stops() -> bool:
        before = cursor.peek(-1)
        operand_before = before is not None and before.word not in _OPERAND_EXPECTED | {"DEFAULT"}
        ends = cursor.word() in _AFTER_DEFAULT or cursor.sees("NOT", "NULL")
        return cursor.sees_symbol(",") or (operand_before and ends)

    return cursor.until(stops)


def _with_clause(cursor: Cursor, column: ColumnDefinition) -> ColumnDefinition | None:
    """The column with the next clause; None where there is no further clause."""
    if cursor.takes("NOT", "NULL"):
        return dataclasses.replace(column, nullable=False)
    if cursor.takes("NULL"):
        return column
    if cursor.takes("COMMENT"):
        return dataclasses.replace(column, comment=cursor.string("a comment"))
    if cursor.takes("DEFAULT"):
        return dataclasses.replace(column, default=take_default(cursor))
    if cursor.takes("GENERATED"):
        return _generated(cursor, column)
    position = take_position(cursor)
    if position is not None:
        return dataclasses.replace(column, position=position)
    check = take_check(cursor)
    if check is not None:
        return dataclasses.replace(column, checks=(*column.checks, check))
    return None


def _generated(cursor: Cursor, column: ColumnDefinition) -> ColumnDefinition:
    by_default = cursor.takes("BY", "DEFAULT")
    if not by_default:
        cursor.expect("ALWAYS")
    cursor.expect("AS")
    if not cursor.takes("IDENTITY"):
        if by_default:
            raise cursor.unexpected("IDENTITY")
        return dataclasses.replace(column, generated=cursor.parenthesized("an expression"))
    numbers = {"START": 1, "INCREMENT": 1}
    if cursor.takes_symbol("("):
        while cursor.sees("START|INCREMENT"):
            which = cursor.name().upper()
            cursor.expect("WITH" if which == "START" else "BY")
            numbers[which] = cursor.integer()
            cursor.takes_symbol(",")
        cursor.expect_symbol(")")
    identity = Identity(start=numbers["START"], step=numbers["INCREMENT"], allow_explicit=by_default)
    return dataclasses.replace(column, identity=identity)
