"""All families of statements that work on Delta tables, or that Delta tables have not."""

from __future__ import annotations

import dataclasses

from anabranch.connect.sql.grammar.alterations import parse_alter, parse_comment
from anabranch.connect.sql.grammar.descriptions import (
    parse_describe_table,
    parse_show_columns,
    parse_show_create_table,
    parse_show_partitions,
    parse_show_properties,
    take_table_of_columns,
)
from anabranch.connect.sql.grammar.drops import parse_drop
from anabranch.connect.sql.grammar.merges import parse_merge
from anabranch.connect.sql.grammar.row_changes import parse_delete, parse_truncate, parse_update
from anabranch.connect.sql.grammar.unsupported import unsupported
from anabranch.connect.sql.grammar.views import (
    parse_alter_view,
    parse_cache,
    parse_create_view,
    parse_refresh,
    parse_uncache,
    view_provider,
)
from anabranch.sql.grammar.families import OWN_FAMILIES, Family

FAMILIES = (
    *(
        dataclasses.replace(family, parse=parse_alter) if family.name == "ALTER TABLE" else family
        for family in OWN_FAMILIES
    ),
    Family(name="DELETE", begins="DELETE FROM", parse=parse_delete),
    Family(name="UPDATE", begins="UPDATE", parse=parse_update),
    Family(name="MERGE", begins="MERGE [WITH SCHEMA EVOLUTION] INTO", parse=parse_merge),
    Family(name="TRUNCATE TABLE", begins="TRUNCATE TABLE", parse=parse_truncate),
    Family(name="DROP TABLE", begins="DROP TABLE [IF EXISTS]", parse=parse_drop),
    Family(name="COMMENT ON TABLE", begins="COMMENT ON TABLE", parse=parse_comment),
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
        provider_of=view_provider,
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
"""Of those that begin with the same words, the one that says more comes first."""
