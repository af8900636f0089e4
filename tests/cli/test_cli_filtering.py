"""Conditions on Arrow columns mean what they mean in Spark."""

from __future__ import annotations

import datetime
import decimal
import math

import pyarrow as pa
import pytest
from pyspark.sql.types import (
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    IntegerType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
)

from anabranch.cli.rows.row_filter import RowFilter
from anabranch.errors.arguments import ConditionNeedsSparkError
from cli.columns_of_schema import parsed

SCHEMA = StructType(
    [
        StructField("row", IntegerType()),
        StructField("n", IntegerType()),
        StructField("x", DoubleType()),
        StructField("y", DoubleType()),
        StructField("s", StringType()),
        StructField("flag", BooleanType()),
        StructField("day", DateType()),
        StructField("at", TimestampNTZType()),
        StructField("money", DecimalType(10, 2)),
        StructField("box", StructType([StructField("deep", IntegerType())])),
    ]
)
ROWS = pa.RecordBatch.from_pydict(
    {
        "row": pa.array([0, 1, 2, 3, 4], pa.int32()),
        "n": pa.array([None, -1, 0, 1, 2], pa.int32()),
        "x": pa.array([None, math.nan, -0.0, math.inf, -2.5]),
        "y": pa.array([1.0, math.nan, 0.0, 1e300, math.nan]),
        "s": pa.array([None, "", "ab", "ä", "abc"]),
        "flag": pa.array([None, True, False, True, False]),
        "day": pa.array([None, *(datetime.date(2013, month, 1) for month in (1, 2, 3, 4))]),
        "at": pa.array([None, *(datetime.datetime(2013, month, 1, 12) for month in (1, 2, 3, 4))], pa.timestamp("us")),
        "money": pa.array([None, *map(decimal.Decimal, ["0.01", "1.00", "2.50", "99.99"])], pa.decimal128(10, 2)),
        "box": pa.array(
            [None, {"deep": None}, {"deep": 5}, {"deep": 6}, {"deep": 7}], pa.struct([("deep", pa.int32())])
        ),
    }
)

CASES = [
    ("n > 0", [3, 4]),
    ("NOT (n > 0)", [1, 2]),
    ("n <=> NULL", [0]),
    ("n IS NULL OR n = 2", [0, 4]),
    ("n IN (1, 2, NULL)", [3, 4]),
    ("n NOT IN (1, 2)", [1, 2]),
    ("n NOT IN (1, NULL)", []),
    ("n BETWEEN 0 AND 1", [2, 3]),
    ("x = 0.0D", [2]),
    ("x > 1.0D", [1, 3]),
    ("x < 1.0D", [2, 4]),
    ("x >= y", [1, 2, 3]),
    ("x = y", [1, 2]),
    ("s = 'ab'", [2]),
    ("s > 'abc'", [3]),
    ("s LIKE 'ab%'", [2, 4]),
    ("s NOT LIKE 'ab%'", [1, 3]),
    ("s <> ''", [2, 3, 4]),
    ("flag", [1, 3]),
    ("NOT flag", [2, 4]),
    ("day >= DATE '2013-03-01'", [3, 4]),
    ("year(day) = 2013", [1, 2, 3, 4]),
    ("at < TIMESTAMP_NTZ '2013-02-01 12:00:00'", [1]),
    ("CAST(at AS DATE) = DATE'2013-02-01'", [2]),
    ("money > 1.5", [3, 4]),
    ("money = 1", [2]),
    ("box.deep >= 6", [3, 4]),
    ("box.deep IS NULL", [0, 1]),
    ("n = row", []),
    ("n < row", [1, 2, 3, 4]),
    ("n > 0 AND (s = 'ä' OR flag)", [3]),
    ("n > 3000000000", []),
]


@pytest.mark.parametrize(("text", "expected"), CASES)
def test_rows_that_stay(text: str, expected: list[int]) -> None:
    predicate = parsed(text, SCHEMA)
    kept = RowFilter(predicate, SCHEMA, text=text).of(ROWS)
    assert kept.column("row").to_pylist() == expected


def test_char_columns_compare_without_their_padding() -> None:
    schema = StructType([StructField("c", StringType(), metadata={"__CHAR_VARCHAR_TYPE_STRING": "char(5)"})])
    rows = pa.RecordBatch.from_pydict({"c": ["ab   ", "abc  "]})
    predicate = parsed("c = 'ab'", schema)
    assert RowFilter(predicate, schema, text="").of(rows).num_rows == 1


@pytest.mark.parametrize("text", ["length(s) > 2", "s LIKE '%b%'", "rand() < 0.5", "n + 1 = 2"])
def test_what_needs_spark_is_refused(text: str) -> None:
    with pytest.raises(ConditionNeedsSparkError):
        RowFilter(parsed(text, SCHEMA), SCHEMA, text=text)
