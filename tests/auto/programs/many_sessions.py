"""Makes sessions in every way there is, and writes and reads a table by each. The argument is a folder for tables."""

import os
import sys
import threading

from pyspark.sql import SparkSession

folder = sys.argv[1]


def check(name: str, spark: SparkSession) -> None:
    path = f"{folder}/{name}"
    spark.range(3).write.format("delta").save(path)
    assert spark.sql(f"SELECT count(*) FROM delta.`{path}`").first()[0] == 3
    print("works:", name)


def builder() -> SparkSession.Builder:
    return (
        SparkSession.builder.config("spark.ui.enabled", "false")
        .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
        .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
    )


made: list[SparkSession] = []
thread = threading.Thread(target=lambda: made.append(builder().getOrCreate()))
thread.start()
thread.join()
spark = made[0]
check("thread", spark)

if hasattr(spark, "newSession"):
    check("newSession", spark.newSession())
if hasattr(spark, "cloneSession"):
    check("cloneSession", spark.cloneSession())
if "SPARK_REMOTE" not in os.environ:
    context = spark.sparkContext
    check("of a context", SparkSession(context))
    check("of the JVM", SparkSession(context, spark._jsparkSession.newSession()))
    spark.stop()
    check("after a stop", builder().getOrCreate())
    if tuple(map(int, SparkSession.getActiveSession().version.split(".")[:2])) >= (4, 2):
        check("create", builder().create())
print("done")
