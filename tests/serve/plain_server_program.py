"""A driver with Spark's own Connect server, without Delta. It prints its port, and ends when its input ends."""

from __future__ import annotations

import sys
from typing import Any

from pyspark.sql import SparkSession

builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
for setting in sys.argv[1:]:
    key, _, value = setting.partition("=")
    builder = builder.config(key, value)
spark = builder.config("spark.connect.grpc.binding.port", "0").getOrCreate()
jvm: Any = spark._jvm
service = jvm.java.lang.Class.forName("org.apache.spark.sql.connect.service.SparkConnectService$")
server = service.getField("MODULE$").get(None)
server.start(spark.sparkContext._jsc.sc())
print(server.localPort(), flush=True)
sys.stdin.read()
