"""CONVERT TO DELTA, by the delta-spark jar and by anabranch, of one folder."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from anabranch.tables import DeltaTable
from interop.jar import JARS, Jar

pytestmark = [
    pytest.mark.jar,
    pytest.mark.spark,
    pytest.mark.skipif(JARS not in os.environ, reason="needs the delta-spark jar: run `make test-jar`"),
]


def commit(root: str) -> dict[str, list[dict[str, Any]]]:
    """The actions of version 0 by kind."""
    actions: dict[str, list[dict[str, Any]]] = {}
    for line in Path(root, "_delta_log", f"{0:020}.json").read_text().splitlines():
        [(kind, action)] = json.loads(line).items()
        actions.setdefault(kind, []).append(action)
    return actions


def test_both_make_the_same_table_of_a_folder(jar: Jar, native: SparkSession, tmp_path: Path) -> None:
    """Schema, paths, partition values and statistics; and the jar reads from ours what we read."""
    ours, theirs = str(tmp_path / "ours"), str(tmp_path / "theirs")
    rows = native.range(0, 12, 1, 2).selectExpr(
        "id",
        "CAST(id AS SMALLINT) AS n",
        "id / 4 AS x",
        "IF(id = 3, NULL, date'2020-01-31' + CAST(id AS INT)) AS d",
        "CAST(id AS DECIMAL(9, 2)) AS amount",
        "named_struct('a', concat('a', id), 'many', array(id)) AS s",
        "CAST(id % 2 AS INT) AS k",
        "element_at(array('a b/c%', 'ü=1', NULL), CAST(id % 3 AS INT) + 1) AS w",
    )
    rows.write.partitionBy("k", "w").parquet(ours)
    wider = native.range(20, 22, 1, 1).selectExpr("id", "CAST(100000 AS INT) AS n", "'more' AS late")
    wider.write.parquet(f"{ours}/k=7/w=z")
    shutil.copytree(ours, theirs)
    clause = "PARTITIONED BY (k INT, w STRING)"
    jar.run(f"CONVERT TO DELTA parquet.`{theirs}` {clause}")
    DeltaTable.convertToDelta(native, f"parquet.`{ours}`", "k INT, w STRING")
    one, other = commit(ours), commit(theirs)
    columns = [
        sorted(json.loads(actions["metaData"][0]["schemaString"])["fields"], key=lambda field: field["name"])
        for actions in (one, other)
    ]
    assert columns[0] == columns[1]
    assert one["metaData"][0]["partitionColumns"] == other["metaData"][0]["partitionColumns"]
    files = [
        {
            add["path"]: (add["partitionValues"], add["size"], {**json.loads(add["stats"]), "tightBounds": None})
            for add in actions["add"]
        }
        for actions in (one, other)
    ]
    assert files[0].keys() == files[1].keys()
    for path, (values, size, statistics) in files[0].items():
        expected = files[1][path]
        assert (values, size, statistics["numRecords"]) == (expected[0], expected[1], expected[2]["numRecords"]), path
        for bound in ("minValues", "maxValues"):
            # The jar writes an empty bound for a struct without values.
            bounds = {name: value for name, value in expected[2][bound].items() if value != {}}
            assert statistics[bound] == bounds, path
    our_info, their_info = one["commitInfo"][0], other["commitInfo"][0]
    for field in ("operation", "operationMetrics", "isBlindAppend"):
        assert our_info[field] == their_info[field], field
    # The jar writes numbers and truth values as such; in its history they are texts, as ours are in the log.
    parameters = their_info["operationParameters"]
    as_texts = {name: value if isinstance(value, str) else json.dumps(value) for name, value in parameters.items()}
    assert our_info["operationParameters"] == as_texts
    query = f"SELECT * FROM delta.`{ours}`"
    assert sorted(map(str, jar.rows(query).to_pylist())) == sorted(map(str, native.sql(query).toArrow().to_pylist()))
    jar.run(f"DELETE FROM delta.`{ours}` WHERE id = 21")
    assert native.sql(query).count() == 13


def test_both_write_the_same_manifests(jar: Jar, native: SparkSession, tmp_path: Path) -> None:
    root = str(tmp_path / "a table")
    frame = native.range(0, 9, 1, 2).selectExpr(
        "id", "element_at(array('a b', 'c=d', NULL), CAST(id % 3 AS INT) + 1) AS w"
    )
    frame.write.format("delta").option("delta.enableDeletionVectors", "false").partitionBy("w").save(root)
    manifests = []
    for generate in (native.sql, jar.run):
        shutil.rmtree(f"{root}/_symlink_format_manifest", ignore_errors=True)
        generate(f"GENERATE symlink_format_manifest FOR TABLE delta.`{root}`")
        files = [file for file in Path(root, "_symlink_format_manifest").rglob("manifest") if file.is_file()]
        manifests.append({str(file): sorted(file.read_text().splitlines()) for file in files})
    assert manifests[0] == manifests[1]
    assert len(manifests[0]) == 3
