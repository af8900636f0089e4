"""Whether the server of a client of Spark Connect knows Delta, and answers messages about tables."""

from __future__ import annotations

from pyspark.sql import SparkSession

from anabranch.errors.environment import ServerWithoutDeltaError
from anabranch.spark.gateway.jvm_sessions import is_connect

ANSWERED = "spark.anabranch.tables.answered"
"""A setting of clients' sessions, `true` where anabranch's server answers messages about tables."""

_CATALOG = "spark.sql.catalog.spark_catalog"
_OURS, _DELTA_SPARKS = "delta.DeltaCatalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog"
_PLUGINS = "spark.connect.extensions.relation.classes"
_OUR_PLUGIN = "anabranch.messages.MessagePlugin"
_PLUGIN_OF_DELTA_SPARK = "org.apache.spark.sql.connect.delta.DeltaRelationPlugin"


def answers_messages(spark: SparkSession) -> bool:
    """Whether the server of this session answers messages about tables; False for a classic session.

    Raises `ServerWithoutDeltaError` for a client whose server does not.
    """
    if not is_connect(spark):
        return False
    if spark.conf.get(ANSWERED, "") == "true" or _PLUGIN_OF_DELTA_SPARK in (spark.conf.get(_PLUGINS, "") or ""):
        return True
    # The driver may know Delta while its server was started without anabranch.
    lacks = {_OURS: _OUR_PLUGIN, _DELTA_SPARKS: _PLUGIN_OF_DELTA_SPARK}.get(_catalog(spark) or "")
    raise ServerWithoutDeltaError(lacks=f"{_OURS} in {_CATALOG}" if lacks is None else f"{lacks} in {_PLUGINS}")


def check_knows_delta(spark: SparkSession) -> None:
    """Raises `ServerWithoutDeltaError` for a client whose server does not know Delta tables."""
    if _catalog(spark) not in {_OURS, _DELTA_SPARKS}:
        raise ServerWithoutDeltaError(lacks=f"{_OURS} in {_CATALOG}")


def _catalog(spark: SparkSession) -> str | None:
    return spark.conf.get(_CATALOG, None)
