"""Which statement a text is, and what it says.

Two steps, so that text for other tables is never judged: `Grammar.opening_of` looks only as far as the name of the
table; `Opening.parse` reads the statement, and raises `SqlSyntaxError` where that cannot be done.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Self

from anabranch.errors.sql import SqlSyntaxError
from anabranch.predicates.sql_tokens import Token, first_word
from anabranch.sql.grammar.cursor import Cursor, Fragment, TableName
from anabranch.sql.grammar.families import OWN_FAMILIES, Family
from anabranch.sql.grammar.named_queries import take_named_queries
from anabranch.sql.grammar.table_definitions import provider_of


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
    """What a statement that makes a table or a view says after USING."""
    source: TableName | None = None
    """Of `CREATE TABLE … LIKE source`."""
    is_clone: bool = False
    targets: tuple[TableName, ...] = ()
    """What several INSERTs behind one FROM insert into."""

    def parse(self) -> object:
        """What the statement says. Raises `SqlSyntaxError`."""
        cursor = Cursor(self.text, self.tokens, statement=self.family.name)
        cursor.at = self.begin
        return self.family.parse(cursor)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Grammar:
    """Some families of statements, by the first word. Of those that begin with the same words the first counts."""

    by_first_word: Mapping[str, Sequence[Family]]

    @classmethod
    def of(cls, families: Iterable[Family]) -> Self:
        """The grammar of these families."""
        found: dict[str, list[Family]] = {}
        for family in families:
            for word in family.begins.split()[0].split("|"):
                found.setdefault(word, []).append(family)
        return cls(by_first_word=found)

    def opening_of(self, text: str) -> Opening | None:
        """How `text` begins, if it is a statement of these families; None for queries and everything else."""
        word = first_word(text)
        if word not in self.by_first_word and word not in {"EXPLAIN", "WITH"}:
            return None
        try:
            return self._opening(Cursor(text))
        except SqlSyntaxError:
            return None

    def _opening(self, cursor: Cursor) -> Opening | None:
        explained = take_explanation(cursor)
        named_queries = take_named_queries(cursor)
        begin = cursor.at
        for family in self.by_first_word.get(cursor.word(), ()):
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
            )
            if family.makes_table:
                return _with_format(cursor, opening)
            return dataclasses.replace(opening, provider=family.provider_of(cursor))
        return None


def opening_of(text: str) -> Opening | None:
    """How `text` begins, if it is of a family that has statements of ours."""
    return _OWN.opening_of(text)


def take_explanation(cursor: Cursor) -> str | None:
    """Take EXPLAIN and the word that says how; give them, or None where there is no EXPLAIN."""
    if not cursor.takes("EXPLAIN"):
        return None
    return f"EXPLAIN {cursor.name()}" if cursor.sees("LOGICAL|FORMATTED|EXTENDED|CODEGEN|COST") else "EXPLAIN"


def _with_format(cursor: Cursor, opening: Opening) -> Opening:
    """What tells the format of the table that the statement makes."""
    source = cursor.table() if cursor.takes("LIKE") else None
    is_clone = cursor.sees("CLONE") or cursor.sees("SHALLOW|DEEP", "CLONE")
    return dataclasses.replace(opening, source=source, is_clone=is_clone, provider=provider_of(cursor))


_OWN = Grammar.of(OWN_FAMILIES)
