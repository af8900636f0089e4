"""CREATE TABLE, REPLACE TABLE."""

from __future__ import annotations

import dataclasses

from anabranch.sql.grammar.clauses import Check, ColumnDefinition, Properties, take_check, take_column, take_properties
from anabranch.sql.grammar.cursor import Cursor, Fragment, TableName

_NOT_FOR_DELTA = {
    "CLUSTERED": "CLUSTERED BY",
    "SORTED": "SORTED BY",
    "SKEWED": "SKEWED BY",
    "ROW": "ROW FORMAT",
    "STORED": "STORED AS",
}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TableClauses:
    """The clauses of a new table after its columns."""

    provider: str | None = None
    partition_columns: tuple[ColumnDefinition | str, ...] = ()
    """Partition columns: a definition where the column is defined here alone, otherwise a name."""
    clustering_columns: tuple[tuple[str, ...], ...] = ()
    location: str | None = None
    comment: str | None = None
    properties: Properties = ()
    options: Properties = ()
    unsupported: str | None = None
    """A clause that Delta tables do not have."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CreateTable:
    """`CREATE [OR REPLACE] TABLE …`, `REPLACE TABLE …`, with or without a query."""

    table: TableName
    creates: bool
    replaces: bool
    if_not_exists: bool
    columns: tuple[ColumnDefinition, ...]
    checks: tuple[Check, ...]
    clauses: TableClauses
    query: Fragment | None
    unsupported: str | None = None
    """A constraint of the columns that Delta does not have."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CreateTableLike:
    """`CREATE TABLE … LIKE …`."""

    table: TableName
    if_not_exists: bool
    source: TableName
    clauses: TableClauses


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CloneTable:
    """`CREATE TABLE … CLONE …`."""

    table: TableName
    creates: bool
    replaces: bool
    if_not_exists: bool
    is_shallow: bool
    source: TableName
    time_travel: Fragment | None
    clauses: TableClauses


def parse_create(cursor: Cursor) -> CreateTable | CreateTableLike | CloneTable:
    """Parse a statement that begins with CREATE or REPLACE."""
    creates = cursor.takes("CREATE")
    replaces = cursor.takes("OR", "REPLACE") if creates else cursor.takes("REPLACE")
    cursor.takes("EXTERNAL")
    cursor.expect("TABLE")
    if_not_exists = creates and not replaces and cursor.takes("IF", "NOT", "EXISTS")
    table = cursor.table()
    if cursor.takes("LIKE"):
        source = cursor.table()
        clauses = _take_clauses(cursor)
        cursor.expect_end()
        return CreateTableLike(table=table, if_not_exists=if_not_exists, source=source, clauses=clauses)
    if cursor.sees("SHALLOW|DEEP", "CLONE") or cursor.sees("CLONE"):
        is_shallow = cursor.takes("SHALLOW")
        cursor.takes("DEEP")
        cursor.expect("CLONE")
        source = cursor.table()
        travel = _take_time_travel(cursor)
        clauses = _take_clauses(cursor)
        cursor.expect_end()
        return CloneTable(
            table=table,
            creates=creates,
            replaces=replaces,
            if_not_exists=if_not_exists,
            is_shallow=is_shallow,
            source=source,
            time_travel=travel,
            clauses=clauses,
        )
    defined = _Columns()
    if cursor.sees_symbol("(") and not (cursor.sees_symbol("(", 1) or cursor.word(1) in {"SELECT", "WITH"}):
        cursor.listed(lambda: defined.take(cursor))
    clauses = _take_clauses(cursor)
    return CreateTable(
        table=table,
        creates=creates,
        replaces=replaces,
        if_not_exists=if_not_exists,
        columns=tuple(defined.columns),
        checks=tuple(defined.checks),
        clauses=clauses,
        query=_take_query(cursor),
        unsupported=defined.unsupported,
    )


def provider_of(cursor: Cursor) -> str | None:
    """The format after USING in a CREATE or REPLACE statement; `hive` where it has clauses of Hive."""
    depth = 0
    while (token := cursor.peek()) is not None:
        depth += token.is_symbol("(") - token.is_symbol(")")
        cursor.at += 1
        if depth or token.is_symbol(")"):
            continue
        if token.word in {"AS", "SELECT", "WITH", "VALUES", "FROM"}:
            return None
        if token.word == "USING" and (name := cursor.peek()) is not None and name.is_name:
            return name.name.lower()
        if (token.word, cursor.word()) in {("STORED", "AS"), ("STORED", "BY"), ("ROW", "FORMAT")}:
            return "hive"
    return None


