"""Which statement a text is, of all that work on Delta tables."""

from __future__ import annotations

from anabranch.connect.sql.grammar.families import FAMILIES
from anabranch.connect.sql.grammar.many_inserts import MANY_INSERTS, tables_of_inserts
from anabranch.errors.sql import SqlSyntaxError
from anabranch.predicates.sql_tokens import first_word
from anabranch.sql.grammar.cursor import Cursor
from anabranch.sql.grammar.named_queries import take_named_queries
from anabranch.sql.grammar.statements import Grammar, Opening, take_explanation

_GRAMMAR = Grammar.of(FAMILIES)


def opening_of(text: str) -> Opening | None:
    """How `text` begins, if it is one of these statements; None for queries and everything else."""
    found = _GRAMMAR.opening_of(text)
    if found is not None or first_word(text) not in {"EXPLAIN", "WITH", "FROM"}:
        return found
    try:
        return _opening_of_many(Cursor(text))
    except SqlSyntaxError:
        return None


def _opening_of_many(cursor: Cursor) -> Opening | None:
    """`FROM … INSERT … INSERT …`."""
    explained = take_explanation(cursor)
    named_queries = take_named_queries(cursor)
    begin = cursor.at
    if not cursor.sees("FROM"):
        return None
    tables = tables_of_inserts(cursor)
    if not tables:
        return None
    return Opening(
        family=MANY_INSERTS,
        table=tables[0],
        text=cursor.text,
        tokens=cursor.tokens,
        begin=begin,
        explained=explained,
        named_queries=named_queries,
        targets=tables,
    )
