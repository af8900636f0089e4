"""One table for every feature, as statements that anabranch and the jar both run, and what others make of it.

`{t}` is replaced by the table. docs/reference/features.md is made from this.
"""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FeatureTable:
    """A table that has a feature, and rows that need it."""

    features: tuple[str, ...]
    """Those that its protocol must have."""
    statements: tuple[str, ...]
    columns: str = "*"
    """How rows are read so that two Sparks have them alike."""
    compared: str = "*"
    """The columns that programs without Spark show alike."""
    change: str = "DELETE FROM {t} WHERE id = 2"
    """A statement that goes on with the table."""
    append: str = "INSERT INTO {t} (id, word) VALUES (100, 'added')"
    """Another one, of one row with an `id`."""

    def sql(self, root: str, *statements: str) -> list[str]:
        return [statement.format(t=f"delta.`{root}`") for statement in statements or self.statements]


def _properties(text: str) -> str:
    return f"TBLPROPERTIES ({text})" if text else ""


def _create(properties: str = "", *, columns: str = "id BIGINT, word STRING", clause: str = "") -> str:
    """Creates it without deletion vectors, which are a feature of their own, unless `properties` says otherwise."""
    complete = properties if "DeletionVectors" in properties else f"{properties}, {NO_VECTORS}".removeprefix(", ")
    return f"CREATE TABLE {{t}} ({columns}) USING delta {clause} {_properties(complete)}"


VECTORS = "'delta.enableDeletionVectors' = 'true'"
NO_VECTORS = "'delta.enableDeletionVectors' = 'false'"
ROWS = "INSERT INTO {t} (id, word) VALUES (1, 'a'), (2, 'b'), (3, NULL), (4, 'd')"
CHANGES = (
    "UPDATE {t} SET word = 'changed' WHERE id = 1",
    "DELETE FROM {t} WHERE id = 3",
    "MERGE INTO {t} t USING (SELECT 4L AS id, 'merged' AS word UNION ALL SELECT 5L, 'new') s ON t.id = s.id "
    "WHEN MATCHED THEN UPDATE SET word = s.word WHEN NOT MATCHED THEN INSERT (id, word) VALUES (s.id, s.word)",
)

