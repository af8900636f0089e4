"""DESCRIBE TABLE and SHOW."""

from __future__ import annotations

import dataclasses

from anabranch.sql.grammar.clauses import take_property_key
from anabranch.sql.grammar.cursor import Cursor, Fragment, TableName


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class DescribeTable:
    """`DESCRIBE [TABLE] [EXTENDED] t [column]`."""

    table: TableName
    extended: bool
    column: tuple[str, ...] | None
    as_json: bool = False
    unsupported: str | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ShowProperties:
    """`SHOW TBLPROPERTIES`."""

    table: TableName
    key: str | None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ShowColumns:
    """`SHOW COLUMNS`."""

    table: TableName


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ShowPartitions:
    """`SHOW PARTITIONS`."""

    table: TableName
    partition: tuple[tuple[str, Fragment], ...]
    """Columns and values that the partitions shown have."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ShowCreateTable:
    """`SHOW CREATE TABLE`."""

    table: TableName


def parse_describe_table(cursor: Cursor) -> DescribeTable:
    """`DESCRIBE [TABLE] [EXTENDED | FORMATTED] t [column] [AS JSON]`."""
    cursor.expect("DESC|DESCRIBE")
    cursor.takes("TABLE")
    extended = cursor.takes("EXTENDED|FORMATTED")
    table = cursor.table()
    if cursor.sees("PARTITION"):
        return DescribeTable(table=table, extended=extended, column=None, unsupported="PARTITION")
    column = None if cursor.is_at_end or cursor.sees("AS", "JSON") else cursor.path()
    as_json = cursor.takes("AS", "JSON")
    cursor.expect_end()
    return DescribeTable(table=table, extended=extended, column=column, as_json=as_json)


def parse_show_properties(cursor: Cursor) -> ShowProperties:
    """`SHOW TBLPROPERTIES t [(key)]`."""
    cursor.expect("SHOW", "TBLPROPERTIES")
    table = cursor.table()
    key = None
    if cursor.takes_symbol("("):
        key = take_property_key(cursor)
        cursor.expect_symbol(")")
    cursor.expect_end()
    return ShowProperties(table=table, key=key)


def parse_show_columns(cursor: Cursor) -> ShowColumns:
    """`SHOW COLUMNS {FROM | IN} t [{FROM | IN} schema]`."""
    cursor.expect("SHOW", "COLUMNS", "FROM|IN")
    table = take_table_of_columns(cursor)
    cursor.expect_end()
    return ShowColumns(table=table)


def take_table_of_columns(cursor: Cursor) -> TableName:
    """Take `t`, `schema.t` or `t {FROM | IN} schema`."""
    table = cursor.table()
    if table.parts and cursor.takes("FROM|IN"):
        schema = cursor.path("the name of a schema")
        table = TableName((*schema, table.parts[-1]), table.start, cursor.end_of_last)
    return table


def parse_show_partitions(cursor: Cursor) -> ShowPartitions:
    """`SHOW PARTITIONS t [PARTITION (a = 1, …)]`."""
    cursor.expect("SHOW", "PARTITIONS")
    table = cursor.table()
    found: list[tuple[str, Fragment]] = []

    def read() -> None:
        column = cursor.name("a partition column")
        cursor.expect_symbol("=")
        found.append((column, cursor.until(lambda: cursor.sees_symbol(","), "a constant")))

    if cursor.takes("PARTITION"):
        cursor.listed(read)
    cursor.expect_end()
    return ShowPartitions(table=table, partition=tuple(found))


def parse_show_create_table(cursor: Cursor) -> ShowCreateTable:
    """`SHOW CREATE TABLE t`."""
    cursor.expect("SHOW", "CREATE", "TABLE")
    table = cursor.table()
    cursor.takes("AS", "SERDE")
    cursor.expect_end()
    return ShowCreateTable(table=table)


# DROP TABLE.


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class DropTable:
    """`DROP TABLE`."""

    table: TableName
    if_exists: bool


def parse_drop(cursor: Cursor) -> DropTable:
    """`DROP TABLE [IF EXISTS] t [PURGE]`."""
    cursor.expect("DROP", "TABLE")
    if_exists = cursor.takes("IF", "EXISTS")
    table = cursor.table()
    cursor.takes("PURGE")
    cursor.expect_end()
    return DropTable(table=table, if_exists=if_exists)
