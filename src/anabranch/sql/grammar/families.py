"""The families of statements: how each begins, and what reads it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from anabranch.errors.sql import SqlSyntaxError
from anabranch.sql.grammar.alteration_forms import AlterTable, CommentOnTable
from anabranch.sql.grammar.alterations import parse_alter, parse_column_comment, parse_comment, take_table_of_column
from anabranch.sql.grammar.cursor import Cursor, TableName
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
from anabranch.sql.grammar.inserts import Insert, Inserts, parse_insert
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
)
from anabranch.sql.grammar.unsupported import Unsupported, unsupported
from anabranch.sql.grammar.views import (
    AlterView,
    CacheTable,
    CreateView,
    CreateViewUsing,
    RefreshTable,
    UncacheTable,
    parse_alter_view,
    parse_cache,
    parse_create_view,
    parse_refresh,
    parse_uncache,
)

Statement = (
    CreateTable | CreateTableLike | CloneTable | DropTable
    | Insert | Inserts | Delete | Update | Truncate | Merge
    | AlterTable | CommentOnTable
    | Optimize | Reorganize | Vacuum | Restore | Convert | Generate
    | DescribeDetail | DescribeHistory | DescribeTable
    | ShowProperties | ShowColumns | ShowPartitions | ShowCreateTable
    | CreateView | CreateViewUsing | AlterView | CacheTable | UncacheTable | RefreshTable
    | Unsupported
)  # fmt: skip


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """Statements that begin alike."""

    name: str
    """What messages call them."""
    begins: str
    """The words before the table's name; `[…]` may be missing, of `A|B` one stands there, for `*` a name, for `'` a
    string."""
    parse: Callable[[Cursor], Statement]
    delta_only: bool = False
    """There is no such statement for other tables."""
    makes_table: bool = False
    """The format stands in the statement, not in the catalog."""
    reads: bool = False
    """It is about Delta tables if what it names, or its query, reads some."""
    take_table: Callable[[Cursor], TableName] = Cursor.table

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
    Family(name="DESCRIBE TABLE", begins="DESC|DESCRIBE [TABLE] [EXTENDED|FORMATTED]", parse=parse_describe_table),
    Family(name="SHOW TBLPROPERTIES", begins="SHOW TBLPROPERTIES", parse=parse_show_properties),
    Family(
        name="SHOW COLUMNS", begins="SHOW COLUMNS FROM|IN", parse=parse_show_columns, take_table=take_table_of_columns
    ),
    Family(name="SHOW PARTITIONS", begins="SHOW PARTITIONS", parse=parse_show_partitions),
    Family(name="SHOW CREATE TABLE", begins="SHOW CREATE TABLE", parse=parse_show_create_table),
    Family(
        name="CREATE VIEW",
        begins="CREATE [OR REPLACE] [GLOBAL] [TEMP|TEMPORARY] VIEW [IF NOT EXISTS]",
        parse=parse_create_view,
        reads=True,
    ),
    Family(name="ALTER VIEW", begins="ALTER VIEW", parse=parse_alter_view, reads=True),
    Family(name="CACHE TABLE", begins="CACHE [LAZY] TABLE", parse=parse_cache, reads=True),
    Family(name="UNCACHE TABLE", begins="UNCACHE TABLE [IF EXISTS]", parse=parse_uncache, reads=True),
    Family(name="REFRESH TABLE", begins="REFRESH TABLE", parse=parse_refresh, reads=True),
    *(
        Family(name=name, begins=begins, parse=unsupported(name, instead))
        for name, begins, instead in (
            ("ANALYZE TABLE", "ANALYZE TABLE", "The log has statistics of every file already."),
            ("MSCK REPAIR TABLE", "MSCK REPAIR TABLE", "The log knows all partitions."),
            ("REPAIR TABLE", "REPAIR TABLE", "The log knows all partitions."),
            ("LOAD DATA", "LOAD DATA [LOCAL] INPATH ' [OVERWRITE] INTO TABLE", "Use INSERT INTO with a query."),
            ("CREATE INDEX", "CREATE INDEX [IF NOT EXISTS] * ON [TABLE]", "Use OPTIMIZE … ZORDER BY."),
            ("DROP INDEX", "DROP INDEX [IF EXISTS] * ON [TABLE]", "There are no indexes."),
        )
    ),
)
