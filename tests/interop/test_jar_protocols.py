"""Tables require exactly the features that they use, as with the delta-spark jar: one statement, two protocols.

Each statement says whether the table has deletion vectors, since the two differ in what they take for granted.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from interop.jar import JARS, Jar

pytestmark = [
    pytest.mark.jar,
    pytest.mark.spark,
    pytest.mark.skipif(JARS not in os.environ, reason="needs the delta-spark jar: run `make test-jar`"),
]

PLAIN = "id BIGINT"
NO_VECTORS = "'delta.enableDeletionVectors' = 'false'"
CREATIONS = {
    "nothing": (PLAIN, NO_VECTORS),
    "deletion vectors": (PLAIN, "'delta.enableDeletionVectors' = 'true'"),
    "append-only": (PLAIN, f"'delta.appendOnly' = 'true', {NO_VECTORS}"),
    "not null": ("id BIGINT NOT NULL", NO_VECTORS),
    "generated": ("id BIGINT, twice BIGINT GENERATED ALWAYS AS (id * 2)", NO_VECTORS),
    "identity": ("id BIGINT GENERATED ALWAYS AS IDENTITY, v INT", NO_VECTORS),
    "default": ("id BIGINT DEFAULT 7", f"'delta.feature.allowColumnDefaults' = 'supported', {NO_VECTORS}"),
    "change data feed": (PLAIN, f"'delta.enableChangeDataFeed' = 'true', {NO_VECTORS}"),
    "column mapping by name": (PLAIN, f"'delta.columnMapping.mode' = 'name', {NO_VECTORS}"),
    "column mapping by id": (PLAIN, f"'delta.columnMapping.mode' = 'id', {NO_VECTORS}"),
    "row tracking": (PLAIN, f"'delta.enableRowTracking' = 'true', {NO_VECTORS}"),
    "type widening": (PLAIN, f"'delta.enableTypeWidening' = 'true', {NO_VECTORS}"),
    "timestamp_ntz": ("at TIMESTAMP_NTZ", NO_VECTORS),
    "variant": ("v VARIANT", NO_VECTORS),
    "in-commit timestamps": (PLAIN, f"'delta.enableInCommitTimestamps' = 'true', {NO_VECTORS}"),
    "v2 checkpoints": (PLAIN, f"'delta.checkpointPolicy' = 'v2', {NO_VECTORS}"),
    "varchar": ("v VARCHAR(3)", NO_VECTORS),
    "old versions": (PLAIN, f"'delta.minReaderVersion' = '1', 'delta.minWriterVersion' = '4', {NO_VECTORS}"),
    "a feature by name": (PLAIN, f"'delta.feature.vacuumProtocolCheck' = 'supported', {NO_VECTORS}"),
    "many": (
        "id BIGINT NOT NULL, at TIMESTAMP_NTZ, twice BIGINT GENERATED ALWAYS AS (id * 2)",
        "'delta.columnMapping.mode' = 'name', 'delta.enableChangeDataFeed' = 'true', 'delta.enableDeletionVectors' = 'true'",
    ),
}
CHANGES = {
    "a constraint": "ADD CONSTRAINT c CHECK (id > 0)",
    "append-only": "SET TBLPROPERTIES ('delta.appendOnly' = 'true')",
    "change data feed": "SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')",
    "column mapping": "SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')",
    "deletion vectors": "SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')",
    "type widening": "SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true')",
    "in-commit timestamps": "SET TBLPROPERTIES ('delta.enableInCommitTimestamps' = 'true')",
    "v2 checkpoints": "SET TBLPROPERTIES ('delta.checkpointPolicy' = 'v2')",
    "a variant": "ADD COLUMNS (v VARIANT)",
    "timestamp_ntz by name": "SET TBLPROPERTIES ('delta.feature.timestampNtz' = 'supported')",
    "versions": "SET TBLPROPERTIES ('delta.minWriterVersion' = '5')",
}


@pytest.fixture(scope="module")
def jar() -> Iterator[Jar]:
    opened = Jar()
    yield opened
    opened.close()


def protocol_of(root: Path) -> dict[str, Any]:
    """The newest one of the log, features as sets."""
    protocol: dict[str, Any] = {}
    for commit in sorted((root / "_delta_log").glob("*.json")):
        for line in commit.read_text("utf-8").splitlines():
            protocol = json.loads(line).get("protocol", protocol)
    return {name: set(value) if isinstance(value, list) else value for name, value in protocol.items()}


@pytest.mark.parametrize("case", CREATIONS)
def test_new_tables(jar: Jar, native: SparkSession, tmp_path: Path, case: str) -> None:
    columns, properties = CREATIONS[case]
    for who, run in (("theirs", jar.run), ("ours", native.sql)):
        run(f"CREATE TABLE delta.`{tmp_path / who}` ({columns}) USING delta TBLPROPERTIES ({properties})")
    assert protocol_of(tmp_path / "ours") == protocol_of(tmp_path / "theirs")


@pytest.mark.parametrize("case", CHANGES)
def test_changed_tables(jar: Jar, native: SparkSession, tmp_path: Path, case: str) -> None:
    for who, run in (("theirs", jar.run), ("ours", native.sql)):
        run(f"CREATE TABLE delta.`{tmp_path / who}` (id BIGINT) USING delta TBLPROPERTIES ({NO_VECTORS})")
        run(f"ALTER TABLE delta.`{tmp_path / who}` {CHANGES[case]}")
    assert protocol_of(tmp_path / "ours") == protocol_of(tmp_path / "theirs")
