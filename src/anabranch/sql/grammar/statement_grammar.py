"""The grammar of statements, in two steps.

`Grammar.header_of` reads only up to the name of the table, so that statements for other tables raise no errors here.
`StatementHeader.parse` reads the whole statement, and raises `SqlSyntaxError` where it cannot.
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


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class StatementKind:
    """Statements with the same first words."""

    name: str
    """The name in messages."""
    begins: str
    """The words before the table's name: `[…]` is optional, `A|B` an alternative, `*` a name, `'` a string."""
    parse: Callable[[Cursor], object]
    """Reads the statement as a value of its own class."""
    makes_table: bool = False
    """Whether the format is in the statement instead of the catalog."""
    take_table: Callable[[Cursor], TableName] = Cursor.table

    def table_of(self, cursor: Cursor) -> TableName | None:
        """The table's name, if the statement begins with the words of the family."""
        words = self.begins.split()
        index = 0
        while index < len(words):
            if words[index].startswith("["):
                last = next(at for at in range(index, len(words)) if words[at].endswith("]"))
                cursor.takes(*(word.strip("[]") for word in words[index : last + 1]))
                index = last
            elif words[index] == "*":
                cursor.name()
            elif words[index] == "'":
                cursor.string()
            elif not cursor.takes(words[index]):
                return None
            index += 1
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
"""Families with statements that some release of Spark cannot parse."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class StatementHeader:
    """The first part of a statement, up to the name of its table."""

    family: StatementKind
    table: TableName
    text: str
    tokens: Sequence[Token] = dataclasses.field(repr=False)
    begin: int
    """The index of the first token of the statement itself, after EXPLAIN and WITH."""
    explained: str | None = None
    """The words of an EXPLAIN before the statement."""
    named_queries: Fragment | None = None
    """`WITH a AS (…)` before the statement."""
    provider: str | None = None
    """The format after USING, in a statement that makes a table."""
    source: TableName | None = None
    """The source of `CREATE TABLE … LIKE source`."""
    is_clone: bool = False

    def parse(self) -> object:
        """Read the whole statement. Raises `SqlSyntaxError`."""
        cursor = Cursor(self.text, self.tokens, statement=self.family.name)
        cursor.at = self.begin
        return self.family.parse(cursor)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Grammar:
    """Families of statements by their first word. The first family that matches counts."""

    by_first_word: Mapping[str, Sequence[StatementKind]]

    @classmethod
    def of(cls, families: Iterable[StatementKind]) -> Self:
        """The grammar of these families."""
        by_first_word: dict[str, list[StatementKind]] = {}
        for family in families:
            for word in family.begins.split()[0].split("|"):
                by_first_word.setdefault(word, []).append(family)
        return cls(by_first_word=by_first_word)

    def header_of(self, text: str) -> StatementHeader | None:
        """The header of `text`, if it is a statement of these families; None for queries and everything else."""
        word = first_word(text)
        if word not in self.by_first_word and word not in {"EXPLAIN", "WITH"}:
            return None
        try:
            return self._header(Cursor(text))
        except SqlSyntaxError:
            return None

    def _header(self, cursor: Cursor) -> StatementHeader | None:
        explained = take_explanation(cursor)
        named_queries = take_named_queries(cursor)
        begin = cursor.at
        for family in self.by_first_word.get(cursor.word(), ()):
            cursor.at = begin
            table = family.table_of(cursor)
            if table is None:
                continue
            header = StatementHeader(
                family=family,
                table=table,
                text=cursor.text,
                tokens=cursor.tokens,
                begin=begin,
                explained=explained,
                named_queries=named_queries,
            )
            if family.makes_table:
                return _with_format(cursor, header)
            return header
        return None


def header_of(text: str) -> StatementHeader | None:
    """The header of `text`, if it is of a family with statements that some release of Spark cannot parse."""
    return _OWN.header_of(text)


def take_explanation(cursor: Cursor) -> str | None:
    """Take EXPLAIN and the word for its mode, and return them; None where there is no EXPLAIN."""
    if not cursor.takes("EXPLAIN"):
        return None
    return f"EXPLAIN {cursor.name()}" if cursor.sees("LOGICAL|FORMATTED|EXTENDED|CODEGEN|COST") else "EXPLAIN"


def _with_format(cursor: Cursor, header: StatementHeader) -> StatementHeader:
    """The header with the parts that say the format of the new table."""
    source = cursor.table() if cursor.takes("LIKE") else None
    is_clone = cursor.sees("CLONE") or cursor.sees("SHALLOW|DEEP", "CLONE")
    return dataclasses.replace(header, source=source, is_clone=is_clone, provider=provider_of(cursor))


_OWN = Grammar.of(OWN_FAMILIES)
