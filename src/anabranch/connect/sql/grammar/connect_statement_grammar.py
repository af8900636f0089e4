"""Which statement a text is, of all that work on Delta tables."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from anabranch.connect.sql.grammar.connect_alteration_grammar import parse_alter, parse_comment
from anabranch.connect.sql.grammar.connect_description_grammar import (
    parse_describe_table,
    parse_drop,
    parse_show_columns,
    parse_show_create_table,
    parse_show_partitions,
    parse_show_properties,
    take_table_of_columns,
)
from anabranch.connect.sql.grammar.row_change_grammar import parse_delete, parse_merge, parse_truncate, parse_update
from anabranch.connect.sql.grammar.script_grammar import MANY_INSERTS, tables_of_inserts
from anabranch.connect.sql.grammar.view_grammar import (
    parse_alter_view,
    parse_cache,
    parse_create_view,
    parse_refresh,
    parse_uncache,
    view_provider,
)
from anabranch.errors.arguments import SqlSyntaxError
from anabranch.predicates.sql_lexer import first_word
from anabranch.sql.grammar.cursor import Cursor
from anabranch.sql.grammar.insert_grammar import take_named_queries
from anabranch.sql.grammar.statement_grammar import (
    OWN_FAMILIES,
    Grammar,
    StatementHeader,
    StatementKind,
    take_explanation,
)

# Statements that other tables have, and Delta tables have not.


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Unsupported:
    """A statement that is refused by name."""

    name: str
    instead: str


def unsupported(name: str, instead: str) -> Callable[[Cursor], Unsupported]:
    """Reads no further than it must: whatever the statement says, it is refused."""

    def parse(_: Cursor) -> Unsupported:
        return Unsupported(name=name, instead=instead)

    return parse


# All families of statements that work on Delta tables, or that Delta tables have not.


FAMILIES = (
    *(
        dataclasses.replace(family, parse=parse_alter) if family.name == "ALTER TABLE" else family
        for family in OWN_FAMILIES
    ),
    StatementKind(name="DELETE", begins="DELETE FROM", parse=parse_delete),
    StatementKind(name="UPDATE", begins="UPDATE", parse=parse_update),
    StatementKind(name="MERGE", begins="MERGE [WITH SCHEMA EVOLUTION] INTO", parse=parse_merge),
    StatementKind(name="TRUNCATE TABLE", begins="TRUNCATE TABLE", parse=parse_truncate),
    StatementKind(name="DROP TABLE", begins="DROP TABLE [IF EXISTS]", parse=parse_drop),
    StatementKind(name="COMMENT ON TABLE", begins="COMMENT ON TABLE", parse=parse_comment),
    StatementKind(
        name="DESCRIBE TABLE", begins="DESC|DESCRIBE [TABLE] [EXTENDED|FORMATTED]", parse=parse_describe_table
    ),
    StatementKind(name="SHOW TBLPROPERTIES", begins="SHOW TBLPROPERTIES", parse=parse_show_properties),
    StatementKind(
        name="SHOW COLUMNS", begins="SHOW COLUMNS FROM|IN", parse=parse_show_columns, take_table=take_table_of_columns
    ),
    StatementKind(name="SHOW PARTITIONS", begins="SHOW PARTITIONS", parse=parse_show_partitions),
    StatementKind(name="SHOW CREATE TABLE", begins="SHOW CREATE TABLE", parse=parse_show_create_table),
    StatementKind(
        name="CREATE VIEW",
        begins="CREATE [OR REPLACE] [GLOBAL] [TEMP|TEMPORARY] VIEW [IF NOT EXISTS]",
        parse=parse_create_view,
        reads=True,
        provider_of=view_provider,
    ),
    StatementKind(name="ALTER VIEW", begins="ALTER VIEW", parse=parse_alter_view, reads=True),
    StatementKind(name="CACHE TABLE", begins="CACHE [LAZY] TABLE", parse=parse_cache, reads=True),
    StatementKind(name="UNCACHE TABLE", begins="UNCACHE TABLE [IF EXISTS]", parse=parse_uncache, reads=True),
    StatementKind(name="REFRESH TABLE", begins="REFRESH TABLE", parse=parse_refresh, reads=True),
    *(
        StatementKind(name=name, begins=begins, parse=unsupported(name, instead))
        for name, begins, instead in (
            ("ANALYZE TABLE", "ANALYZE TABLE", "The log has statistics of every file already."),
            ("MSCK REPAIR TABLE", "MSCK REPAIR TABLE", "The log knows all partitions."),
            ("REPAIR TABLE", "REPAIR TABLE", "The log knows all partitions."),
            ("LOAD DATA", "LOAD DATA [LOCAL] INPATH ' [OVERWRITE] INTO TABLE", "Use INSERT INTO with a query."),
            ("CREATE INDEX", "CREATE INDEX [IF NOT EXISTS] * ON [TABLE]", "Use OPTIMIZE … ZORDER BY."),
            ("DROP INDEX", "DROP INDEX [IF EXISTS] * ON [TABLE]", "There are no indexes."),
        )
    ),
)
"""Of those that begin with the same words, the one that says more comes first."""


_GRAMMAR = Grammar.of(FAMILIES)


def header_of(text: str) -> StatementHeader | None:
    """How `text` begins, if it is one of these statements; None for queries and everything else."""
    found = _GRAMMAR.header_of(text)
    if found is not None or first_word(text) not in {"EXPLAIN", "WITH", "FROM"}:
        return found
    try:
        return _opening_of_many(Cursor(text))
    except SqlSyntaxError:
        return None


def _opening_of_many(cursor: Cursor) -> StatementHeader | None:
    """`FROM … INSERT … INSERT …`."""
    explained = take_explanation(cursor)
    named_queries = take_named_queries(cursor)
    begin = cursor.at
    if not cursor.sees("FROM"):
        return None
    tables = tables_of_inserts(cursor)
    if not tables:
        return None
    return StatementHeader(
        family=MANY_INSERTS,
        table=tables[0],
        text=cursor.text,
        tokens=cursor.tokens,
        begin=begin,
        explained=explained,
        named_queries=named_queries,
        targets=tables,
    )
