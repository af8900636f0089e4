"""Tables that the jar writes, as SQL: `{t}` is the table."""

from __future__ import annotations

SMALL = "SELECT id, CAST(id % 4 AS INT) AS part, concat('w', id) AS word FROM range({start}, {end}, 1, 2)"


def _create(properties: str = "", *, partitioned: bool = False, start: int = 0, end: int = 40) -> str:
    options = f"TBLPROPERTIES ({properties})" if properties else ""
    partitions = "PARTITIONED BY (part)" if partitioned else ""
    return f"CREATE TABLE {{t}} USING delta {partitions} {options} AS {SMALL.format(start=start, end=end)}"


def _inserts(count: int) -> list[str]:
    return [f"INSERT INTO {{t}} {SMALL.format(start=100 + 10 * n, end=110 + 10 * n)}" for n in range(count)]


CHANGES = [
    "DELETE FROM {t} WHERE id % 5 = 0",
    "UPDATE {t} SET word = concat(word, '!') WHERE id % 3 = 0",
    """MERGE INTO {t} USING (SELECT id, 1 AS part, 'merged' AS word FROM range(30, 60)) s ON {t}.id = s.id
       WHEN MATCHED AND s.id % 2 = 0 THEN UPDATE SET word = s.word WHEN MATCHED THEN DELETE
       WHEN NOT MATCHED THEN INSERT *""",
]
VECTORS = "'delta.enableDeletionVectors' = 'true'"
NO_VECTORS = "'delta.enableDeletionVectors' = 'false'"