TABLES: dict[str, FeatureTable] = {
    "append-only": FeatureTable(
        features=("appendOnly",), statements=(_create("'delta.appendOnly' = 'true'"), ROWS), change=ROWS
    ),
    "NOT NULL": FeatureTable(
        features=("invariants",), statements=(_create(columns="id BIGINT NOT NULL, word STRING"), ROWS)
    ),
    "CHECK constraint": FeatureTable(
        features=("checkConstraints",),
        statements=(
            _create(),
            ROWS,
            "ALTER TABLE {t} ADD CONSTRAINT positive CHECK (id > 0 AND coalesce(word, '') <> '!')",
        ),
    ),
    "generated columns": FeatureTable(
        features=("generatedColumns",),
        statements=(
            _create(
                columns="id BIGINT, word STRING, at TIMESTAMP, twice BIGINT GENERATED ALWAYS AS (id * 2), "
                "day DATE GENERATED ALWAYS AS (CAST(at AS DATE))",
                clause="PARTITIONED BY (day)",
            ),
            "INSERT INTO {t} (id, word, at) VALUES (1, 'a', TIMESTAMP'2024-02-29 12:00:00'), (2, 'b', NULL), "
            "(3, NULL, TIMESTAMP'1969-12-31 23:59:59')",
        ),
    ),
    "default values": FeatureTable(
        features=("allowColumnDefaults",),
        statements=(
            _create(
                "'delta.feature.allowColumnDefaults' = 'supported'",
                columns="id BIGINT, word STRING, kind STRING DEFAULT 'none', n INT DEFAULT 40 + 2",
            ),
            "INSERT INTO {t} (id, word) VALUES (1, 'a'), (2, 'b')",
            "INSERT INTO {t} VALUES (3, NULL, DEFAULT, NULL)",
        ),
    ),
    "identity columns": FeatureTable(
        features=("identityColumns",),
        statements=(
            _create(
                columns="id BIGINT, word STRING, number BIGINT GENERATED ALWAYS AS IDENTITY (START WITH 7 INCREMENT BY 3)"
            ),
            ROWS,
        ),
        columns="id, word, number > 0 AS numbered",
    ),
    "CHAR and VARCHAR": FeatureTable(
        features=(),
        statements=(
            _create(columns="id BIGINT, word VARCHAR(8), code CHAR(3)"),
            ROWS,
            "UPDATE {t} SET code = 'x' WHERE id = 1",
        ),
    ),
    "column mapping by name": FeatureTable(
        features=("columnMapping",),
        statements=(
            _create("'delta.columnMapping.mode' = 'name'", columns="id BIGINT, word STRING, `a b` STRUCT<`x,y`: INT>"),
            "INSERT INTO {t} VALUES (1, 'a', named_struct('x,y', 5)), (2, 'b', NULL)",
        ),
    ),
    "column mapping by id": FeatureTable(
        features=("columnMapping",),
        statements=(_create("'delta.columnMapping.mode' = 'id'", columns="id BIGINT, word STRING, n INT"), ROWS),
    ),
    "column mapping, upgraded": FeatureTable(
        features=("columnMapping",),
        statements=(
            _create(columns="id BIGINT, old STRING, gone INT"),
            "INSERT INTO {t} VALUES (1, 'a', 7), (2, 'b', 8)",
            "ALTER TABLE {t} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')",
            "ALTER TABLE {t} RENAME COLUMN old TO word",
            "ALTER TABLE {t} DROP COLUMN gone",
            "ALTER TABLE {t} ADD COLUMNS (gone STRING)",
            "INSERT INTO {t} VALUES (3, NULL, 'back')",
        ),
    ),
    "type widening": FeatureTable(
        features=("typeWidening",),
        statements=(
            _create(
                "'delta.enableTypeWidening' = 'true'",
                columns="id INT, word STRING, x FLOAT, d DECIMAL(5, 2), n TINYINT",
            ),
            "INSERT INTO {t} VALUES (1, 'a', 1.5, 1.25, 7), (2, 'b', NULL, NULL, NULL)",
            "ALTER TABLE {t} ALTER COLUMN id TYPE BIGINT",
            "ALTER TABLE {t} ALTER COLUMN x TYPE DOUBLE",
            "ALTER TABLE {t} ALTER COLUMN d TYPE DECIMAL(12, 4)",
            "ALTER TABLE {t} ALTER COLUMN n TYPE INT",
            "INSERT INTO {t} VALUES (5000000000, 'c', 0.1, 12345678.1234, 70000)",
        ),
    ),
    "TIMESTAMP_NTZ": FeatureTable(
        features=("timestampNtz",),
        statements=(
            _create(columns="id BIGINT, word STRING, at TIMESTAMP_NTZ"),
            "INSERT INTO {t} VALUES (1, 'a', TIMESTAMP_NTZ'2024-02-29 12:34:56.000001'), (2, 'b', NULL), "
            "(3, NULL, TIMESTAMP_NTZ'1969-12-31 23:59:59.5')",
        ),
    ),
    "VARIANT": FeatureTable(
        features=("variantType",),
        statements=(
            _create(columns="id BIGINT, word STRING, v VARIANT"),
            """INSERT INTO {t} SELECT 1L, 'a', parse_json('{{"a": [1, 2.5, "x", null], "b": {{"c": true}}}}')""",
            "INSERT INTO {t} VALUES (2, 'b', parse_json('null')), (3, 'c', parse_json('7'))",
        ),
        columns="id, word, to_json(v) AS v, schema_of_variant(v) AS kind",
        compared="id, word",
    ),
    "VARIANT, shredded": FeatureTable(
        features=("variantShredding", "variantType"),
        statements=(
            _create("'delta.enableVariantShredding' = 'true'", columns="id BIGINT, word STRING, v VARIANT"),
            """INSERT INTO {t} SELECT id, 'a', parse_json(concat('{{"a": ', id, ', "b": "x"}}')) FROM range(1, 20)""",
        ),
        columns="id, word, to_json(v) AS v, schema_of_variant(v) AS kind",
        compared="id, word",
    ),
    "deletion vectors": FeatureTable(features=("deletionVectors",), statements=(_create(VECTORS), ROWS, *CHANGES)),
    "change data feed": FeatureTable(
        features=("changeDataFeed",),
        statements=(_create("'delta.enableChangeDataFeed' = 'true'"), ROWS, *CHANGES),
    ),
    "clustering": FeatureTable(
        features=("clustering", "domainMetadata"),
        statements=(_create(clause="CLUSTER BY (word)"), ROWS, "OPTIMIZE {t}"),
    ),
    "Iceberg compatibility V1": FeatureTable(
        features=("icebergCompatV1", "columnMapping"),
        statements=(_create("'delta.enableIcebergCompatV1' = 'true', 'delta.columnMapping.mode' = 'name'"), ROWS),
    ),
    "Iceberg compatibility V2": FeatureTable(
        features=("icebergCompatV2", "columnMapping"),
        statements=(
            _create(
                "'delta.enableIcebergCompatV2' = 'true', 'delta.columnMapping.mode' = 'name'",
                columns="id BIGINT, word STRING, list ARRAY<INT>, map MAP<STRING, STRUCT<x: INT>>",
            ),
            "INSERT INTO {t} VALUES (1, 'a', array(1, 2), map('k', named_struct('x', 5))), (2, 'b', NULL, NULL)",
        ),
        columns="id, word, list, to_json(map) AS map",
        compared="id, word",
    ),
    "in-commit timestamps": FeatureTable(
        features=("inCommitTimestamp",), statements=(_create("'delta.enableInCommitTimestamps' = 'true'"), ROWS)
    ),
    "V2 checkpoints": FeatureTable(
        features=("v2Checkpoint",),
        statements=(
            _create("'delta.checkpointPolicy' = 'v2', 'delta.checkpointInterval' = '2'"),
            ROWS,
            "UPDATE {t} SET word = 'changed' WHERE id = 1",
        ),
    ),
    "domain metadata": FeatureTable(
        features=("domainMetadata",), statements=(_create("'delta.feature.domainMetadata' = 'supported'"), ROWS)
    ),
    "vacuum protocol check": FeatureTable(
        features=("vacuumProtocolCheck",),
        statements=(_create("'delta.feature.vacuumProtocolCheck' = 'supported'"), ROWS),
    ),
    "row tracking": FeatureTable(
        features=("rowTracking", "domainMetadata"),
        statements=(_create("'delta.enableRowTracking' = 'true'"), ROWS, "OPTIMIZE {t}"),
        change="INSERT INTO {t} (id, word) VALUES (50, 'numbered')",
    ),
}


