"""A program for spark-submit that serves its session until a signal stops it."""

from __future__ import annotations

import json
import signal
from types import FrameType

from pyspark.sql import SparkSession

import anabranch

spark = SparkSession.builder.appName("served").getOrCreate()
with anabranch.serve(spark, connect=0, jdbc=0) as server:

    def stop(number: int, frame: FrameType | None) -> None:
        raise SystemExit(0)

    signal.signal(signal.SIGTERM, stop)
    print(json.dumps({"state": "ready", "connect": server.connect_url, "jdbc": server.jdbc_url}), flush=True)
    server.wait()
