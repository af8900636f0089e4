"""Clients' sessions of Spark Connect, and whether their servers know Delta."""

from __future__ import annotations

from pyspark.sql import SparkSession

from anabranch.errors.environment import MessagesRefusedError, ServerWithoutDeltaError
from anabranch.spark.served.message_kinds import ANSWERED
from anabranch.spark.session.session_settings import is_connect

_CATALOG = "spark.sql.catalog.spark_catalog"
_OURS, _DELTA_SPARKS = "delta.DeltaCatalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog"
_PLUGINS = "spark.connect.extensions.relation.classes"
_PLUGIN_OF_DELTA_SPARK = "org.apache.spark.sql.connect.delta.DeltaRelationPlugin"


def is_served(spark: SparkSession) -> bool:
    """Whether the server answers messages about tables for this session; False for a classic session.

    Raises `ServerWithoutDeltaError` and `MessagesRefusedError` for a client whose server does not.
    """
    if not is_connect(spark):
        return False
    if spark.conf.get(ANSWERED, "") == "true" or _PLUGIN_OF_DELTA_SPARK in (spark.conf.get(_PLUGINS, "") or ""):
        return True
    if _catalog(spark) == _OURS:
        raise MessagesRefusedError
    if _catalog(spark) == _DELTA_SPARKS:
        raise ServerWithoutDeltaError(lacks=f"{_PLUGIN_OF_DELTA_SPARK} in {_PLUGINS}")
    raise ServerWithoutDeltaError(lacks=f"{_OURS} in {_CATALOG}")


def check_knows_delta(spark: SparkSession) -> None:
    """Raises `ServerWithoutDeltaError` for a client whose server does not know Delta tables."""
    if _catalog(spark) not in {_OURS, _DELTA_SPARKS}:
        raise ServerWithoutDeltaError(lacks=f"{_OURS} in {_CATALOG}")


def _catalog(spark: SparkSession) -> str | None:
    return spark.conf.get(_CATALOG, None)
