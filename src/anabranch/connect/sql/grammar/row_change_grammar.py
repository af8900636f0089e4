"""MERGE INTO."""

from __future__ import annotations

import dataclasses
import enum

from anabranch.sql.grammar.clauses import Assignment, take_alias, take_assignments, take_value
from anabranch.sql.grammar.cursor import Cursor, Fragment, TableName


class Match(enum.Enum):
    """Which rows a clause is for."""

    MATCHED = "WHEN MATCHED"
    NOT_MATCHED = "WHEN NOT MATCHED"
    NOT_MATCHED_BY_SOURCE = "WHEN NOT MATCHED BY SOURCE"


class Action(enum.Enum):
    """What a clause does."""

    UPDATE = "UPDATE"
    DELETE = "DELETE"
    INSERT = "INSERT"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class MergeClause:
    """`WHEN … THEN …`."""

    match: Match
    condition: Fragment | None
    action: Action
    all_columns: bool = False
    """`*`: every column gets the value of the source's column of that name."""
    assignments: tuple[Assignment, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Merge:
    """`MERGE INTO`."""

    table: TableName
    alias: str | None
    evolves: bool
    source: Fragment
    """As it may stand after FROM, with its alias."""
    source_alias: str | None
    condition: Fragment
    clauses: tuple[MergeClause, ...]


def parse_merge(cursor: Cursor) -> Merge:
    """`MERGE [WITH SCHEMA EVOLUTION] INTO t [[AS] alias] USING source [[AS] alias] ON condition WHEN …`."""
    cursor.expect("MERGE")
    evolves = cursor.takes("WITH", "SCHEMA", "EVOLUTION")
    cursor.expect("INTO")
    table = cursor.table()
    alias = take_alias(cursor, "USING")
    cursor.expect("USING")
    source, source_alias = _take_source(cursor)
    cursor.expect("ON")
    condition = cursor.until(lambda: _sees_clause(cursor), "a condition")
    clauses = [_clause(cursor)]
    while not cursor.is_at_end:
        clauses.append(_clause(cursor))
    return Merge(
        table=table,
        alias=alias,
        evolves=evolves,
        source=source,
        source_alias=source_alias,
        condition=condition,
        clauses=tuple(clauses),
    )


def _take_source(cursor: Cursor) -> tuple[Fragment, str | None]:
    """The source and what the statement calls it."""
    first = cursor.at
    name = None
    if cursor.sees_symbol("("):
        cursor.skip_parenthesized()
    else:
        table = cursor.table()
        name = table.parts[-1] if table.parts else None
        if cursor.sees_symbol("("):
            cursor.skip_parenthesized()
        elif cursor.sees("FOR") or cursor.sees("VERSION|TIMESTAMP|SYSTEM_VERSION|SYSTEM_TIME", "AS", "OF"):
            _skip_time_travel(cursor)
    alias = take_alias(cursor, "ON")
    if alias is not None and cursor.sees_symbol("("):
        cursor.skip_parenthesized()
    if cursor.at == first:
        raise cursor.unexpected("the source: the name of a table, or a query in parentheses")
    return Fragment(cursor.text, cursor.tokens[first].start, cursor.end_of_last), alias or name


def _skip_time_travel(cursor: Cursor) -> None:
    cursor.takes("FOR")
    cursor.at += 3
    cursor.until(lambda: cursor.sees("ON") or cursor.sees("AS") or _ends_operand(cursor))


def _ends_operand(cursor: Cursor) -> bool:
    """Whether an alias comes: a name right behind a string, a number or a parenthesis."""
    before, token = cursor.peek(-1), cursor.peek()
    assert before is not None
    return token is not None and token.is_name and (before.text[-1:] in "'\")" or before.text.isdecimal())


def _sees_clause(cursor: Cursor) -> bool:
    return cursor.sees("WHEN", "MATCHED") or cursor.sees("WHEN", "NOT", "MATCHED")


def _clause(cursor: Cursor) -> MergeClause:
    cursor.expect("WHEN")
    match = _match(cursor)
    condition = None
    if cursor.takes("AND"):
        condition = cursor.until(lambda: cursor.sees("THEN"), "a condition")
    cursor.expect("THEN")
    if match is Match.NOT_MATCHED:
        cursor.expect("INSERT")
        return _insertion(cursor, match, condition)
    if cursor.takes("DELETE"):
        return MergeClause(match=match, condition=condition, action=Action.DELETE)
    if not cursor.takes("UPDATE"):
        raise cursor.unexpected("UPDATE SET or DELETE")
    cursor.expect("SET")
    if cursor.sees_symbol("*") and match is Match.MATCHED:
        cursor.at += 1
        return MergeClause(match=match, condition=condition, action=Action.UPDATE, all_columns=True)
    assignments = take_assignments(cursor, "WHEN")
    return MergeClause(match=match, condition=condition, action=Action.UPDATE, assignments=assignments)


def _match(cursor: Cursor) -> Match:
    if cursor.takes("MATCHED"):
        return Match.MATCHED
    cursor.expect("NOT", "MATCHED")
    if cursor.takes("BY", "SOURCE"):
        return Match.NOT_MATCHED_BY_SOURCE
    if cursor.takes("BY"):
        cursor.expect("TARGET")
    return Match.NOT_MATCHED


def _insertion(cursor: Cursor, match: Match, condition: Fragment | None) -> MergeClause:
    if cursor.takes_symbol("*"):
        return MergeClause(match=match, condition=condition, action=Action.INSERT, all_columns=True)
    cursor.expect_symbol("(")
    columns = cursor.paths()
    cursor.expect_symbol(")")
    cursor.expect("VALUES")
    values: list[Fragment | None] = []
    cursor.listed(lambda: values.append(take_value(cursor)))
    if len(values) != len(columns):
        cursor.at -= 1
        raise cursor.unexpected(f"{len(columns)} values, one for each column, instead of {len(values)}")
    assignments = tuple(Assignment(column=column, value=value) for column, value in zip(columns, values, strict=True))
    return MergeClause(match=match, condition=condition, action=Action.INSERT, assignments=assignments)


# UPDATE, DELETE, TRUNCATE TABLE.


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    """`DELETE FROM`."""

    table: TableName
    alias: str | None
    condition: Fragment | None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """`UPDATE … SET`."""

    table: TableName
    alias: str | None
    assignments: tuple[Assignment, ...]
    condition: Fragment | None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Truncate:
    """`TRUNCATE TABLE`."""

    table: TableName
    has_partition: bool


def parse_delete(cursor: Cursor) -> Delete:
    """`DELETE FROM t [[AS] alias] [WHERE condition]`."""
    cursor.expect("DELETE", "FROM")
    table = cursor.table()
    alias = take_alias(cursor, "WHERE")
    return Delete(table=table, alias=alias, condition=_take_where(cursor))


def parse_update(cursor: Cursor) -> Update:
    """`UPDATE t [[AS] alias] SET a = 1, … [WHERE condition]`."""
    cursor.expect("UPDATE")
    table = cursor.table()
    alias = take_alias(cursor, "SET")
    cursor.expect("SET")
    assignments = take_assignments(cursor, "WHERE")
    return Update(table=table, alias=alias, assignments=assignments, condition=_take_where(cursor))


def parse_truncate(cursor: Cursor) -> Truncate:
    """`TRUNCATE TABLE t [PARTITION (…)]`."""
    cursor.expect("TRUNCATE", "TABLE")
    table = cursor.table()
    has_partition = cursor.takes("PARTITION")
    if has_partition:
        cursor.parenthesized("a partition")
    cursor.expect_end()
    return Truncate(table=table, has_partition=has_partition)


def _take_where(cursor: Cursor) -> Fragment | None:
    if cursor.is_at_end:
        return None
    cursor.expect("WHERE")
    return cursor.rest("a condition")
