"""DROP TABLE."""

from __future__ import annotations

import dataclasses

from anabranch.sql.grammar.cursor import Cursor, TableName


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