READABLE: dict[str, list[str]] = {
    "plain": [_create(NO_VECTORS), *_inserts(2), *CHANGES],
    "vectors": [_create(VECTORS), *_inserts(2), *CHANGES],
    "vectors, partitioned": [_create(VECTORS, partitioned=True), *_inserts(2), *CHANGES],
    "vectors, purged and optimized": [
        _create(VECTORS),
        *_inserts(2),
        *CHANGES,
        "OPTIMIZE {t}",
        "DELETE FROM {t} WHERE id = 1",
        "REORG TABLE {t} APPLY (PURGE)",
        "DELETE FROM {t} WHERE id = 2",
    ],
    "restored": [_create(VECTORS), *CHANGES, "RESTORE TABLE {t} TO VERSION AS OF 1"],
    "mapping by name": [
        _create(f"{VECTORS}, 'delta.columnMapping.mode' = 'name'", partitioned=True),
        *CHANGES,
        "ALTER TABLE {t} RENAME COLUMN word TO `the word`",
        "ALTER TABLE {t} ADD COLUMNS (`new,one` STRUCT<`a b`: INT, c: ARRAY<STRING>>)",
        "INSERT INTO {t} VALUES (1000, 1, 'x', named_struct('a b', 1, 'c', array('q')))",
        "ALTER TABLE {t} RENAME COLUMN part TO `the part`",
        "ALTER TABLE {t} DROP COLUMN `the word`",
        "ALTER TABLE {t} ADD COLUMNS (`the word` BIGINT)",
        "INSERT INTO {t} VALUES (1001, 2, NULL, 5)",
    ],
    "mapping by id": [
        _create("'delta.columnMapping.mode' = 'id'"),
        "ALTER TABLE {t} RENAME COLUMN word TO other",
        "ALTER TABLE {t} ADD COLUMNS (word STRING FIRST)",
        "INSERT INTO {t} VALUES ('new', 1000, 1, 'x')",
        "DELETE FROM {t} WHERE id = 3",
    ],
    "mapping, upgraded": [
        _create(NO_VECTORS),
        (
            "ALTER TABLE {t} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name', 'delta.minReaderVersion' = '2',"
            " 'delta.minWriterVersion' = '5')"
        ),
        "ALTER TABLE {t} RENAME COLUMN id TO key",
        "INSERT INTO {t} VALUES (1000, 1, 'x')",
    ],
    "type widening": [
        (
            "CREATE TABLE {t} (a TINYINT, b INT, c FLOAT, d DECIMAL(5, 2), e DATE, s STRUCT<x: SMALLINT>, l ARRAY<INT>)"
            " USING delta TBLPROPERTIES ('delta.enableTypeWidening' = 'true', 'delta.feature.timestampNtz' = 'supported')"
        ),
        "INSERT INTO {t} VALUES (1, 2, 1.5, 1.25, DATE'2024-01-01', named_struct('x', 3), array(1, NULL))",
        "ALTER TABLE {t} ALTER COLUMN a TYPE INT",
        "ALTER TABLE {t} ALTER COLUMN b TYPE BIGINT",
        "ALTER TABLE {t} ALTER COLUMN c TYPE DOUBLE",
        "ALTER TABLE {t} ALTER COLUMN d TYPE DECIMAL(10, 4)",
        "ALTER TABLE {t} ALTER COLUMN e TYPE TIMESTAMP_NTZ",
        "ALTER TABLE {t} ALTER COLUMN s.x TYPE BIGINT",
        "ALTER TABLE {t} ALTER COLUMN l.element TYPE BIGINT",
        (
            "INSERT INTO {t} VALUES (70000, 5000000000, 0.1, 99999.1234, TIMESTAMP_NTZ'2024-01-01 10:11:12.5',"
            " named_struct('x', 9), array(6000000000))"
        ),
    ],
    "v2 checkpoints": [
        _create(f"{VECTORS}, 'delta.checkpointPolicy' = 'v2', 'delta.checkpointInterval' = '3'"),
        *_inserts(3),
        *CHANGES,
    ],
    "v2 checkpoints, JSON": [
        "SET spark.databricks.delta.checkpointV2.topLevelFileFormat = json",
        _create("'delta.checkpointPolicy' = 'v2', 'delta.checkpointInterval' = '2'"),
        *_inserts(4),
        "SET spark.databricks.delta.checkpointV2.topLevelFileFormat = parquet",
    ],
    "multi-part checkpoints": [
        "SET spark.databricks.delta.checkpoint.partSize = 4",
        _create("'delta.checkpointInterval' = '4'"),
        *_inserts(9),
        "SET spark.databricks.delta.checkpoint.partSize = 1000000",
    ],
    "in-commit timestamps": [_create("'delta.enableInCommitTimestamps' = 'true'"), *_inserts(2), *CHANGES],
    "row tracking": [_create(f"{VECTORS}, 'delta.enableRowTracking' = 'true'"), *_inserts(2), *CHANGES],
    "clustering": [
        "CREATE TABLE {t} (id BIGINT, part INT, word STRING) USING delta CLUSTER BY (part, id)",
        *_inserts(2),
        *CHANGES,
        "OPTIMIZE {t}",
    ],
    "change data feed": [_create(f"{VECTORS}, 'delta.enableChangeDataFeed' = 'true'"), *CHANGES],
    "timestampNtz": [
        "CREATE TABLE {t} (ntz TIMESTAMP_NTZ, ts TIMESTAMP, day DATE, n INT) USING delta PARTITIONED BY (day)",
        (
            "INSERT INTO {t} VALUES (TIMESTAMP_NTZ'1582-10-15 00:00:00', TIMESTAMP'0001-01-01', DATE'0001-01-01', 1),"
            " (TIMESTAMP_NTZ'9999-12-31 23:59:59.999999', TIMESTAMP'9999-12-31 23:59:59.999999', DATE'9999-12-31', 2),"
            " (NULL, NULL, NULL, NULL)"
        ),
    ],
    "partitions of every type": [
        (
            "CREATE TABLE {t} (id INT, s STRING, ts TIMESTAMP, ntz TIMESTAMP_NTZ, d DECIMAL(10, 2), f DOUBLE, b BOOLEAN)"
            " USING delta PARTITIONED BY (s, ts, ntz, d, f, b)"
        ),
        (
            "INSERT INTO {t} VALUES (1, 'a b/c=%', TIMESTAMP'1969-12-31 23:59:59.5', TIMESTAMP_NTZ'2024-02-29 12:00:00.000001',"
            " -1.50, 0.1, true), (2, 'ü\"{{}}', TIMESTAMP'2024-01-01', TIMESTAMP_NTZ'2024-01-01', 3, double('NaN'), false),"
            " (3, NULL, NULL, NULL, NULL, NULL, NULL), (4, '', TIMESTAMP'2024-01-01', NULL, 0, -0.0D, true)"
        ),
    ],
    "nested": [
        (
            "CREATE TABLE {t} (s STRUCT<a: INT, b: STRUCT<c: MAP<STRING, ARRAY<STRUCT<d: DATE>>>>>, l ARRAY<ARRAY<BINARY>>)"
            " USING delta"
        ),
        (
            "INSERT INTO {t} VALUES (named_struct('a', 1, 'b', named_struct('c', map('k', array(named_struct('d',"
            " DATE'2024-01-01'), NULL)))), array(array(X'00', NULL), NULL)), (NULL, NULL),"
            " (named_struct('a', NULL, 'b', NULL), array())"
        ),
        "ALTER TABLE {t} ADD COLUMNS (s.e STRING)",
        "INSERT INTO {t} VALUES (named_struct('a', 2, 'b', NULL, 'e', 'new'), NULL)",
    ],
    "generated": [
        "CREATE TABLE {t} (ts TIMESTAMP, day DATE GENERATED ALWAYS AS (CAST(ts AS DATE))) USING delta PARTITIONED BY (day)",
        "INSERT INTO {t} (ts) VALUES (TIMESTAMP'2024-02-29 12:00:00'), (NULL)",
    ],
    "identity": [
        "CREATE TABLE {t} (id BIGINT GENERATED ALWAYS AS IDENTITY (START WITH 7 INCREMENT BY 3), word STRING) USING delta",
        "INSERT INTO {t} (word) VALUES ('a'), ('b')",
        "INSERT INTO {t} (word) VALUES ('c')",
    ],
    "constraints": [
        "CREATE TABLE {t} (id BIGINT NOT NULL, word STRING) USING delta",
        "ALTER TABLE {t} ADD CONSTRAINT positive CHECK (id > 0)",
        "INSERT INTO {t} VALUES (1, 'a')",
    ],
    "defaults": [
        (
            "CREATE TABLE {t} (id BIGINT, word STRING DEFAULT 'none') USING delta"
            " TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported')"
        ),
        "INSERT INTO {t} (id) VALUES (1)",
    ],
    "dropped feature": [
        _create(VECTORS),
        *CHANGES,
        "ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'false')",
        "REORG TABLE {t} APPLY (PURGE)",
    ],
    "char and varchar": [
        "CREATE TABLE {t} (c CHAR(5), v VARCHAR(3)) USING delta",
        "INSERT INTO {t} VALUES ('a', 'b'), (NULL, NULL)",
    ],
}

VARIANT = [
    "CREATE TABLE {t} (id INT, v VARIANT) USING delta",
    """INSERT INTO {t} SELECT 1, parse_json('{{"a": [1, 2.5, "x", null], "b": {{"c": true}}}}')""",
    "INSERT INTO {t} VALUES (2, NULL), (3, parse_json('7'))",
    "DELETE FROM {t} WHERE id = 3",
]

REFUSED_WRITES: dict[str, tuple[str, str]] = {
    "constraints": ("SELECT CAST(-1 AS BIGINT) AS id, 'x' AS word", "positive"),
    "generated": ("SELECT TIMESTAMP'2024-01-01' AS ts, DATE'1999-01-01' AS day", "day"),
    "identity": ("SELECT CAST(7 AS BIGINT) AS id, 'x' AS word", "id"),
}
"""Rows that would break a table's rules, and what the refusal must name."""
