"""Conditions of errors: those of delta-spark's jar for the same mistake."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from anabranch.tables import DeltaTable

pytestmark = pytest.mark.spark

UNCASTABLE = "DATATYPE_MISMATCH.CAST_WITHOUT_SUGGESTION"
OVERFLOW = "CAST_OVERFLOW_IN_TABLE_INSERT"
OVERFLOW_OF_ROWS = "DELTA_CAST_OVERFLOW_IN_TABLE_WRITE"
FIELDS = "DELTA_UPDATE_SCHEMA_MISMATCH_EXPRESSION"
NESTED = "DELTA_UNSUPPORTED_NESTED_FIELD_IN_UPDATE"
VIEW = "EXPECT_TABLE_NOT_VIEW.NO_ALTERNATIVE"
MERGE = "MERGE INTO {t} t USING {source} s ON t.k = s.k"
STATEMENTS: list[tuple[str, str]] = [
    ("UPDATE {t} SET k = DATE'2020-01-01'", UNCASTABLE),
    (f"{MERGE} WHEN MATCHED THEN UPDATE SET k = s.d", UNCASTABLE),
    (f"{MERGE} WHEN NOT MATCHED THEN INSERT (k) VALUES (s.d)", UNCASTABLE),
    ("INSERT INTO {t} SELECT DATE'2020-01-01', named_struct('a', 1), array(named_struct('a', 1))", UNCASTABLE),
    ("INSERT INTO {t} VALUES (DATE'2020-01-01', named_struct('a', 1), array(named_struct('a', 1)))", UNCASTABLE),
    ("INSERT OVERWRITE {t} VALUES (DATE'2020-01-01', named_struct('a', 1), NULL)", UNCASTABLE),
    ("UPDATE {t} SET s = named_struct('a', 1, 'z', 2)", FIELDS),
    (f"{MERGE} WHEN MATCHED THEN UPDATE SET s = s.s", FIELDS),
    (f"{MERGE} WHEN NOT MATCHED THEN INSERT (k, s) VALUES (s.k, s.s)", FIELDS),
    ("UPDATE {t} SET items.a = 5", NESTED),
    (f"{MERGE} WHEN MATCHED THEN UPDATE SET items.a = 5", NESTED),
    ("INSERT INTO {t} (k) VALUES (3000000000)", OVERFLOW),
    ("INSERT INTO {t} SELECT id * 3000000000, NULL, NULL FROM range(1, 2)", OVERFLOW),
    ("INSERT INTO {t} BY NAME SELECT 3000000000 AS k", OVERFLOW),
    ("UPDATE {t} SET k = 3000000000", OVERFLOW_OF_ROWS),
    (f"{MERGE} WHEN MATCHED THEN UPDATE SET k = s.big", OVERFLOW_OF_ROWS),
    ("OPTIMIZE {view}", VIEW),
    ("OPTIMIZE {view}_of_session", VIEW),
    ("VACUUM {view}", VIEW),
    ("DESCRIBE HISTORY {view}", VIEW),
    ("TRUNCATE TABLE {t} PARTITION (k = 1)", "DELTA_TRUNCATE_TABLE_PARTITION_NOT_SUPPORTED"),
]


def test_statements_raise_the_jars_conditions(delta: SparkSession, name: str) -> None:
    """Covers bug B104, by name; `make test-statements` compares many more."""
    delta.sql(
        f"CREATE TABLE {name} (k INT, s STRUCT<a: INT>, items ARRAY<STRUCT<a: INT>>) USING delta PARTITIONED BY (k)"
    )
    delta.sql(f"INSERT INTO {name} VALUES (1, named_struct('a', 1), array(named_struct('a', 1)))")
    delta.sql(f"CREATE VIEW {name}_view AS SELECT * FROM {name}")
    delta.sql(f"SELECT * FROM {name}").createOrReplaceTempView(f"{name}_view_of_session")
    try:
        raised = []
        for statement, _ in STATEMENTS:
            matched = "WHEN MATCHED" in statement
            source = f"(SELECT {1 if matched else 9} AS k, DATE'2020-01-01' AS d, named_struct('a', 1, 'z', 2) AS s, 3000000000 AS big)"
            raised.append(
                (statement, condition(lambda: delta.sql(statement.format(t=name, view=f"{name}_view", source=source))))  # noqa: B023
            )
        assert raised == STATEMENTS
        delta.conf.set("spark.sql.storeAssignmentPolicy", "STRICT")
        assert condition(lambda: delta.sql(f"UPDATE {name} SET k = 5L")) == "CANNOT_UP_CAST_DATATYPE"
    finally:
        delta.conf.unset("spark.sql.storeAssignmentPolicy")
        delta.sql(f"DROP VIEW {name}_view")
    assert DeltaTable.forName(delta, name).history().count() == 2


def test_calls_raise_the_jars_conditions(delta: SparkSession, path: str) -> None:
    """Covers bug B104, by path and by the API."""
    delta.sql(f"CREATE TABLE delta.`{path}` USING delta AS SELECT 1 AS k")
    table, source, other = (
        DeltaTable.forPath(delta, path).alias("t"),
        delta.sql("SELECT 1 AS k").alias("s"),
        delta.range(3),
    )
    merging = "DELTA_MERGE_RESOLVED_ATTRIBUTE_MISSING_FROM_INPUT"
    big = delta.sql("SELECT 3000000000 AS k")
    calls: list[tuple[Callable[[], Any], str]] = [
        (table.merge(source, other.id == 1).whenMatchedDelete().execute, merging),
        (table.merge(source, "t.k = s.k").whenMatchedDelete(other.id == 1).execute, merging),
        (table.merge(source, "t.k = s.k").whenMatchedUpdate(set={"k": other.id}).execute, merging),
        (lambda: table.update(set={"k": "DATE'2020-01-01'"}), UNCASTABLE),
        (lambda: table.update(set={"k": "3000000000"}), OVERFLOW_OF_ROWS),
        (lambda: big.writeTo(f"delta.`{path}`").append(), OVERFLOW),
        (
            lambda: delta.range(2).write.format("delta").partitionBy("nothing").save(f"{path}-2"),
            "DELTA_PARTITION_COLUMN_NOT_FOUND",
        ),
        (lambda: big.write.format("delta").mode("append").save(path), "DELTA_FAILED_TO_MERGE_FIELDS"),
    ]
    assert [condition(call) for call, _ in calls] == [expected for _, expected in calls]
    assert table.history().count() == 1


def condition(call: Callable[[], Any]) -> str | None:
    with pytest.raises(PySparkException) as raised:
        call()
    found: str | None = raised.value.getCondition()
    return found
