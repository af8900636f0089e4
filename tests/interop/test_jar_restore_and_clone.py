"""RESTORE and SHALLOW CLONE beside the delta-spark jar: the same results, the same logs, and each reads the other's."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from interop.arrow_rows import explain, rows_of
from interop.jar import JARS, Jar

pytestmark = [
    pytest.mark.jar,
    pytest.mark.spark,
    pytest.mark.skipif(JARS not in os.environ, reason="needs the delta-spark jar: run `make test-jar`"),
]

TABLES = {
    "vectors": [
        "CREATE TABLE {t} (id INT, p STRING) USING delta PARTITIONED BY (p) "
        "TBLPROPERTIES ('delta.enableDeletionVectors' = 'true', 'mine' = '1')",
        "INSERT INTO {t} SELECT id, concat('p ', id % 2) FROM range(3000)",
        "DELETE FROM {t} WHERE id % 3 = 0",
        "ALTER TABLE {t} ADD COLUMNS (x INT)",
        "INSERT INTO {t} VALUES (-1, 'p 1', 7)",
        "DELETE FROM {t} WHERE id % 5 = 0",
        "ALTER TABLE {t} SET TBLPROPERTIES ('mine' = '2', 'other' = '3')",
    ],
    "features": [
        "CREATE TABLE {t} (k BIGINT GENERATED ALWAYS AS IDENTITY, id INT, n INT) USING delta CLUSTER BY (id) "
        "TBLPROPERTIES ('delta.columnMapping.mode' = 'name', 'delta.enableRowTracking' = 'true', "
        "'delta.enableDeletionVectors' = 'true')",
        "INSERT INTO {t} (id, n) VALUES (1, 1), (2, 2)",
        "ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableInCommitTimestamps' = 'true')",
        "INSERT INTO {t} (id, n) VALUES (3, 3)",
        "ALTER TABLE {t} RENAME COLUMN n TO m",
        "ALTER TABLE {t} CLUSTER BY (m)",
        "ALTER TABLE {t} ADD COLUMNS (n STRING)",
        "INSERT INTO {t} (id, m, n) VALUES (4, 4, 'x')",
    ],
}


def last_commit(root: str) -> dict[str, Any]:
    """The actions of the newest commit, files by what distinguishes them."""
    newest = max(path for path in Path(root, "_delta_log").glob("*.json") if path.stem.isdigit())
    commit: dict[str, Any] = {"adds": {}, "removes": {}, "domains": {}}
    for line in newest.read_text().splitlines():
        ((kind, action),) = json.loads(line).items()
        if kind in {"add", "remove"}:
            action = {name: value for name, value in action.items() if name not in {"deletionTimestamp", "tags"}}
            commit[f"{kind}s"][action["path"], json.dumps(action.get("deletionVector"), sort_keys=True)] = action
        elif kind == "domainMetadata":
            commit["domains"][action["domain"]] = json.loads(action["configuration"])
        elif kind == "commitInfo":
            recorded = action["operationParameters"]
            parameters = {name: str(value) for name, value in recorded.items() if value is not None}
            commit[kind] = {**action, "operationParameters": parameters}
        else:
            commit[kind] = action
    return commit


def described(root: str) -> tuple[Any, Any]:
    """Schema and properties, and the features, as the log has them last."""
    metadata, protocol = None, None
    for path in sorted(path for path in Path(root, "_delta_log").glob("*.json") if path.stem.isdigit()):
        for line in path.read_text().splitlines():
            action = json.loads(line)
            metadata, protocol = action.get("metaData", metadata), action.get("protocol", protocol)
    assert metadata is not None
    assert protocol is not None
    of_table = {**metadata, "schemaString": json.loads(metadata["schemaString"])}
    return of_table, {name: sorted(value) if isinstance(value, list) else value for name, value in protocol.items()}


@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize("version", [1, 3])
def test_both_restore_alike(jar: Jar, native: SparkSession, tmp_path: Path, kind: str, version: int) -> None:
    theirs, ours = str(tmp_path / "theirs"), str(tmp_path / "ours")
    jar.run(*(statement.format(t=f"delta.`{theirs}`") for statement in TABLES[kind]))
    shutil.copytree(theirs, ours)
    (their_result,) = jar.rows(f"RESTORE TABLE delta.`{theirs}` TO VERSION AS OF {version}").to_pylist()
    (our_result,) = native.sql(f"RESTORE TABLE delta.`{ours}` TO VERSION AS OF {version}").toArrow().to_pylist()
    assert our_result == their_result
    one, other = last_commit(ours), last_commit(theirs)
    assert one["commitInfo"]["operation"] == other["commitInfo"]["operation"]
    assert one["commitInfo"]["operationMetrics"] == other["commitInfo"]["operationMetrics"]
    assert one["commitInfo"]["operationParameters"] == other["commitInfo"]["operationParameters"]
    assert one["adds"].keys() == other["adds"].keys()
    assert one["removes"].keys() == other["removes"].keys()
    assert described(ours) == described(theirs)
    read_there = jar.rows(f"SELECT * FROM delta.`{ours}`")
    assert explain(rows_of(read_there), rows_of(jar.rows(f"SELECT * FROM delta.`{theirs}`"))) == ""
    assert explain(rows_of(native.read.format("delta").load(theirs).toArrow()), rows_of(read_there)) == ""
    details = [jar.rows(f"DESCRIBE DETAIL delta.`{root}`").to_pylist()[0] for root in (ours, theirs)]
    assert details[0]["clusteringColumns"] == details[1]["clusteringColumns"]


@pytest.mark.parametrize("kind", TABLES)
def test_both_clone_alike_and_read_each_others_clones(
    jar: Jar, native: SparkSession, tmp_path: Path, kind: str
) -> None:
    source, theirs, ours = (str(tmp_path / name) for name in ("the source", "theirs", "ours"))
    jar.run(*(statement.format(t=f"delta.`{source}`") for statement in TABLES[kind]))
    clone = "CREATE TABLE delta.`{}` SHALLOW CLONE delta.`{}` TBLPROPERTIES ('own' = 'x')"
    (their_result,) = jar.rows(clone.format(theirs, source)).to_pylist()
    (our_result,) = native.sql(clone.format(ours, source)).toArrow().to_pylist()
    assert our_result == their_result
    one, other = last_commit(ours), last_commit(theirs)
    assert one["adds"].keys() == other["adds"].keys()
    assert one["commitInfo"]["operationMetrics"] == other["commitInfo"]["operationMetrics"]
    assert int(one["commitInfo"]["operationParameters"]["sourceVersion"]) == len(TABLES[kind]) - 1
    (our_metadata, our_protocol), (their_metadata, their_protocol) = described(ours), described(theirs)
    assert our_protocol == their_protocol
    differing = {"id", "configuration"}
    assert {name: value for name, value in our_metadata.items() if name not in differing} == {
        name: value for name, value in their_metadata.items() if name not in differing
    }
    assert our_metadata["configuration"].keys() <= their_metadata["configuration"].keys()
    extra = their_metadata["configuration"].keys() - our_metadata["configuration"].keys()
    assert extra <= {f"delta.inCommitTimestampEnablement{what}" for what in ("Version", "Timestamp")}
    expected = rows_of(jar.rows(f"SELECT * FROM delta.`{source}`"))
    assert explain(rows_of(jar.rows(f"SELECT * FROM delta.`{ours}`")), expected) == ""
    native.conf.set("spark.anabranch.allowedPathPrefixes", source)
    try:
        assert explain(rows_of(native.read.format("delta").load(theirs).toArrow()), expected) == ""
        # Each deletes from the other's clone; the source stays as it is.
        native.sql(f"DELETE FROM delta.`{theirs}` WHERE id = 4")
        jar.run(f"DELETE FROM delta.`{ours}` WHERE id = 4")
        rows = rows_of(jar.rows(f"SELECT * FROM delta.`{theirs}`"))
        assert explain(rows_of(native.read.format("delta").load(ours).toArrow()), rows) == ""
        assert len(rows) == len(expected) - 1
    finally:
        native.conf.unset("spark.anabranch.allowedPathPrefixes")
    assert explain(rows_of(jar.rows(f"SELECT * FROM delta.`{source}`")), expected) == ""
