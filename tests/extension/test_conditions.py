"""Conditions of errors: those of delta-spark's jar for the same mistake."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from anabranch.errors.constraints import MetadataColumnError
from anabranch.tables import DeltaTable

pytestmark = pytest.mark.spark

UNCASTABLE = "DATATYPE_MISMATCH.CAST_WITHOUT_SUGGESTION"
MERGE = "MERGE INTO {t} t USING {source} s ON t.k = s.k"
STATEMENTS: list[tuple[str, str]] = [
    ("UPDATE {t} SET k = DATE'2020-01-01'", UNCASTABLE),
    (f"{MERGE} WHEN MATCHED THEN UPDATE SET k = s.d", UNCASTABLE),
    (f"{MERGE} WHEN NOT MATCHED THEN INSERT (k) VALUES (s.d)", UNCASTABLE),
    ("INSERT INTO {t} SELECT DATE'2020-01-01', named_struct('a', 1), array(named_struct('a', 1))", UNCASTABLE),
    ("INSERT INTO {t} VALUES (DATE'2020-01-01', named_struct('a', 1), array(named_struct('a', 1)))", UNCASTABLE),
    ("INSERT OVERWRITE {t} VALUES (DATE'2020-01-01', named_struct('a', 1), NULL)", UNCASTABLE),
]


def test_values_that_no_cast_makes_fit(delta: SparkSession, name: str) -> None:
    """The jar's conditions are other kinds of the same; what else it raises is in `tests/differential`."""
    delta.sql(
        f"CREATE TABLE {name} (k INT, s STRUCT<a: INT>, items ARRAY<STRUCT<a: INT>>) USING delta PARTITIONED BY (k)"
    )
    delta.sql(f"INSERT INTO {name} VALUES (1, named_struct('a', 1), array(named_struct('a', 1)))")
    raised = []
    for statement, _ in STATEMENTS:
        source = f"(SELECT {1 if 'WHEN MATCHED' in statement else 9} AS k, DATE'2020-01-01' AS d)"
        raised.append((statement, condition(functools.partial(delta.sql, statement.format(t=name, source=source)))))
    assert raised == STATEMENTS
    table = DeltaTable.forName(delta, name)
    assert condition(lambda: table.update(set={"k": "DATE'2020-01-01'"})) == UNCASTABLE
    assert condition(lambda: table.update(set={"k": "3000000000"})) == "DELTA_CAST_OVERFLOW_IN_TABLE_WRITE"
    assert table.history().count() == 2


def test_metadata_of_what_has_none_is_refused_by_name(delta: SparkSession, path: str, name: str) -> None:
    """Covers bug B101: the error says what to do where there is no `_metadata`."""
    delta.sql(f"CREATE TABLE {name} USING delta AS SELECT 1L AS id, 2L AS n")
    delta.sql(f"SELECT * FROM {name}").createOrReplaceTempView(f"{name}_view")
    delta.sql(f"SELECT *, _metadata FROM {name}").createOrReplaceTempView(f"{name}_with")
    is_bad, rows = "_metadata.file_name IS NULL", delta.sql("SELECT 1L AS id, 2L AS n")
    overwriting = rows.write.format("delta").mode("overwrite").option("replaceWhere", is_bad)
    calls: list[tuple[Callable[[], Any], str]] = [
        (lambda: delta.sql(f"DELETE FROM {name}_view WHERE {is_bad}"), "Name the table"),
        (lambda: delta.sql(f"UPDATE {name}_view SET id = 2 WHERE {is_bad}"), "Name the table"),
        (lambda: delta.sql(f"INSERT INTO {name} REPLACE WHERE {is_bad} SELECT 1, 2"), "DELETE FROM"),
        (lambda: rows.writeTo(name).overwrite(F.expr(is_bad)), "DELETE FROM"),
        (lambda: overwriting.saveAsTable(name), "DELETE FROM"),
        (lambda: overwriting.save(path), "DELETE FROM"),
    ]
    for call, way_out in calls:
        with pytest.raises(MetadataColumnError, match=way_out) as raised:
            call()
        assert raised.value.getCondition() == "UNRESOLVED_COLUMN.WITH_SUGGESTION"
    assert delta.sql(f"DELETE FROM {name}_with WHERE {is_bad}").first() == (0,)
    merge = f"MERGE INTO {name}_view t USING {name} s ON t.id = s.id AND s._metadata.file_name IS NOT NULL"
    assert delta.sql(f"{merge} WHEN MATCHED THEN UPDATE SET n = 3").first().num_updated_rows == 1  # type: ignore[union-attr]
    delta.sql(f"CREATE TABLE {name}_own USING delta AS SELECT named_struct('k', 1) AS _metadata, 1 AS id")
    delta.sql(f"INSERT INTO {name}_own REPLACE WHERE _metadata.k = 1 SELECT named_struct('k', 1), 2")
    assert delta.sql(f"SELECT id FROM {name}_own").collect() == [(2,)]


def condition(call: Callable[[], Any]) -> str | None:
    with pytest.raises(PySparkException) as raised:
        call()
    condition_name: str | None = raised.value.getCondition()
    return condition_name
