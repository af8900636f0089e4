"""Columns of a frame that are named and cast by one call of the JVM."""

from __future__ import annotations

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, StringType

from anabranch.schema.paths import quote
from anabranch.spark.gateway.jvm_classes import SelectedColumn, select

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("engine")]
ODD_NAME = "a.b`c\n,é"


def test_columns_are_renamed_cast_and_mixed_with_others(spark: SparkSession) -> None:
    frame = spark.range(2).select(F.col("id").alias(ODD_NAME), F.lit("7").alias("text"))
    selected = select(
        frame,
        [
            F.lit(True).alias("first"),
            SelectedColumn(position=1, name="number", to=IntegerType()),
            SelectedColumn(position=0, name="text", to=StringType()),
            F.col("text").alias("last"),
            SelectedColumn(position=0, name=ODD_NAME),
        ],
    )
    assert [(field.name, field.dataType.simpleString()) for field in selected.schema] == [
        ("first", "boolean"),
        ("number", "int"),
        ("text", "string"),
        ("last", "string"),
        (ODD_NAME, "bigint"),
    ]
    assert [tuple(row) for row in selected.collect()] == [(True, 7, "0", "7", 0), (True, 7, "1", "7", 1)]


def test_columns_are_selected_by_names(spark: SparkSession) -> None:
    frame = spark.range(1).select("id", F.lit("x").alias(ODD_NAME), F.lit("y").alias("a\0b"))
    selected = select(frame, [quote(ODD_NAME), F.lit(1).alias("n"), quote("a\0b"), "ID"])
    assert [tuple(row) for row in selected.collect()] == [("x", 1, "y", 0)]


def test_the_metadata_of_a_column_stays(spark: SparkSession) -> None:
    frame = spark.range(1).select(F.col("id").alias("id", metadata={"comment": "a number"}))
    assert select(frame, [SelectedColumn(position=0, name="n")]).schema["n"].metadata == {"comment": "a number"}


def test_a_value_that_does_not_fit_fails_the_job_with_the_text(spark: SparkSession) -> None:
    frame = spark.createDataFrame([(1,), (None,), (2**40,)], "n BIGINT")
    column = SelectedColumn(position=0, name="n", to=IntegerType(), failure="too large: ")
    assert [row.n for row in select(frame.where("n IS NULL OR n = 1"), [column]).collect()] == [1, None]
    with pytest.raises((Py4JJavaError, PySparkException), match=r'too large: \{"value":"1099511627776"\}'):
        select(frame, [column]).collect()
