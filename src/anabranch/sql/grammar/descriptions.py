"""DESCRIBE DETAIL and DESCRIBE HISTORY."""

from __future__ import annotations

import dataclasses

from anabranch.sql.grammar.cursor import Cursor, TableName
from anabranch.sql.grammar.maintenance import take_table_or_path


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
