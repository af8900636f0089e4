"""What becomes of values of another type: `spark.sql.storeAssignmentPolicy` decides, `spark.sql.ansi.enabled` does not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession

from anabranch.errors.constraints import CastOverflowError, MalformedValueError
from anabranch.tables import DeltaTable

pytestmark = [pytest.mark.spark, pytest.mark.long]

VALUES = {
    "i INT": ["3000000000L", "1e20D", "'x'", "'12.7'", "double('NaN')", "DATE'2020-01-01'", "TIMESTAMP'2040-01-01'"],
    "y TINYINT": ["300", "-129S", "1e20D"],
    "l BIGINT": ["1e20D", "DATE'2020-01-01'"],
    "n DECIMAL(4, 1)": ["12345.67BD", "'1.26'"],
    "b BOOLEAN": ["2", "'maybe'", "DATE'2020-01-01'"],
    "at TIMESTAMP": ["true", "'x'"],
    "x BINARY": ["258"],
}
"""By the column that takes them; each becomes another value, or none."""


@pytest.fixture(params=["true", "false"])
def ansi(delta: SparkSession, request: pytest.FixtureRequest) -> Iterator[None]:
    delta.conf.set("spark.sql.ansi.enabled", request.param)
    yield
    delta.conf.unset("spark.sql.ansi.enabled")
    delta.conf.unset("spark.sql.storeAssignmentPolicy")


def ways(delta: SparkSession, name: str, value: str) -> dict[str, Callable[[], Any]]:
    """Each puts the value into column v."""
    query = f"SELECT {value} AS v"
    frame = delta.sql(query)
    source = f"USING ({query}) s ON true WHEN MATCHED THEN UPDATE SET v = s.v"
    return {
        "BY NAME": lambda: delta.sql(f"INSERT INTO {name} BY NAME {query}"),
        "UPDATE": lambda: delta.sql(f"UPDATE {name} SET v = {value}"),
        "update": lambda: DeltaTable.forName(delta, name).update(set={"v": value}),
        "MERGE": lambda: delta.sql(f"MERGE INTO {name} {source}"),
        "insertInto": lambda: frame.write.insertInto(name),
        "saveAsTable": lambda: frame.write.format("delta").mode("append").saveAsTable(name),
        "writeTo": lambda: frame.writeTo(name).append(),
    }


def test_legacy_casts_are_those_of_spark(delta: SparkSession, name: str, ansi: None) -> None:
    """Covers bug B105: what a Parquet table gets, a Delta table gets: numbers wrap around or are cut."""
    delta.conf.set("spark.sql.storeAssignmentPolicy", "LEGACY")
    kinds = {column.split()[0]: column for column in VALUES}
    delta.sql(f"CREATE TABLE {name}_p (id INT, {', '.join(kinds.values())}) USING parquet")
    delta.sql(f"CREATE TABLE {name} (id INT, {', '.join(kinds.values())}) USING delta")
    cases = max(map(len, VALUES.values()))
    for number in range(cases):
        row_values = {column: values[number % len(values)] for column, values in VALUES.items()}
        selected = ", ".join(f"{value} AS {column.split()[0]}" for column, value in row_values.items())
        delta.sql(f"INSERT INTO {name}_p SELECT {number} AS id, {selected}")
        delta.sql(f"INSERT INTO {name} SELECT {number} AS id, {selected}")
    read = [f"CAST({column} AS STRING)" for column in kinds]
    rows = {table: delta.table(table).orderBy("id").selectExpr(*read).collect() for table in (name, f"{name}_p")}
    assert rows[name] == rows[f"{name}_p"]
    delta.sql(f"DROP TABLE {name}_p")


@pytest.mark.parametrize(("policy", "wanted"), [("LEGACY", -1294967296), ("ANSI", None)])
def test_every_way_of_writing_casts_alike(
    delta: SparkSession, name: str, ansi: None, policy: str, wanted: int | None
) -> None:
    """Covers bug B105: wrapped around or refused, also inside structs, arrays and maps."""
    delta.conf.set("spark.sql.storeAssignmentPolicy", policy)
    nested = "named_struct('a', 3000000000L, 'l', array(3000000000L), 'm', map(3000000000L, 3000000000L))"
    for kind, value in (("INT", "3000000000L"), ("STRUCT<a: INT, l: ARRAY<INT>, m: MAP<INT, INT>>", nested)):
        delta.sql(f"CREATE OR REPLACE TABLE {name} (v {kind}) USING delta")
        delta.sql(f"INSERT INTO {name} VALUES (NULL)")
        for way, write in ways(delta, name, value).items():
            if wanted is None:
                with pytest.raises(CastOverflowError, match="3000000000"):
                    write()
                continue
            write()
            for row in delta.table(name).where("v IS NOT NULL").collect():
                stored = {row.v} if isinstance(row.v, int) else {row.v.a, *row.v.l, *row.v.m, *row.v.m.values()}
                assert stored == {wanted}, way
        if wanted is None:
            assert [row.v for row in delta.table(name).collect()] == [None]
    if policy == "ANSI":
        with pytest.raises(MalformedValueError, match=r"v\.a"):
            delta.sql(f"INSERT INTO {name} SELECT named_struct('a', 'x', 'l', array(1), 'm', map(1, 1)) AS v")