@dataclasses.dataclass(frozen=True, slots=True)
class Refusal:
    """What a program says of a table that it does not support."""

    says: str
    """A part of its message."""
    why: str


_V7 = Refusal(
    "Writer features must be Writer-only", "refuses reader version 2 with writer version 7, which the protocol allows"
)
_MAPPING = Refusal("column mapping", "has no column mapping")
READS_REFUSED: dict[tuple[str, str], Refusal] = {
    ("delta-rs", "type widening"): Refusal("TypeWidening", "lacks the feature"),
    ("delta-rs", "vacuum protocol check"): Refusal("VacuumProtocolCheck", "lacks the feature"),
    ("DuckDB", "column mapping by name"): _V7,
    ("DuckDB", "column mapping by id"): _V7,
    ("DuckDB", "column mapping, upgraded"): _V7,
    ("DuckDB", "Iceberg compatibility V1"): _V7,
    ("DuckDB", "Iceberg compatibility V2"): _V7,
    ("DuckDB", "VARIANT"): Refusal("failed to cast column", "has no type for it"),
    ("delta-rs", "VARIANT, shredded"): Refusal("VariantShredding", "lacks the feature"),
    ("DuckDB", "VARIANT, shredded"): Refusal("variantShredding", "lacks the feature"),
    ("Polars", "VARIANT, shredded"): Refusal("variantShredding", "lacks the feature"),
    ("Polars", "column mapping by name"): _MAPPING,
    ("Polars", "column mapping by id"): _MAPPING,
    ("Polars", "column mapping, upgraded"): _MAPPING,
    ("Polars", "Iceberg compatibility V1"): _MAPPING,
    ("Polars", "Iceberg compatibility V2"): _MAPPING,
    ("Polars", "type widening"): Refusal("typeWidening", "lacks the feature"),
    ("Polars", "VARIANT"): Refusal("LogicalType", "has no type for it"),
    ("Polars", "V2 checkpoints"): Refusal("v2Checkpoint", "lacks the feature"),
    ("Polars", "vacuum protocol check"): Refusal("vacuumProtocolCheck", "lacks the feature"),
}
"""By program and table. A newer version that reads one of these makes a test fail, so that this is put right."""

WRITES_REFUSED: dict[tuple[str, str], Refusal] = {
    ("delta-rs", "default values"): Refusal("AllowColumnDefaults", "lacks the feature"),
    ("delta-rs", "identity columns"): Refusal("IdentityColumns", "lacks the feature"),
    ("delta-rs", "type widening"): Refusal("TypeWidening", "lacks the feature"),
    ("delta-rs", "clustering"): Refusal("DomainMetadata|Clustering", "lacks the feature"),
    ("delta-rs", "Iceberg compatibility V1"): Refusal("IcebergCompatV1", "lacks the feature"),
    ("delta-rs", "Iceberg compatibility V2"): Refusal("IcebergCompatV2", "lacks the feature"),
    ("delta-rs", "in-commit timestamps"): Refusal("InCommitTimestamp", "lacks the feature"),
    ("delta-rs", "domain metadata"): Refusal("DomainMetadata", "lacks the feature"),
    ("delta-rs", "vacuum protocol check"): Refusal("VacuumProtocolCheck", "lacks the feature"),
    ("delta-rs", "VARIANT, shredded"): Refusal("VariantShredding", "lacks the feature"),
    ("delta-rs", "row tracking"): Refusal("RowTracking", "lacks the feature"),
}
"""The same for an append and a delete."""
