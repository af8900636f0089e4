"""Settings that name the jar, where there is no jar: the session works; with the jar, `enable` says what to
remove."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

from start import FOLDER, started

import anabranch
from anabranch.errors.environment import DeltaJarPresentError

CLASS = "io/delta/sql/DeltaSparkSessionExtension"
spark = started(
    **{
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    }
)
anabranch.enable(spark)
spark.sql("CREATE TABLE t (id BIGINT) USING delta")
spark.sql("INSERT INTO t SELECT id FROM range(5)")
assert spark.newSession().table("t").count() == 5
anabranch.disable(spark)

# A class of that name is what there is to see of a jar: compiled here, by Spark's own compiler.
jvm: Any = spark._jvm
compiler = jvm.org.codehaus.janino.SimpleCompiler()
compiler.cook("package io.delta.sql; public class DeltaSparkSessionExtension {}")
(code,) = [bytes(entry.getValue()) for entry in compiler.getBytecodes().entrySet()]
jar = Path(FOLDER, "delta-spark_2.13-4.0.0.jar")
with zipfile.ZipFile(jar, "w") as archive:
    archive.writestr(f"{CLASS}.class", code)
spark.sql(f"ADD JAR '{jar}'")
try:
    anabranch.enable(spark)
except DeltaJarPresentError as error:
    assert "delta-spark_2.13-4.0.0.jar" in error.location, error
else:
    raise AssertionError("enabled beside the jar")
print("done")
