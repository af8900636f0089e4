"""Tables with UniForm, read by Iceberg's own runtime for Spark: `make test-iceberg`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from interop.iceberg_program import ANSWER

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(
        "ANABRANCH_ICEBERG_JAR" not in os.environ, reason="needs Iceberg's runtime: run `make test-iceberg`"
    ),
]

V1 = "'delta.enableIcebergCompatV1' = 'true', 'delta.columnMapping.mode' = 'name'"
V2 = "'delta.enableIcebergCompatV2' = 'true'"
PLAIN = (
    "id BIGINT, a INT, d DECIMAL(20,4), f DOUBLE, b BOOLEAN, s STRING, x BINARY, day DATE, at TIMESTAMP, "
    "st STRUCT<n: INT, m: STRUCT<w: STRING>>"
)
VALUES = (
    "id, cast(id % 3 AS INT), cast(id / 7 AS DECIMAL(20,4)), if(id = 2, 'NaN', id / 3), id % 2 = 0, concat('ü', id), "
    "cast(concat('x', id) AS BINARY), date'2020-01-01' + cast(id AS INT), "
    "timestamp'2021-03-04 05:06:07.123456' + make_interval(0, 0, 0, 0, cast(id AS INT)), "
    "if(id = 4, null, named_struct('n', cast(id AS INT), 'm', named_struct('w', concat('w', id))))"
)
TABLES: Mapping[str, tuple[str, ...]] = {
    "V1": (
        f"CREATE TABLE {{t}} ({PLAIN}) USING delta PARTITIONED BY (s) TBLPROPERTIES ({V1}, {{uniform}})",
        f"INSERT INTO {{t}} SELECT {VALUES} FROM range(9)",
        "DELETE FROM {t} WHERE id = 3",
        "ALTER TABLE {t} ADD COLUMN late INT",
        "UPDATE {t} SET late = 5, a = NULL WHERE id > 6",
    ),
    "V2, nested": (
        f"CREATE TABLE {{t}} ({PLAIN}, l ARRAY<STRUCT<v: INT>>, m MAP<STRING, ARRAY<BIGINT>>) USING delta "
        f"TBLPROPERTIES ({V2}, {{uniform}})",
        f"INSERT INTO {{t}} SELECT {VALUES}, array(named_struct('v', cast(id AS INT)), null), "
        "if(id = 1, null, map('k', array(id, null))) FROM range(9)",
        "ALTER TABLE {t} RENAME COLUMN f TO g",
        "ALTER TABLE {t} ADD COLUMN l.element.u STRING",
        "UPDATE {t} SET g = -1 WHERE id = 5",
        "MERGE INTO {t} USING (SELECT 40L AS id) s ON {t}.id = s.id WHEN NOT MATCHED THEN INSERT (id) VALUES (s.id)",
        "OPTIMIZE {t}",
    ),
    "V2, rows tracked": (
        f"CREATE TABLE {{t}} (id BIGINT, p STRING) USING delta PARTITIONED BY (p) "
        f"TBLPROPERTIES ({V2}, 'delta.enableRowTracking' = 'true', {{uniform}})",
        "INSERT INTO {t} SELECT id, if(id % 2 = 0, 'e', null) FROM range(9)",
        "UPDATE {t} SET id = id + 100 WHERE id IN (2, 3)",
        "OPTIMIZE {t}",
        "DELETE FROM {t} WHERE id = 5",
    ),
}


def rows_by_iceberg(paths: list[str]) -> dict[str, list[str]]:
    program = Path(__file__).with_name("iceberg_program.py")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, str(program), *paths]
    ran = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert ran.returncode == 0, ran.stderr[-4000:]
    (line,) = (line for line in ran.stdout.splitlines() if line.startswith(ANSWER))
    rows: dict[str, list[str]] = json.loads(line.removeprefix(ANSWER))
    return rows


def test_iceberg_reads_what_is_there(native: SparkSession, tmp_path: Path) -> None:
    uniform = "'delta.universalFormat.enabledFormats' = 'iceberg'"
    ours: dict[str, Any] = {}
    for kind, statements in TABLES.items():
        root = str(tmp_path / kind.replace(",", "").replace(" ", "-"))
        for statement in statements:
            native.sql(statement.replace("{t}", f"delta.`{root}`").replace("{uniform}", uniform))
        version = native.sql(f"DESCRIBE HISTORY delta.`{root}`").first()["version"]
        rows = native.read.format("delta").load(root)
        ours[f"{root}/metadata/v{version}.metadata.json"] = sorted(rows.toJSON().collect())
    assert rows_by_iceberg([*ours]) == ours
