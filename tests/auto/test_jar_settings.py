"""Entries of settings that load the delta-spark jar are removed, and all others stay."""

from __future__ import annotations

import logging

import pytest

from anabranch.auto import jar_settings
from anabranch.auto.jar_settings import submit_arguments_without_jar, without_jar

CATALOG = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
EXTENSION = "io.delta.sql.DeltaSparkSessionExtension"


@pytest.mark.parametrize(
    ("key", "value", "left"),
    [
        ("spark.jars.packages", "io.delta:delta-spark_2.13:4.0.0", None),
        ("spark.jars.packages", "io.delta:delta-core_2.12:2.4.0,org.x:y:1, io.delta:delta-storage:3.0.0", "org.x:y:1"),
        ("spark.jars.packages", "io.delta:delta-spark_4.0_2.13:4.4.0,io.delta:delta-iceberg_2.13:4.4.0", None),
        (
            "spark.jars",
            "/jars/delta-spark_2.13-4.0.0.jar,s3://b/delta-storage-4.0.0.jar,/jars/mine.jar",
            "/jars/mine.jar",
        ),
        ("spark.jars", "file:///root/.ivy2/jars/io.delta_delta-spark_2.13-4.0.0.jar", None),
        ("spark.jars", r"C:\jars\delta-core_2.12-2.4.0.jar", None),
        ("spark.sql.extensions", EXTENSION, None),
        ("spark.sql.extensions", f"org.x.Extensions,{EXTENSION}", "org.x.Extensions"),
        ("spark.sql.catalog.spark_catalog", CATALOG, None),
        ("spark.connect.extensions.relation.classes", "org.apache.spark.sql.connect.delta.DeltaRelationPlugin", None),
    ],
)
def test_settings_that_name_the_jar_are_removed(key: str, value: str, left: str | None) -> None:
    kept, left_out = without_jar(key, value)
    assert kept == left
    assert left_out
    assert all(entry.startswith(f"{key}=") for entry in left_out)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("spark.jars.packages", "org.apache.hadoop:hadoop-aws:3.4.0, com.x:delta-spark:1"),
        ("spark.jars.packages", "io.delta:delta-sharing-spark_2.13:1.0.0"),
        ("spark.jars", "/jars/delta-sparkle-1.0.jar,/delta-spark/mine.jar"),
        ("spark.sql.extensions", "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"),
        ("spark.sql.catalog.spark_catalog", "org.apache.iceberg.spark.SparkSessionCatalog"),
        ("spark.sql.catalog.other", CATALOG),
        ("spark.app.name", "io.delta:delta-spark_2.13:4.0.0"),
    ],
)
def test_what_does_not_stays_as_it_was_written(key: str, value: str) -> None:
    assert without_jar(key, value) == (value, [])


@pytest.mark.parametrize(
    ("arguments", "left"),
    [
        ("--packages io.delta:delta-spark_2.13:4.0.0 pyspark-shell", "pyspark-shell"),
        (
            "--master local[2] --packages io.delta:delta-spark_2.13:4.0.0,org.x:y:1 pyspark-shell",
            "--master 'local[2]' --packages org.x:y:1 pyspark-shell",
        ),
        ("--packages=io.delta:delta-spark_2.13:4.0.0,org.x:y:1 pyspark-shell", "--packages=org.x:y:1 pyspark-shell"),
        (f"--conf spark.sql.extensions={EXTENSION} --conf spark.x=1 pyspark-shell", "--conf spark.x=1 pyspark-shell"),
        (f"-c 'spark.sql.catalog.spark_catalog={CATALOG}' pyspark-shell", "pyspark-shell"),
        ("--jars /a/delta-spark_2.13-4.0.0.jar,'/b c/x.jar' pyspark-shell", "--jars '/b c/x.jar' pyspark-shell"),
    ],
)
def test_options_of_spark_submit(arguments: str, left: str) -> None:
    kept, left_out = submit_arguments_without_jar(arguments)
    assert kept == left
    assert len(left_out) == 1


@pytest.mark.parametrize(
    "arguments",
    [
        "",
        "pyspark-shell",
        "--conf  spark.x='a  b'  --packages org.x:y:1 pyspark-shell",
        "--verbose --jars x.jar --conf",
    ],
)
def test_other_options_of_spark_submit_are_not_touched(arguments: str) -> None:
    assert submit_arguments_without_jar(arguments) == (arguments, [])


def test_each_setting_is_warned_of_once(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jar_settings, "_warned_of", set())
    with caplog.at_level(logging.WARNING):
        jar_settings.warn_of([])
        jar_settings.warn_of(["spark.jars=a.jar", "spark.jars=b.jar"])
        jar_settings.warn_of(["spark.jars=b.jar"])
    assert len(caplog.records) == 1
    assert "spark.jars=a.jar, spark.jars=b.jar" in caplog.text
