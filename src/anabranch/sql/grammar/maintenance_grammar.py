"""OPTIMIZE, REORG TABLE, VACUUM, RESTORE, CONVERT TO DELTA, GENERATE."""

from __future__ import annotations

import dataclasses

from anabranch.predicates.sql_lexer import TokenKind
from anabranch.sql.grammar.cursor import Cursor, Fragment, TableName

_BY_PATH = "delta"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Optimize:
    """`OPTIMIZE`."""

    table: TableName
    full: bool
    condition: Fragment | None
    z_order: tuple[tuple[str, ...], ...]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Reorganize:
    """`REORG TABLE … APPLY (…)`."""

    table: TableName
    condition: Fragment | None
    iceberg_version: int | None
    """The version of UPGRADE UNIFORM; None for PURGE."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Vacuum:
    """`VACUUM`."""

    table: TableName
    lite: bool = False
    full: bool = False
    retain_hours: str | None = None
    inventory: Fragment | None = None
    """The name of a table, or a query in parentheses."""
    dry_run: bool = False


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Restore:
    """`RESTORE`."""

    table: TableName
    version: str | None
    timestamp: Fragment | None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Convert:
    """`CONVERT TO DELTA`."""

    table: TableName
    collects_statistics: bool
    partition_schema: Fragment | None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Generate:
    """`GENERATE … FOR TABLE`."""

    table: TableName
    mode: str


def take_table_or_path(cursor: Cursor) -> TableName:
    """Take the name of a table, or its folder as a string."""
    token = cursor.peek()
    if token is None or token.kind is not TokenKind.STRING:
        return cursor.table()
    path = cursor.string()
    return TableName((_BY_PATH, path), token.start, cursor.end_of_last, is_path=True)


def parse_optimize(cursor: Cursor) -> Optimize:
    """`OPTIMIZE {t | 'path'} [FULL] [WHERE condition] [ZORDER BY (columns)]`."""
    cursor.expect("OPTIMIZE")
    table = take_table_or_path(cursor)
    full = cursor.takes("FULL")
    condition = None
    if cursor.takes("WHERE"):
        condition = cursor.until(lambda: cursor.sees("ZORDER", "BY"), "a condition")
    z_order: tuple[tuple[str, ...], ...] = ()
    if cursor.takes("ZORDER", "BY"):
        in_parentheses = cursor.takes_symbol("(")
        z_order = cursor.paths()
        if in_parentheses:
            cursor.expect_symbol(")")
    cursor.expect_end()
    return Optimize(table=table, full=full, condition=condition, z_order=z_order)


def parse_reorg(cursor: Cursor) -> Reorganize:
    """`REORG TABLE t [WHERE condition] APPLY (PURGE | UPGRADE UNIFORM(ICEBERG_COMPAT_VERSION = n))`."""
    cursor.expect("REORG", "TABLE")
    table = cursor.table()
    condition = None
    if cursor.takes("WHERE"):
        condition = cursor.until(lambda: cursor.sees("APPLY") and cursor.sees_symbol("(", 1), "a condition")
    cursor.expect("APPLY")
    cursor.expect_symbol("(")
    version = None
    if not cursor.takes("PURGE"):
        cursor.expect("UPGRADE", "UNIFORM")
        cursor.expect_symbol("(")
        cursor.expect("ICEBERG_COMPAT_VERSION")
        cursor.expect_symbol("=")
        version = cursor.integer()
        cursor.expect_symbol(")")
    cursor.expect_symbol(")")
    cursor.expect_end()
    return Reorganize(table=table, condition=condition, iceberg_version=version)


def parse_vacuum(cursor: Cursor) -> Vacuum:
    """`VACUUM {t | 'path'} [LITE | FULL] [USING INVENTORY …] [RETAIN n HOURS] [DRY RUN]`, in any order."""
    cursor.expect("VACUUM")
    vacuum = Vacuum(table=take_table_or_path(cursor))
    while not cursor.is_at_end:
        if cursor.takes("LITE"):
            vacuum = dataclasses.replace(vacuum, lite=True)
        elif cursor.takes("FULL"):
            vacuum = dataclasses.replace(vacuum, full=True)
        elif cursor.takes("DRY", "RUN"):
            vacuum = dataclasses.replace(vacuum, dry_run=True)
        elif cursor.takes("RETAIN"):
            hours = cursor.until(lambda: cursor.sees("HOURS"), "a number of hours")
            cursor.expect("HOURS")
            vacuum = dataclasses.replace(vacuum, retain_hours=hours.text)
        elif cursor.takes("USING", "INVENTORY"):
            vacuum = dataclasses.replace(vacuum, inventory=_take_inventory(cursor))
        else:
            raise cursor.unexpected("LITE, FULL, USING INVENTORY, RETAIN, DRY RUN or the end of the statement")
    return vacuum


def parse_restore(cursor: Cursor) -> Restore:
    """`RESTORE [TABLE] t [TO] {VERSION | TIMESTAMP} AS OF x`."""
    cursor.expect("RESTORE")
    cursor.takes("TABLE")
    table = cursor.table()
    cursor.takes("TO")
    cursor.takes("FOR")
    if cursor.takes("TIMESTAMP|SYSTEM_TIME", "AS", "OF"):
        return Restore(table=table, version=None, timestamp=cursor.rest("a timestamp"))
    if not cursor.takes("VERSION|SYSTEM_VERSION", "AS", "OF"):
        raise cursor.unexpected("VERSION AS OF or TIMESTAMP AS OF")
    token = cursor.peek()
    quoted = token is not None and token.kind is TokenKind.STRING
    version = cursor.string() if quoted else str(cursor.integer("a version"))
    cursor.expect_end()
    return Restore(table=table, version=version, timestamp=None)


def parse_convert(cursor: Cursor) -> Convert:
    """`CONVERT TO DELTA t [NO STATISTICS] [PARTITIONED BY (c type, …)]`."""
    cursor.expect("CONVERT", "TO", "DELTA")
    table = cursor.table()
    collects = not cursor.takes("NO", "STATISTICS")
    partition_schema = None
    if cursor.takes("PARTITIONED", "BY"):
        partition_schema = cursor.parenthesized("columns and their types")
    cursor.expect_end()
    return Convert(table=table, collects_statistics=collects, partition_schema=partition_schema)


def parse_generate(cursor: Cursor) -> Generate:
    """`GENERATE mode FOR TABLE t`."""
    cursor.expect("GENERATE")
    mode = cursor.name("symlink_format_manifest")
    cursor.expect("FOR", "TABLE")
    table = cursor.table()
    cursor.expect_end()
    return Generate(table=table, mode=mode)


def _take_inventory(cursor: Cursor) -> Fragment:
    first = cursor.at
    if cursor.sees_symbol("("):
        cursor.skip_parenthesized()
    else:
        cursor.table()
    return Fragment(cursor.text, cursor.tokens[first].start, cursor.end_of_last)


# DESCRIBE DETAIL and DESCRIBE HISTORY.


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class DescribeDetail:
    """`DESCRIBE DETAIL`."""

    table: TableName


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class DescribeHistory:
    """`DESCRIBE HISTORY`."""

    table: TableName
    limit: int | None


def parse_describe_detail(cursor: Cursor) -> DescribeDetail:
    """`DESCRIBE DETAIL {t | 'path'}`."""
    cursor.expect("DESC|DESCRIBE", "DETAIL")
    table = take_table_or_path(cursor)
    cursor.expect_end()
    return DescribeDetail(table=table)


def parse_describe_history(cursor: Cursor) -> DescribeHistory:
    """`DESCRIBE HISTORY {t | 'path'} [LIMIT n]`."""
    cursor.expect("DESC|DESCRIBE", "HISTORY")
    table = take_table_or_path(cursor)
    limit = cursor.integer() if cursor.takes("LIMIT") else None
    cursor.expect_end()
    return DescribeHistory(table=table, limit=limit)
