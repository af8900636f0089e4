"""What gives something else with anabranch than with the jar, each with the reason."""

from __future__ import annotations

SPARKS = "Spark's own analyzer answers here; the jar has a check and a condition of its own"
UNNAMED = "the jar's condition is of DESCRIBE HISTORY alone; here all statements say the same of what is no Delta table"

OWN = "ours tells the same refusal by another of Delta's conditions, which names the table, the column and the way out"
JAR_FAILS = "the jar fails here, or breaks the table; ours does what the statement says, or refuses it before"

_DIFFERENCES: dict[str, dict[str, str]] = {
    "rows: DELETE": {
        "DELETE FROM t WHERE a IN (SELECT id, id FROM range(1))": SPARKS,
        "at the end: >>> history('parquet_table')": UNNAMED,
    },
    "rows: UPDATE": {
        "UPDATE t SET a = explode(l)": SPARKS,
        "UPDATE t SET a = array(1)": "a type that cannot be had is told as by every other write",
        "at the end: >>> history('parquet_table')": UNNAMED,
    },
    "rows: MERGE": dict.fromkeys(
        [
            "MERGE INTO t USING s ON t.k = s.k WHEN MATCHED THEN UPDATE SET nothing = 1",
            "MERGE INTO t USING s ON t.k = s.k WHEN MATCHED THEN UPDATE SET v = nothing",
            "MERGE INTO t USING s ON t.k = s.nothing WHEN MATCHED THEN DELETE",
            "MERGE INTO t USING s ON max(t.k) = 1 WHEN MATCHED THEN DELETE",
            "MERGE INTO t USING s ON t.k WHEN MATCHED THEN DELETE",
            "MERGE INTO t USING s ON t.k = s.k WHEN MATCHED AND max(s.k) = 1 THEN DELETE",
            "MERGE INTO t USING s ON t.k = s.k WHEN NOT MATCHED THEN INSERT (k, nothing) VALUES (1, 2)",
            "MERGE INTO t USING s ON t.k = s.k WHEN NOT MATCHED THEN INSERT (k) VALUES (t.k)",
            "MERGE INTO t USING s ON t.k = s.k WHEN NOT MATCHED BY SOURCE THEN UPDATE SET v = s.v",
        ],
        SPARKS,
    ),
    "definitions: constraints": {
        **dict.fromkeys(
            [
                "INSERT INTO t (a) VALUES (5)",
                "ALTER TABLE t ADD CONSTRAINT notboolean CHECK (a)",
                "ALTER TABLE t ADD CONSTRAINT aggregate CHECK (max(a) > 0)",
            ],
            OWN,
        ),
        **dict.fromkeys(
            [
                "ALTER TABLE t ADD CONSTRAINT subquery CHECK (a IN (SELECT 1))",
                "INSERT INTO t VALUES (1, 'y', DATE'1990-01-01')",
                "INSERT INTO t VALUES (-1, 'z', NULL)",
                "SELECT * FROM t",
                "at the end: >>> history('t')",
                "at the end: SELECT * FROM t",
            ],
            JAR_FAILS,
        ),
    },
    "describing: queries": {"SELECT * FROM delta.`{path}`": OWN},
    "upkeep: time travel": {
        **dict.fromkeys(
            [
                "SELECT * FROM t VERSION AS OF 'word'",
                "RESTORE TABLE t TO VERSION AS OF 99",
                "RESTORE TABLE t TO TIMESTAMP AS OF '2001-01-01'",
                "RESTORE TABLE missing TO VERSION AS OF 1",
                "RESTORE TABLE parquet_table TO VERSION AS OF 1",
            ],
            OWN,
        ),
        "at the end: >>> history('parquet_table')": UNNAMED,
    },
    "upkeep: change data feed": {
        **dict.fromkeys(
            [
                "SELECT a FROM table_changes('t', 'word')",
                "SELECT a FROM table_changes('missing', 0)",
                "CREATE TABLE reserved (_change_type STRING) USING delta TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')",
                "SELECT a FROM table_changes('v', 0)",
            ],
            OWN,
        ),
        "at the end: >>> history('t')": "ours tells of TRUNCATE how many rows and bytes went, too",
    },
    "upkeep: clustering": {
        **dict.fromkeys(
            [
                "ALTER TABLE t CLUSTER BY (nothing)",
                "ALTER TABLE t CLUSTER BY (s)",
                "ALTER TABLE t CLUSTER BY (b, b)",
                "ALTER TABLE t DROP COLUMN b",
                "CREATE TABLE many (a INT, b INT, c INT, d INT, e INT) USING delta CLUSTER BY (a, b, c, d, e)",
                "CREATE TABLE twice (a INT) USING delta CLUSTER BY (a, a)",
                "ALTER TABLE p CLUSTER BY (b)",
            ],
            OWN,
        ),
        "CREATE TABLE nocolumn (a INT) USING delta CLUSTER BY (z)": SPARKS,
    },
    "writers: a session that overwrites partitions": {
        "at the end: >>> history('t')": "the jar notes flags of Spark's writer, and partition columns that nobody gave",
    },
    "writers: the API": {
        **dict.fromkeys(
            [
                ">>> dt.restoreToVersion(77)",
                ">>> DeltaTable.create(spark).tableName('made').addColumn('a', 'INT').execute()",
                ">>> DeltaTable.replace(spark).tableName('missing').addColumn('a', 'INT').execute()",
            ],
            OWN,
        ),
        "at the end: >>> history('t')": "an upgrade to what the table has already is no commit",
    },
}
KNOWN = {(program, step): reason for program, steps in _DIFFERENCES.items() for step, reason in steps.items()}
"""By program, as `str` of it has it, and step."""
