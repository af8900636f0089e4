"""A program that ends while its streams run: `ending.py FOLDER`, and how it ends."""

from __future__ import annotations

import sys
import time

from pyspark.sql import DataFrame
from start import FOLDER, started

import anabranch
from anabranch.tables import DeltaTable

spark = anabranch.enable(started())
spark.range(0).write.format("delta").save(f"{FOLDER}/function")
rate = spark.readStream.format("rate").option("rowsPerSecond", 100).load().selectExpr("value AS id")


def upsert(batch: DataFrame, _: int) -> None:
    batch.createOrReplaceTempView("updates")
    batch.sparkSession.sql(
        f"MERGE INTO delta.`{FOLDER}/function` t USING updates u ON t.id = u.id WHEN NOT MATCHED THEN INSERT *"
    )


sink = rate.writeStream.format("delta").option("checkpointLocation", f"{FOLDER}/sink-checkpoint")
function = rate.writeStream.foreachBatch(upsert).option("checkpointLocation", f"{FOLDER}/function-checkpoint")
queries = [sink.start(f"{FOLDER}/sink"), function.start()]
while any(DeltaTable.forPath(spark, f"{FOLDER}/function").toDF().isEmpty() or not q.recentProgress for q in queries):
    time.sleep(0.1)
    assert all(query.isActive for query in queries), [query.exception() for query in queries]
print("done", flush=True)
if sys.argv[2] == "stop":
    spark.stop()
