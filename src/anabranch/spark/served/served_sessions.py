"""Clients' sessions of which the server answers for tables."""

from __future__ import annotations

from pyspark.sql import SparkSession

from anabranch.spark.served.message_kinds import ANSWERED
from anabranch.spark.session.session_settings import is_connect


def is_served(spark: SparkSession) -> bool:
    """Whether messages about tables are answered: the server is `anabranch serve`, without `--warehouse-only`."""
    return is_connect(spark) and spark.conf.get(ANSWERED, "") == "true"
