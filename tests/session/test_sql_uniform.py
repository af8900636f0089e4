"""Tables that Iceberg can read."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from anabranch.errors.arguments import UnsupportedOperationError
from anabranch.errors.other_formats import UniFormFormatError, UniFormNeedsCompatError
from interop.readers import read_iceberg_by_duckdb
from session.documented import statement

pytestmark = pytest.mark.spark


@statement("REORG TABLE t APPLY (UPGRADE UNIFORM(ICEBERG_COMPAT_VERSION = 2))")
def test_upgrade(delta: SparkSession, path: str) -> None:
    """Makes the table readable for Iceberg, too: sets the properties, and rewrites files that Iceberg could not
    read."""
    delta.range(3).coalesce(1).write.format("delta").save(path)
    with pytest.raises(UnsupportedOperationError, match="as a whole"):
        delta.sql(f"REORG TABLE delta.`{path}` WHERE id = 1 APPLY (UPGRADE UNIFORM(ICEBERG_COMPAT_VERSION = 2))")
    delta.sql(f"REORG TABLE delta.`{path}` APPLY (UPGRADE UNIFORM(ICEBERG_COMPAT_VERSION = 2))")
    assert sorted(row["id"] for row in read_iceberg_by_duckdb(path).to_pylist()) == [0, 1, 2]


@statement(
    "CREATE TABLE t … TBLPROPERTIES ('delta.enableIcebergCompatV2' = 'true', 'delta.universalFormat.enabledFormats' = 'iceberg')"
)
def test_create(delta: SparkSession, path: str) -> None:
    """Creates a table of which Iceberg's readers can read every version. Column mapping is turned on with it."""
    with pytest.raises(UniFormNeedsCompatError):
        delta.sql(
            f"CREATE TABLE delta.`{path}` USING delta "
            "TBLPROPERTIES ('delta.universalFormat.enabledFormats' = 'iceberg') AS SELECT 1 AS id"
        )
    with pytest.raises(UniFormFormatError, match="hudi"):
        delta.sql(
            f"CREATE TABLE delta.`{path}` (id INT) USING delta "
            "TBLPROPERTIES ('delta.universalFormat.enabledFormats' = 'hudi')"
        )
    delta.sql(
        f"CREATE TABLE delta.`{path}` USING delta PARTITIONED BY (p) TBLPROPERTIES ('delta.enableIcebergCompatV2' = "
        "'true', 'delta.universalFormat.enabledFormats' = 'iceberg') AS SELECT 1 AS id, map('k', array(1)) AS m, 'a' AS p"
    )
    assert read_iceberg_by_duckdb(path).to_pylist() == [{"id": 1, "m": [("k", [1])], "p": "a"}]
