"""Which statement a text is, and what it says.

Two steps, so that text for other tables is never judged: `opening_of` looks only as far as the name of the table;
`Opening.parse` reads the statement, and raises `SqlSyntaxError` where that cannot be done.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from anabranch.errors.sql import SqlSyntaxError
from anabranch.sql.grammar.cursor import Cursor, Fragment, TableName
from anabranch.sql.grammar.families import FAMILIES, Family, Statement
from anabranch.sql.grammar.inserts import parse_inserts, tables_of_inserts
from anabranch.sql.grammar.named_queries import take_named_queries
from anabranch.sql.grammar.table_definitions import provider_of
from anabranch.sql.grammar.tokens import Token, first_word
from anabranch.sql.grammar.views import view_provider

_BY_FIRST_WORD: dict[str, list[Family]] = {}
for _family in FAMILIES:
    for _word in _family.begins.split()[0].split("|"):
        _BY_FIRST_WORD.setdefault(_word, []).append(_family)
_FIRST_WORDS = _BY_FIRST_WORD.keys() | {"EXPLAIN", "WITH", "FROM"}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """How a statement begins."""

    family: Family
    table: TableName
    text: str
    tokens: Sequence[Token] = dataclasses.field(repr=False)
    begin: int
    """The token that the statement itself begins with, behind EXPLAIN and WITH."""
    explained: str | None = None
    """The words of an EXPLAIN that stands before the statement."""
    named_queries: Fragment | None = None
    """`WITH a AS (…)`, where it stands before the statement."""
    provider: str | None = None
    """What a statement that makes a table says after USING."""
    source: TableName | None = None
    """Of `CREATE TABLE … LIKE source`."""
    is_clone: bool = False
    source_of_many: Fragment | None = None
    """Of `FROM … INSERT … INSERT …`: what stands before the first INSERT."""
    targets: tuple[TableName, ...] = ()
    """What these insert into."""

    def parse(self) -> Statement:
        """What the statement says. Raises `SqlSyntaxError`."""
        cursor = Cursor(self.text, self.tokens, statement=self.family.name)
        cursor.at = self.begin
        if self.source_of_many is not None:
            return parse_inserts(cursor, self.source_of_many)
        return self.family.parse(cursor)


def opening_of(text: str) -> Opening | None:
    """How `text` begins, if it is one of our statements; None for queries and everything else."""
    if first_word(text) not in _FIRST_WORDS:
        return None
    try:
        return _opening(Cursor(text))
    except SqlSyntaxError:
        return None


def _opening(cursor: Cursor) -> Opening | None:
    explained = _explanation(cursor)
    named_queries = take_named_queries(cursor)
    source_of_many = None
    if cursor.sees("FROM"):
        source_of_many = cursor.until(lambda: cursor.sees("INSERT", "INTO|OVERWRITE"))
    begin = cursor.at
    for family in _BY_FIRST_WORD.get(cursor.word(), ()):
        cursor.at = begin
        table = family.table_of(cursor)
        if table is None:
            continue
        opening = Opening(
            family=family,
            table=table,
            text=cursor.text,
            tokens=cursor.tokens,
            begin=begin,
            explained=explained,
            named_queries=named_queries,
            source_of_many=source_of_many,
        )
        if source_of_many is not None:
            cursor.at = begin
            return dataclasses.replace(opening, targets=tables_of_inserts(cursor))
        if family.name == "CREATE VIEW":
            return dataclasses.replace(opening, provider=view_provider(cursor))
        return _with_format(cursor, opening) if family.makes_table else opening
    return None


def _explanation(cursor: Cursor) -> str | None:
    if not cursor.takes("EXPLAIN"):
        return None
    return f"EXPLAIN {cursor.name()}" if cursor.sees("LOGICAL|FORMATTED|EXTENDED|CODEGEN|COST") else "EXPLAIN"


def _with_format(cursor: Cursor, opening: Opening) -> Opening:
    """What tells the format of the table that the statement makes."""
    source = cursor.table() if cursor.takes("LIKE") else None
    is_clone = cursor.sees("CLONE") or cursor.sees("SHALLOW|DEEP", "CLONE")
    return dataclasses.replace(opening, source=source, is_clone=is_clone, provider=provider_of(cursor))
