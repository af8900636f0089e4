"""The words of delta-spark's messages by which programs know an error, in ours."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.errors import AnalysisException, PySparkException, UnsupportedOperationException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from anabranch.tables import DeltaTable, IdentityGenerator

pytestmark = pytest.mark.spark


@dataclasses.dataclass(frozen=True)
class Tables:
    """One table by path, one by name, and how statements know the first."""

    spark: SparkSession
    path: str
    name: str

    @property
    def sql(self) -> str:
        return f"delta.`{self.path}`"

    @property
    def table(self) -> DeltaTable:
        return DeltaTable.forPath(self.spark, self.path)


WORDS: dict[str, tuple[type[BaseException], Callable[[Tables], Any]]] = {
    "A schema mismatch detected when writing to the Delta table": (
        AnalysisException,
        lambda on: on.spark.sql("SELECT 1 AS k, 1 AS more").write.format("delta").mode("append").save(on.path),
    ),
    "Failed to merge fields": (
        AnalysisException,
        lambda on: on.spark.sql("SELECT array(1) AS k").write.format("delta").mode("append").save(on.path),
    ),
    "Cannot resolve v in UPDATE clause given": (
        AnalysisException,
        lambda on: on.spark.sql(
            f"MERGE INTO {on.sql} t USING (SELECT 1 AS k) s ON t.k = s.k WHEN MATCHED THEN UPDATE SET *"
        ),
    ),
    "Cannot resolve v in INSERT clause given": (
        AnalysisException,
        lambda on: on.spark.sql(
            f"MERGE INTO {on.sql} t USING (SELECT 9 AS k) s ON t.k = s.k WHEN NOT MATCHED THEN INSERT *"
        ),
    ),
    "already exists": (
        AnalysisException,
        lambda on: DeltaTable.create(on.spark).tableName(on.name).addColumn("k", "INT").execute(),
    ),
    "did not exist|cannot be found": (
        AnalysisException,
        lambda on: DeltaTable.replace(on.spark).tableName(f"{on.name}_not").addColumn("k", "INT").execute(),
    ),
    "Cannot write to already existent path": (
        AnalysisException,
        lambda on: on.spark.range(1).write.format("delta").save(on.path),
    ),
    r"featureName needs to be a string but got '<class 'int'>'": (
        ValueError,
        lambda on: on.table.addFeatureSupport(12),  # type: ignore[arg-type]
    ),
    r"timestamp needs to be a string but got": (
        ValueError,
        lambda on: on.table.restoreToTimestamp(12),  # type: ignore[arg-type]
    ),
    r"The provided timestamp \('no time'\) cannot be converted to a valid timestamp": (
        AnalysisException,
        lambda on: on.table.restoreToTimestamp("no time"),
    ),
    r"Predicate references non-partition column 'v'\. Only the partition columns may be referenced: \[p\]": (
        AnalysisException,
        lambda on: on.table.optimize().where("v = 'a'").executeCompaction(),
    ),
    "p is a partition column. Z-Ordering can only be performed on data columns": (
        AnalysisException,
        lambda on: on.table.optimize().executeZOrderBy("p"),
    ),
    "is not supported for IDENTITY columns": (
        UnsupportedOperationException,
        lambda on: (
            DeltaTable.create(on.spark)
            .tableName(f"{on.name}_not")
            .addColumn("k", "int", generatedAlwaysAs=IdentityGenerator())
            .execute()
        ),
    ),
    r"CHECK constraint positive \(k > 0\) violated by row": (
        PySparkException,
        lambda on: on.spark.sql(f"INSERT INTO {on.sql} VALUES (-1, 'a', 1)"),
    ),
    "NOT NULL constraint violated for column: k": (
        PySparkException,
        lambda on: on.spark.sql(f"INSERT INTO {on.sql} VALUES (NULL, 'a', 1)"),
    ),
    "Cannot perform Merge as multiple source rows matched": (
        PySparkException,
        lambda on: on.spark.sql(
            f"MERGE INTO {on.sql} t USING (SELECT explode(array(1, 1)) AS k) s ON t.k = s.k "
            "WHEN MATCHED THEN UPDATE SET v = 'b'"
        ),
    ),
    "Cannot time travel Delta table to version 99": (
        AnalysisException,
        lambda on: on.spark.read.format("delta").option("versionAsOf", 99).load(on.path),
    ),
    "Written data does not conform to partial table overwrite condition": (
        PySparkException,
        lambda on: (
            on.spark.sql("SELECT 1 AS k, 'a' AS v, 2 AS p")
            .write.format("delta")
            .mode("overwrite")
            .option("replaceWhere", "p = 1")
            .save(on.path)
        ),
    ),
    "is not a Delta table": (
        AnalysisException,
        lambda on: DeltaTable.forPath(on.spark, f"{on.path}-not"),
    ),
}


def test_messages_begin_with_deltas_words(delta: SparkSession, path: str, name: str) -> None:
    """Covers bugs B106 and B91: programs written for Delta look for these in the text."""
    delta.sql(f"CREATE TABLE delta.`{path}` (k INT NOT NULL, v STRING, p INT) USING delta PARTITIONED BY (p)")
    delta.sql(f"ALTER TABLE delta.`{path}` ADD CONSTRAINT positive CHECK (k > 0)")
    delta.sql(f"INSERT INTO delta.`{path}` VALUES (1, 'a', 1)")
    delta.sql(f"CREATE TABLE {name} (k INT) USING delta")
    on = Tables(spark=delta, path=path, name=name)
    missing = {}
    for words, (kind, run) in WORDS.items():
        with pytest.raises(kind) as raised:
            run(on)
        text = str(raised.value)
        if not re.search(words, text):
            missing[words] = text
    assert missing == {}
    assert delta.read.format("delta").load(path).where(F.col("k") == 1).count() == 1
