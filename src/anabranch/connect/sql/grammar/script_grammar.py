"""EXECUTE IMMEDIATE."""

from __future__ import annotations

import dataclasses

from anabranch.sql.grammar.cursor import Cursor, Fragment, TableName
from anabranch.sql.grammar.insert_grammar import Insert, parse_insert
from anabranch.sql.grammar.statement_grammar import StatementKind


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ExecuteImmediate:
    """`EXECUTE IMMEDIATE`."""

    text: Fragment
    """The expression that tells the statement."""
    into: tuple[str, ...]
    """Variables for the columns of its one row, as they are written."""
    values: tuple[tuple[Fragment, str | None], ...]
    """For its parameters, with their names if they have some."""


def parse_immediate(cursor: Cursor) -> ExecuteImmediate:
    """`EXECUTE IMMEDIATE text [INTO a, b] [USING value [AS name], …]`."""
    cursor.expect("EXECUTE", "IMMEDIATE")
    text = cursor.until(lambda: cursor.word() in {"INTO", "USING"})
    into: list[str] = []
    if cursor.takes("INTO"):
        into.append(_variable(cursor))
        while cursor.takes_symbol(","):
            into.append(_variable(cursor))
    values: list[tuple[Fragment, str | None]] = []
    if cursor.takes("USING"):
        # The parentheses around all values are not those of the first one.
        in_parentheses = cursor.sees_symbol("(") and cursor.tokens[-1].is_symbol(")") and _is_list(cursor)
        if in_parentheses:
            cursor.at += 1
        values.append(_value(cursor))
        while cursor.takes_symbol(","):
            values.append(_value(cursor))
        if in_parentheses:
            cursor.expect_symbol(")")
    cursor.expect_end()
    return ExecuteImmediate(text=text, into=tuple(into), values=tuple(values))


def _is_list(cursor: Cursor) -> bool:
    first = cursor.at
    cursor.skip_parenthesized()
    alone = cursor.is_at_end
    cursor.at = first
    return alone


def _variable(cursor: Cursor) -> str:
    first = cursor.peek()
    cursor.path("a variable")
    assert first is not None
    return cursor.text[first.start : cursor.end_of_last]


def _value(cursor: Cursor) -> tuple[Fragment, str | None]:
    value = cursor.until(lambda: cursor.sees_symbol(",") or cursor.sees("AS"), "a value")
    return value, cursor.name("a name") if cursor.takes("AS") else None


# `FROM … INSERT … INSERT …`.


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Inserts:
    """`FROM … INSERT … INSERT …`: each gets rows of its own from one source."""

    source: Fragment
    """FROM, and what stands behind it."""
    inserts: tuple[tuple[Fragment, Insert], ...]
    """As written, and as read."""


def parse_inserts(cursor: Cursor) -> Inserts:
    """All that stand behind the source, in order."""
    source = _take_source(cursor)
    found = []
    while not cursor.is_at_end:
        first = cursor.at
        cursor.expect("INSERT")
        written = cursor.until(lambda: cursor.sees("INSERT", "INTO|OVERWRITE"))
        written = Fragment(cursor.text, cursor.tokens[first].start, written.end)
        one = Cursor(cursor.text, cursor.tokens[first : cursor.at], statement=cursor.statement)
        found.append((written, parse_insert(one)))
    return Inserts(source=source, inserts=tuple(found))


def tables_of_inserts(cursor: Cursor) -> tuple[TableName, ...]:
    """What `FROM … INSERT … INSERT …` inserts into, those that can be told."""
    _take_source(cursor)
    found = []
    while cursor.takes("INSERT", "INTO|OVERWRITE"):
        cursor.takes("TABLE")
        found.append(cursor.table())
        if not cursor.is_at_end:
            cursor.until(lambda: cursor.sees("INSERT", "INTO|OVERWRITE"))
    return tuple(found)


def _take_source(cursor: Cursor) -> Fragment:
    return cursor.until(lambda: cursor.sees("INSERT", "INTO|OVERWRITE"))


MANY_INSERTS = StatementKind(name="INSERT", begins="FROM", parse=parse_inserts)
