"""`FROM … INSERT … INSERT …`."""

from __future__ import annotations

import dataclasses

from anabranch.sql.grammar.cursor import Cursor, Fragment, TableName
from anabranch.sql.grammar.families import Family
from anabranch.sql.grammar.inserts import Insert, parse_insert


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


MANY_INSERTS = Family(name="INSERT", begins="FROM", parse=parse_inserts)
