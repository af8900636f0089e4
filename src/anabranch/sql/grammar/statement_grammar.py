"""Which statement a text is, and what it says.

Two steps, so that text for other tables is never judged: `Grammar.header_of` looks only as far as the name of the
table; `StatementHeader.parse` reads the statement, and raises `SqlSyntaxError` where that cannot be done.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Self

from anabranch.errors.arguments import SqlSyntaxError
from anabranch.predicates.sql_lexer import Token, first_word
from anabranch.sql.grammar.alteration_grammar import parse_column_comment, parse_own_alter, take_table_of_column
from anabranch.sql.grammar.cursor import Cursor, Fragment, TableName
from anabranch.sql.grammar.definition_grammar import parse_create, provider_of
from anabranch.sql.grammar.insert_grammar import parse_insert, take_named_queries
from anabranch.sql.grammar.maintenance_grammar import (
    parse_convert,
    parse_describe_detail,
    parse_describe_history,
    parse_generate,
    parse_optimize,
    parse_reorg,
    parse_restore,
    parse_vacuum,
    take_table_or_path,
)

# The families of statements: how each begins, and what reads it. Here are those that may be ours beside Spark's.


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class StatementKind:
    """Statements that begin alike."""

    name: str
    """What messages call them."""
    begins: str
    """The words before the table's name; `[…]` may be missing, of `A|B` one stands there, for `*` a name, for `'` a
    string."""
    parse: Callable[[Cursor], object]
    """What the statement says, as a value of its own class."""
    makes_table: bool = False
    """The format stands in the statement, not in the catalog."""
    take_table: Callable[[Cursor], TableName] = Cursor.table

    def table_of(self, cursor: Cursor) -> TableName | None:
        """The table's name, if the statement begins as those of the family do."""
        words = self.begins.split()
        place = 0
        while place < len(words):
            if words[place].startswith("["):
                last = next(at for at in range(place, len(words)) if words[at].endswith("]"))
                cursor.takes(*(word.strip("[]") for word in words[place : last + 1]))
                place = last
            elif words[place] == "*":
                cursor.name()
            elif words[place] == "'":
                cursor.string()
            elif not cursor.takes(words[place]):
                return None
            place += 1
        try:
            return self.take_table(cursor)
        except SqlSyntaxError:
            return None


OWN_FAMILIES = (
    StatementKind(name="INSERT", begins="INSERT [WITH SCHEMA EVOLUTION] INTO|OVERWRITE [TABLE]", parse=parse_insert),
    StatementKind(
        name="CREATE TABLE",
        begins="CREATE [OR REPLACE] [EXTERNAL] TABLE [IF NOT EXISTS]",
        parse=parse_create,
        makes_table=True,
    ),
    StatementKind(name="REPLACE TABLE", begins="REPLACE TABLE", parse=parse_create, makes_table=True),
    StatementKind(name="ALTER TABLE", begins="ALTER TABLE", parse=parse_own_alter),
    StatementKind(
        name="COMMENT ON COLUMN",
        begins="COMMENT ON COLUMN",
        parse=parse_column_comment,
        take_table=take_table_of_column,
    ),
    StatementKind(name="OPTIMIZE", begins="OPTIMIZE", parse=parse_optimize, take_table=take_table_or_path),
    StatementKind(name="REORG TABLE", begins="REORG TABLE", parse=parse_reorg),
    StatementKind(name="VACUUM", begins="VACUUM", parse=parse_vacuum, take_table=take_table_or_path),
    StatementKind(name="RESTORE", begins="RESTORE [TABLE]", parse=parse_restore),
    StatementKind(name="CONVERT TO DELTA", begins="CONVERT TO DELTA", parse=parse_convert),
    StatementKind(name="GENERATE", begins="GENERATE * FOR TABLE", parse=parse_generate),
    StatementKind(
        name="DESCRIBE DETAIL",
        begins="DESC|DESCRIBE DETAIL",
        parse=parse_describe_detail,
        take_table=take_table_or_path,
    ),
    StatementKind(
        name="DESCRIBE HISTORY",
        begins="DESC|DESCRIBE HISTORY",
        parse=parse_describe_history,
        take_table=take_table_or_path,
    ),
)
"""Each has statements that some release of Spark cannot parse."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class StatementHeader:
    """How a statement begins."""

    family: StatementKind
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

    def parse(self) -> object:
        """What the statement says. Raises `SqlSyntaxError`."""
        cursor = Cursor(self.text, self.tokens, statement=self.family.name)
        cursor.at = self.begin
        return self.family.parse(cursor)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Grammar:
    """Some families of statements, by the first word. Of those that begin with the same words the first counts."""

    by_first_word: Mapping[str, Sequence[StatementKind]]

    @classmethod
    def of(cls, families: Iterable[StatementKind]) -> Self:
        """The grammar of these families."""
        found: dict[str, list[StatementKind]] = {}
        for family in families:
            for word in family.begins.split()[0].split("|"):
                found.setdefault(word, []).append(family)
        return cls(by_first_word=found)

    def header_of(self, text: str) -> StatementHeader | None:
        """How `text` begins, if it is a statement of these families; None for queries and everything else."""
        word = first_word(text)
        if word not in self.by_first_word and word not in {"EXPLAIN", "WITH"}:
            return None
        try:
            return self._opening(Cursor(text))
        except SqlSyntaxError:
            return None

    def _opening(self, cursor: Cursor) -> StatementHeader | None:
        explained = take_explanation(cursor)
        named_queries = take_named_queries(cursor)
        begin = cursor.at
        for family in self.by_first_word.get(cursor.word(), ()):
            cursor.at = begin
            table = family.table_of(cursor)
            if table is None:
                continue
            opening = StatementHeader(
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
            return opening
        return None


def header_of(text: str) -> StatementHeader | None:
    """How `text` begins, if it is of a family that has statements of ours."""
    return _OWN.header_of(text)


def take_explanation(cursor: Cursor) -> str | None:
    """Take EXPLAIN and the word that says how; give them, or None where there is no EXPLAIN."""
    if not cursor.takes("EXPLAIN"):
        return None
    return f"EXPLAIN {cursor.name()}" if cursor.sees("LOGICAL|FORMATTED|EXTENDED|CODEGEN|COST") else "EXPLAIN"


def _with_format(cursor: Cursor, opening: StatementHeader) -> StatementHeader:
    """What tells the format of the table that the statement makes."""
    source = cursor.table() if cursor.takes("LIKE") else None
    is_clone = cursor.sees("CLONE") or cursor.sees("SHALLOW|DEEP", "CLONE")
    return dataclasses.replace(opening, source=source, is_clone=is_clone, provider=provider_of(cursor))


_OWN = Grammar.of(OWN_FAMILIES)