@dataclasses.dataclass(slots=True)
class _Columns:
    """The columns and constraints in parentheses."""

    columns: list[ColumnDefinition] = dataclasses.field(default_factory=list)
    checks: list[Check] = dataclasses.field(default_factory=list)
    unsupported: str | None = None

    def take(self, cursor: Cursor) -> None:
        named = cursor.sees("CONSTRAINT")
        kind = cursor.word(2 if named else 0)
        if (named or cursor.sees("PRIMARY|FOREIGN", "KEY") or cursor.sees("UNIQUE")) and kind in _KEYS:
            self.unsupported = _KEYS[kind]
            cursor.until(lambda: cursor.sees_symbol(","))
        elif named or (cursor.sees("CHECK") and cursor.sees_symbol("(", 1)):
            check = take_check(cursor)
            assert check is not None
            self.checks.append(check)
        else:
            column = take_column(cursor)
            self._take_key(cursor)
            self.checks += column.checks
            self.columns.append(column)

    def _take_key(self, cursor: Cursor) -> None:
        if cursor.word() in {"PRIMARY", "UNIQUE", "REFERENCES", "FOREIGN"}:
            self.unsupported = _KEYS[cursor.word()]
            cursor.until(lambda: cursor.sees_symbol(","))


_KEYS = {"PRIMARY": "PRIMARY KEY", "FOREIGN": "FOREIGN KEY", "UNIQUE": "UNIQUE", "REFERENCES": "REFERENCES"}


def _take_clauses(cursor: Cursor) -> TableClauses:
    clauses = TableClauses()
    while (changed := _with_clause(cursor, clauses)) is not None:
        clauses = changed
    return clauses


def _with_clause(cursor: Cursor, clauses: TableClauses) -> TableClauses | None:
    """The clauses with the next one; None where there is none."""
    if cursor.takes("USING"):
        return dataclasses.replace(clauses, provider=".".join(cursor.path("a format")).lower())
    if cursor.takes("PARTITIONED", "BY"):
        columns: list[ColumnDefinition | str] = []
        cursor.listed(lambda: columns.append(_partition_column(cursor)))
        return dataclasses.replace(clauses, partition_columns=tuple(columns))
    if cursor.takes("CLUSTER", "BY"):
        cursor.expect_symbol("(")
        paths = cursor.paths()
        cursor.expect_symbol(")")
        return dataclasses.replace(clauses, clustering_columns=paths)
    if cursor.takes("LOCATION"):
        return dataclasses.replace(clauses, location=cursor.string("a location"))
    if cursor.takes("COMMENT"):
        return dataclasses.replace(clauses, comment=cursor.string("a comment"))
    if cursor.takes("TBLPROPERTIES"):
        return dataclasses.replace(clauses, properties=(*clauses.properties, *take_properties(cursor)))
    if cursor.takes("OPTIONS"):
        return dataclasses.replace(clauses, options=(*clauses.options, *take_properties(cursor)))
    if cursor.word() in _NOT_FOR_DELTA:
        clause = _NOT_FOR_DELTA[cursor.word()]
        cursor.until(lambda: cursor.sees("AS") or cursor.word() in _CLAUSE_STARTS)
        return dataclasses.replace(clauses, unsupported=clause)
    return None


_CLAUSE_STARTS = {"USING", "PARTITIONED", "CLUSTER", "LOCATION", "COMMENT", "TBLPROPERTIES", "OPTIONS"}


def _partition_column(cursor: Cursor) -> ColumnDefinition | str:
    if cursor.sees_symbol(",", 1) or cursor.sees_symbol(")", 1):
        return cursor.name("a column")
    if cursor.sees_symbol("(", 1):
        raise cursor.unexpected("a column; functions of columns are not for Delta tables, use a generated column")
    return take_column(cursor)


def _take_query(cursor: Cursor) -> Fragment | None:
    explicit = cursor.takes("AS")
    if not explicit and cursor.is_at_end:
        return None
    if not cursor.sees_query():
        raise cursor.unexpected(
            "a query" if explicit else "a clause of CREATE TABLE, AS and a query, or the end of the statement"
        )
    return cursor.rest("a query")


def _take_time_travel(cursor: Cursor) -> Fragment | None:
    if not cursor.sees("FOR") and not cursor.sees("VERSION|TIMESTAMP|SYSTEM_VERSION|SYSTEM_TIME", "AS", "OF"):
        return None
    return cursor.until(lambda: cursor.word() in _CLAUSE_STARTS)
