"""A Spark with the delta-spark jar, as a process of its own: one request a line, as JSON; one answer a line.

It runs beside the tests because their Spark must have no jar on its classpath.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from interop.other_spark import other_session

ANSWER = "@answer "
"""Starts each line that is one; Spark prints what it likes."""


def session() -> SparkSession:
    settings = {
        "spark.jars": os.environ["ANABRANCH_JARS"],
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.shuffle.partitions": "2",
        "spark.databricks.delta.snapshotPartitions": "2",
        # VACUUM of the jar lists folders in so many tasks, by default 10,000.
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": "4",
        "spark.driver.memory": "2g",
    }
    return other_session("delta-spark", settings)


def answer(spark: SparkSession, request: dict[str, Any]) -> dict[str, Any]:
    for statement in request.get("run", []):
        spark.sql(statement)
    if "stream" in request:
        copy(spark, **request["stream"])
    if "query" not in request:
        return {}
    table = spark.sql(request["query"]).toArrow()
    descriptor, path = tempfile.mkstemp(suffix=".arrow")
    os.close(descriptor)
    with pa.OSFile(path, "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    return {"rows": path}


def copy(spark: SparkSession, source: str, target: str, checkpoint: str, options: dict[str, Any]) -> None:
    """What a table has that a stream from it into another has not read yet."""
    stream = spark.readStream.format("delta").options(**options).load(source)
    writer = stream.writeStream.format("delta").option("checkpointLocation", checkpoint).option("mergeSchema", True)
    writer.trigger(availableNow=True).start(target).awaitTermination()


def main() -> None:
    spark = session()
    spark.sparkContext.setLogLevel("ERROR")
    print(ANSWER + json.dumps({"ready": spark.version}), flush=True)
    for line in sys.stdin:
        try:
            document = answer(spark, json.loads(line))
        except Exception as error:
            document = {"error": str(error)[:2000]}
        print(ANSWER + json.dumps(document), flush=True)


if __name__ == "__main__":
    main()
