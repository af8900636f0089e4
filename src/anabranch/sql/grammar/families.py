"""The families of statements: how each begins, and what reads it. Here are those that may be ours beside Spark's."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from anabranch.errors.sql import SqlSyntaxError
from anabranch.sql.grammar.alterations import parse_column_comment, parse_own_alter, take_table_of_column
from anabranch.sql.grammar.cursor import Cursor, TableName
from anabranch.sql.grammar.descriptions import parse_describe_detail, parse_describe_history
from anabranch.sql.grammar.inserts import parse_insert
from anabranch.sql.grammar.maintenance import (
    parse_convert,
    parse_generate,
    parse_optimize,
    parse_reorg,
    parse_restore,
    parse_vacuum,
    take_table_or_path,
)
from anabranch.sql.grammar.table_definitions import parse_create


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """Statements that begin alike."""

    name: str
    """What messages call them."""
    begins: str
    """The words before the table's name; `[…]` may be missing, of `A|B` one stands there, for `*` a name, for `'` a
    string."""
    parse: Callable[[Cursor], object]
    """What the statement says, as a value of its own class."""
    delta_only: bool = False
    """There is no such statement for other tables."""
    makes_table: bool = False
    """The format stands in the statement, not in the catalog."""
    reads: bool = False
    """It is about Delta tables if what it names, or its query, reads some."""
    take_table: Callable[[Cursor], TableName] = Cursor.table
    provider_of: Callable[[Cursor], str | None] = lambda _: None
    """What it says after USING; the cursor stands behind the name."""

    def table_of(self, cursor: Cursor) -> TableName | None:
        """The table's name, if the statement begins as those of the family do."""
        words = self.begins.split()
        place = 0
        while place < len(words):
            if words[place].startswith("["):
                last = next(at for at in range(place, len(words)) if words[at].endswith("]"))
                cursor.takes(*(word.strip("[]") for word in words[place : last + 1]))
                place = last
            elif words[place] == "*":
                cursor.name()
            elif words[place] == "'":
                cursor.string()
            elif not cursor.takes(words[place]):
                return None
            place += 1
        try:
            return self.take_table(cursor)
        except SqlSyntaxError:
            return None


OWN_FAMILIES = (
    Family(name="INSERT", begins="INSERT [WITH SCHEMA EVOLUTION] INTO|OVERWRITE [TABLE]", parse=parse_insert),
    Family(
        name="CREATE TABLE",
        begins="CREATE [OR REPLACE] [EXTERNAL] TABLE [IF NOT EXISTS]",
        parse=parse_create,
        makes_table=True,
    ),
    Family(name="REPLACE TABLE", begins="REPLACE TABLE", parse=parse_create, makes_table=True),
    Family(name="ALTER TABLE", begins="ALTER TABLE", parse=parse_own_alter),
    Family(
        name="COMMENT ON COLUMN",
        begins="COMMENT ON COLUMN",
        parse=parse_column_comment,
        take_table=take_table_of_column,
    ),
    Family(name="OPTIMIZE", begins="OPTIMIZE", parse=parse_optimize, delta_only=True, take_table=take_table_or_path),
    Family(name="REORG TABLE", begins="REORG TABLE", parse=parse_reorg, delta_only=True),
    Family(name="VACUUM", begins="VACUUM", parse=parse_vacuum, delta_only=True, take_table=take_table_or_path),
    Family(name="RESTORE", begins="RESTORE [TABLE]", parse=parse_restore, delta_only=True),
    Family(name="CONVERT TO DELTA", begins="CONVERT TO DELTA", parse=parse_convert, delta_only=True),
    Family(name="GENERATE", begins="GENERATE * FOR TABLE", parse=parse_generate, delta_only=True),
    Family(
        name="DESCRIBE DETAIL",
        begins="DESC|DESCRIBE DETAIL",
        parse=parse_describe_detail,
        delta_only=True,
        take_table=take_table_or_path,
    ),
    Family(
        name="DESCRIBE HISTORY",
        begins="DESC|DESCRIBE HISTORY",
        parse=parse_describe_history,
        delta_only=True,
        take_table=take_table_or_path,
    ),
)
"""Each has statements that some release of Spark cannot parse."""
