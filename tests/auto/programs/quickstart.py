"""A program for delta-spark, with nothing in it that knows anabranch. The argument is a folder for its tables."""

import sys

import pyspark
from delta import DeltaTable, configure_spark_with_delta_pip
from delta.exceptions import ConcurrentAppendException, DeltaConcurrentModificationException
from delta.tables import *  # noqa: F403 - as many programs do
from pyspark.sql import SparkSession
from pyspark.sql.functions import col, expr

path = f"{sys.argv[1]}/a table"

builder = (
    SparkSession.builder.appName("quickstart")
    .config("spark.ui.enabled", "false")
    .config("spark.sql.shuffle.partitions", "2")
    .config("spark.sql.warehouse.dir", f"{sys.argv[1]}/warehouse")
    .config("spark.jars.packages", "io.delta:delta-spark_2.13:4.0.0")
    .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
    .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
)
spark = configure_spark_with_delta_pip(builder).getOrCreate()

spark.range(5).write.format("delta").save(path)
table = DeltaTable.forPath(spark, path)
new = spark.range(3, 8).withColumn("kind", expr("'new'"))
(
    table.alias("old")
    .merge(new.alias("new"), "old.id = new.id")
    .whenMatchedUpdate(set={"id": col("new.id") + 100})
    .whenNotMatchedInsert(values={"id": col("new.id")})
    .execute()
)
print("merged:", sorted(row.id for row in table.toDF().collect()))

table.update(condition=expr("id % 2 = 0"), set={"id": expr("id + 1000")})
table.delete(col("id") < 3)
print("changed:", sorted(row.id for row in spark.read.format("delta").load(path).collect()))
print("first:", spark.read.format("delta").option("versionAsOf", 0).load(path).count())

spark.sql("CREATE TABLE named (id BIGINT, name STRING) USING delta")
spark.sql("INSERT INTO named VALUES (1, 'a'), (2, 'b')")
spark.sql(f"DELETE FROM named WHERE id IN (SELECT id FROM delta.`{path}` VERSION AS OF 0)")
print("named:", spark.table("named").count(), StructType is pyspark.sql.types.StructType)  # noqa: F405

for attempt in range(3):
    try:
        table.delete("id = 3")
        break
    except (ConcurrentAppendException, DeltaConcurrentModificationException) as error:
        print("again:", attempt, error)

sys.exit(3)
