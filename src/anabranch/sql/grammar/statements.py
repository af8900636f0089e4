"""Which statement a text is, and what it says.

Two steps, so that text for other tables is never judged: `opening_of` looks only as far as the name of the table;
`Opening.parse` reads the statement, and raises `SqlSyntaxError` where that cannot be done.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from anabranch.errors.sql import SqlSyntaxError
from anabranch.sql.grammar.alteration_forms import AlterTable, CommentOnTable
from anabranch.sql.grammar.alterations import parse_alter, parse_comment
from anabranch.sql.grammar.cursor import Cursor, Fragment, TableName
from anabranch.sql.grammar.descriptions import (
    DescribeDetail,
    DescribeHistory,
    DescribeTable,
    ShowColumns,
    ShowCreateTable,
    ShowPartitions,
    ShowProperties,
    parse_describe_detail,
    parse_describe_history,
    parse_describe_table,
    parse_show_columns,
    parse_show_create_table,
    parse_show_partitions,
    parse_show_properties,
    take_table_of_columns,
)
from anabranch.sql.grammar.inserts import Insert, parse_insert
from anabranch.sql.grammar.maintenance import (
    Convert,
    Generate,
    Optimize,
    Reorganize,
    Restore,
    Vacuum,
    parse_convert,
    parse_generate,
    parse_optimize,
    parse_reorg,
    parse_restore,
    parse_vacuum,
    take_table_or_path,
)
from anabranch.sql.grammar.merges import Merge, parse_merge
from anabranch.sql.grammar.row_changes import (
    Delete,
    Truncate,
    Update,
    parse_delete,
    parse_truncate,
    parse_update,
)
from anabranch.sql.grammar.table_definitions import (
    CloneTable,
    CreateTable,
    CreateTableLike,
    DropTable,
    parse_create,
    parse_drop,
    provider_of,
)
from anabranch.sql.grammar.tokens import Token, first_word

Statement = (
    CreateTable | CreateTableLike | CloneTable | DropTable
    | Insert | Delete | Update | Truncate | Merge
    | AlterTable | CommentOnTable
    | Optimize | Reorganize | Vacuum | Restore | Convert | Generate
    | DescribeDetail | DescribeHistory | DescribeTable
    | ShowProperties | ShowColumns | ShowPartitions | ShowCreateTable
)  # fmt: skip


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """Statements that begin alike."""

    name: str
    """What messages call them."""
    begins: str
    """The words before the table's name; `[…]` may be missing, of `A|B` one stands there."""
    parse: Callable[[Cursor], Statement]
    delta_only: bool = False
    """There is no such statement for other tables."""
    makes_table: bool = False
    """The format stands in the statement, not in the catalog."""
    take_table: Callable[[Cursor], TableName] = Cursor.table


FAMILIES = (
    Family(name="INSERT", begins="INSERT [WITH SCHEMA EVOLUTION] INTO|OVERWRITE [TABLE]", parse=parse_insert),
    Family(name="DELETE", begins="DELETE FROM", parse=parse_delete),
    Family(name="UPDATE", begins="UPDATE", parse=parse_update),
    Family(name="MERGE", begins="MERGE [WITH SCHEMA EVOLUTION] INTO", parse=parse_merge),
    Family(name="TRUNCATE TABLE", begins="TRUNCATE TABLE", parse=parse_truncate),
    Family(
        name="CREATE TABLE",
        begins="CREATE [OR REPLACE] [EXTERNAL] TABLE [IF NOT EXISTS]",
        parse=parse_create,
        makes_table=True,
    ),
    Family(name="REPLACE TABLE", begins="REPLACE TABLE", parse=parse_create, makes_table=True),
    Family(name="DROP TABLE", begins="DROP TABLE [IF EXISTS]", parse=parse_drop),
    Family(name="ALTER TABLE", begins="ALTER TABLE", parse=parse_alter),
    Family(name="COMMENT ON TABLE", begins="COMMENT ON TABLE", parse=parse_comment),
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
    Family(name="DESCRIBE TABLE", begins="DESC|DESCRIBE [TABLE] [EXTENDED|FORMATTED]", parse=parse_describe_table),
    Family(name="SHOW TBLPROPERTIES", begins="SHOW TBLPROPERTIES", parse=parse_show_properties),
    Family(
        name="SHOW COLUMNS", begins="SHOW COLUMNS FROM|IN", parse=parse_show_columns, take_table=take_table_of_columns
    ),
    Family(name="SHOW PARTITIONS", begins="SHOW PARTITIONS", parse=parse_show_partitions),
    Family(name="SHOW CREATE TABLE", begins="SHOW CREATE TABLE", parse=parse_show_create_table),
)
_BY_FIRST_WORD: dict[str, list[Family]] = {}
for _family in FAMILIES:
    for _word in _family.begins.split()[0].split("|"):
        _BY_FIRST_WORD.setdefault(_word, []).append(_family)
