"""Spark's classes are where this release keeps them."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from anabranch.errors.environment import SparkClassMissingError
from anabranch.spark.gateway import jvm_classes
from anabranch.spark.gateway.jvm_classes import CLASS_NAMES, JvmClasses, JvmValues

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("name", sorted(CLASS_NAMES))
def test_spark_has_every_class(spark: SparkSession, name: str) -> None:
    values = JvmValues(spark)
    assert values.classes.java_class(name) is not None
    assert getattr(values.classes, name) is not None


def test_a_class_that_moved_away_is_named(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(jvm_classes.CLASS_NAMES, "OutputSpec", ("org.example.Gone",))
    with pytest.raises(SparkClassMissingError, match=r"org\.example\.Gone"):
        _ = JvmClasses(JvmValues(spark).jvm).OutputSpec
