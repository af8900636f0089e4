"""UPDATE, DELETE, TRUNCATE TABLE."""

from __future__ import annotations

import dataclasses

from anabranch.sql.grammar.clauses import Assignment, take_alias, take_assignments
from anabranch.sql.grammar.cursor import Cursor, Fragment, TableName


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