_FIRST_WORDS = _BY_FIRST_WORD.keys() | {"EXPLAIN", "WITH", "FROM"}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """How a statement begins."""

    family: Family
    table: TableName
    text: str
    tokens: Sequence[Token] = dataclasses.field(repr=False)
    begin: int
    """The token that the statement itself begins with, behind EXPLAIN and WITH."""
    is_explained: bool = False
    named_queries: Fragment | None = None
    """`WITH a AS (…)`, where it stands before the statement."""
    provider: str | None = None
    """What a statement that makes a table says after USING."""
    source: TableName | None = None
    """Of `CREATE TABLE … LIKE source`."""
    is_clone: bool = False
    is_one_of_many: bool = False
    """`FROM … INSERT … INSERT …`."""

    def parse(self) -> Statement:
        """What the statement says. Raises `SqlSyntaxError`."""
        cursor = Cursor(self.text, self.tokens, statement=self.family.name)
        cursor.at = self.begin
        return self.family.parse(cursor)


def opening_of(text: str) -> Opening | None:
    """How `text` begins, if it is one of our statements; None for queries and everything else."""
    if first_word(text) not in _FIRST_WORDS:
        return None
    try:
        return _opening(Cursor(text))
    except SqlSyntaxError:
        return None


def _opening(cursor: Cursor) -> Opening | None:
    is_explained = cursor.takes("EXPLAIN")
    if is_explained:
        cursor.takes("LOGICAL|FORMATTED|EXTENDED|CODEGEN|COST")
    named_queries = _named_queries(cursor)
    is_one_of_many = cursor.sees("FROM")
    if is_one_of_many:
        cursor.until(lambda: cursor.sees("INSERT", "INTO|OVERWRITE"))
    begin = cursor.at
    for family in _BY_FIRST_WORD.get(cursor.word(), ()):
        cursor.at = begin
        table = _table_of(cursor, family)
        if table is None:
            continue
        opening = Opening(
            family=family,
            table=table,
            text=cursor.text,
            tokens=cursor.tokens,
            begin=begin,
            is_explained=is_explained,
            named_queries=named_queries,
            is_one_of_many=is_one_of_many,
        )
        return _with_format(cursor, opening) if family.makes_table else opening
    return None


def _with_format(cursor: Cursor, opening: Opening) -> Opening:
    """What tells the format of the table that the statement makes."""
    source = cursor.table() if cursor.takes("LIKE") else None
    is_clone = cursor.sees("CLONE") or cursor.sees("SHALLOW|DEEP", "CLONE")
    return dataclasses.replace(opening, source=source, is_clone=is_clone, provider=provider_of(cursor))


def _named_queries(cursor: Cursor) -> Fragment | None:
    if not cursor.sees("WITH"):
        return None
    first = cursor.tokens[cursor.at].start
    cursor.takes("WITH")
    cursor.takes("RECURSIVE")
    while True:
        cursor.name()
        if cursor.sees_symbol("("):
            cursor.skip_parenthesized()
        if cursor.takes("AS") or cursor.sees_symbol("("):
            cursor.skip_parenthesized()
        if not cursor.takes_symbol(","):
            return Fragment(cursor.text, first, cursor.end_of_last)


def _table_of(cursor: Cursor, family: Family) -> TableName | None:
    """The table's name, if the statement begins as those of the family do."""
    words = family.begins.split()
    place = 0
    while place < len(words):
        if words[place].startswith("["):
            last = next(at for at in range(place, len(words)) if words[at].endswith("]"))
            cursor.takes(*(word.strip("[]") for word in words[place : last + 1]))
            place = last
        elif words[place] == "*":
            cursor.name()
        elif not cursor.takes(words[place]):
            return None
        place += 1
    try:
        return family.take_table(cursor)
    except SqlSyntaxError:
        return None
