"""CREATE VIEW, ALTER VIEW … AS, CACHE TABLE, UNCACHE TABLE, REFRESH TABLE."""

from __future__ import annotations

import dataclasses

from anabranch.sql.grammar.clauses import Properties, take_properties
from anabranch.sql.grammar.cursor import Cursor, Fragment, TableName


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CreateView:
    """`CREATE [OR REPLACE] [[GLOBAL] TEMP] VIEW v … AS query`."""

    view: TableName
    replaces: bool
    is_temporary: bool
    is_global: bool
    if_not_exists: bool
    columns: tuple[tuple[str, str | None], ...]
    """Names and comments; empty where the view has the query's columns."""
    clauses: Fragment | None
    """What stands between the view's name and AS, as it is written."""
    evolves: bool
    query: Fragment


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CreateViewUsing:
    """`CREATE [OR REPLACE] [GLOBAL] TEMP VIEW v USING delta OPTIONS (path …)`."""

    view: TableName
    replaces: bool
    is_global: bool
    options: Properties


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class AlterView:
    """`ALTER VIEW v AS query`."""

    view: TableName
    query: Fragment


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CacheTable:
    """`CACHE TABLE`."""

    table: TableName
    is_lazy: bool
    options: Properties
    query: Fragment | None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class UncacheTable:
    """`UNCACHE TABLE`."""

    table: TableName
    if_exists: bool


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RefreshTable:
    """`REFRESH [TABLE]`."""

    table: TableName


def parse_create_view(cursor: Cursor) -> CreateView | CreateViewUsing:
    """`CREATE [OR REPLACE] [[GLOBAL] TEMP] VIEW [IF NOT EXISTS] v [(columns)] [clauses] {AS query | USING delta …}`."""
    cursor.expect("CREATE")
    replaces = cursor.takes("OR", "REPLACE")
    is_global = cursor.takes("GLOBAL")
    is_temporary = cursor.takes("TEMP|TEMPORARY")
    cursor.expect("VIEW")
    if_not_exists = not is_temporary and cursor.takes("IF", "NOT", "EXISTS")
    view = cursor.table()
    first = cursor.at
    columns = _take_columns(cursor)
    if is_temporary and cursor.takes("USING"):
        cursor.path("a format")
        options = take_properties(cursor) if cursor.takes("OPTIONS") else ()
        cursor.expect_end()
        return CreateViewUsing(view=view, replaces=replaces, is_global=is_global, options=options)
    evolves = False
    while not cursor.sees("AS"):
        evolves = _take_clause(cursor) or evolves
    clauses = None
    if cursor.at > first:
        clauses = Fragment(cursor.text, cursor.tokens[first].start, cursor.end_of_last)
    return CreateView(
        view=view,
        replaces=replaces,
        is_temporary=is_temporary,
        is_global=is_global,
        if_not_exists=if_not_exists,
        columns=columns,
        clauses=clauses,
        evolves=evolves,
        query=_take_query(cursor),
    )


def parse_alter_view(cursor: Cursor) -> AlterView:
    """`ALTER VIEW v [AS] query`."""
    cursor.expect("ALTER", "VIEW")
    return AlterView(view=cursor.table(), query=_take_query(cursor))


def parse_cache(cursor: Cursor) -> CacheTable:
    """`CACHE [LAZY] TABLE t [OPTIONS (…)] [[AS] query]`."""
    cursor.expect("CACHE")
    is_lazy = cursor.takes("LAZY")
    cursor.expect("TABLE")
    table = cursor.table()
    options = take_properties(cursor) if cursor.takes("OPTIONS") else ()
    query = None if cursor.is_at_end else _take_query(cursor)
    return CacheTable(table=table, is_lazy=is_lazy, options=options, query=query)


def parse_uncache(cursor: Cursor) -> UncacheTable:
    """`UNCACHE TABLE [IF EXISTS] t`."""
    cursor.expect("UNCACHE", "TABLE")
    if_exists = cursor.takes("IF", "EXISTS")
    table = cursor.table()
    cursor.expect_end()
    return UncacheTable(table=table, if_exists=if_exists)


def parse_refresh(cursor: Cursor) -> RefreshTable:
    """`REFRESH TABLE t`."""
    cursor.expect("REFRESH", "TABLE")
    table = cursor.table()
    cursor.expect_end()
    return RefreshTable(table=table)


def view_provider(cursor: Cursor) -> str | None:
    """What `CREATE TEMP VIEW v [(…)]` says after USING."""
    if cursor.sees_symbol("("):
        cursor.skip_parenthesized()
    return cursor.path()[-1].lower() if cursor.takes("USING") else None


def _take_columns(cursor: Cursor) -> tuple[tuple[str, str | None], ...]:
    found: list[tuple[str, str | None]] = []

    def read() -> None:
        name = cursor.name("a column")
        found.append((name, cursor.string("a comment") if cursor.takes("COMMENT") else None))

    if cursor.sees_symbol("("):
        cursor.listed(read)
    return tuple(found)


def _take_clause(cursor: Cursor) -> bool:
    """Take a clause; True if it lets the view's columns follow the query's."""
    if cursor.takes("COMMENT"):
        cursor.string("a comment")
    elif cursor.takes("TBLPROPERTIES"):
        take_properties(cursor)
    elif cursor.takes("PARTITIONED", "ON") or cursor.takes("DEFAULT", "COLLATION"):
        cursor.until(lambda: cursor.word() in {"AS", "COMMENT", "TBLPROPERTIES", "WITH"})
    elif cursor.takes("WITH", "SCHEMA"):
        evolves = cursor.takes("EVOLUTION")
        if not evolves and not cursor.takes("TYPE", "EVOLUTION"):
            cursor.expect("BINDING|COMPENSATION")
        return evolves
    else:
        raise cursor.unexpected("a clause of CREATE VIEW, or AS and a query")
    return False


def _take_query(cursor: Cursor) -> Fragment:
    cursor.takes("AS")
    if not cursor.sees_query():
        raise cursor.unexpected("a query")
    return cursor.rest("a query")
