"""The messages by which clients of Spark Connect ask a server about tables, those of delta-spark's protocol, by number.

Numbers of fields stand where they are read and written; those of our own are here. Whoever does not know these skips
them.
"""

from __future__ import annotations

ANSWERED = "spark.anabranch.tables.answered"
"""The setting of clients' sessions that says `true` where the server answers."""

RELATION, COMMAND = "DeltaRelation", "DeltaCommand"
ANY_TYPE, ANY_VALUE = 1, 2
TYPE_PREFIX = "type.googleapis.com/delta.connect."

KINDS: dict[str, tuple[str, ...]] = {
    RELATION: (
        *("Scan", "DescribeHistory", "DescribeDetail", "ConvertToDelta", "RestoreTable", "IsDeltaTable"),
        *("DeleteFromTable", "UpdateTable", "MergeIntoTable", "OptimizeTable"),
    ),
    COMMAND: (
        *("CloneTable", "VacuumTable", "UpgradeTableProtocol", "Generate", "CreateDeltaTable"),
        *("AddFeatureSupport", "DropFeatureSupport"),
    ),
}
"""What a relation or a command holds, by the number of its field from 1 on."""

CREATION_MODES = ("CREATE TABLE", "CREATE TABLE IF NOT EXISTS", "REPLACE TABLE", "CREATE OR REPLACE TABLE")
"""Of `CreateDeltaTable`, from 1 on."""

CONFLICT_RETRIES = 15001
"""Of DELETE, UPDATE and MERGE: how often the statement may be executed again after a conflict, as text."""
COLUMN_METADATA = 15001
"""Of a column of `CreateDeltaTable`: all of its metadata, as JSON, in the place of what other fields say of it."""
