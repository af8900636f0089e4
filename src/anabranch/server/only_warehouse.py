"""Clients kept to the warehouse's folder: what they name outside it is refused, and what could reach there unseen."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from typing import Any

from pyspark.sql import SparkSession

from anabranch.server.driver_session import METASTORE
from anabranch.server.java_classes import PACKAGE, server_classes
from anabranch.spark.native.native_write import SCRATCH_PREFIX
from anabranch.spark.session.delta_session import DeltaSession

_INTERCEPTORS = "spark.connect.grpc.interceptor.classes"
_COMPRESSED_FROM = "spark.connect.session.planCompression.threshold"
_REQUESTS = f"{PACKAGE}.ClientRequests"


def keep_to_warehouse(spark: SparkSession) -> None:
    """From now on, for the sessions that the application of `spark` makes from now on, which are those of clients."""
    rules: Any = server_classes(spark).OnlyWarehouse
    warehouse = str(spark.conf.get("spark.sql.warehouse.dir"))
    scratch = os.path.join(os.path.realpath(tempfile.gettempdir()), SCRATCH_PREFIX)
    rules.begin(spark._jsparkSession, warehouse, _metastore(warehouse), scratch)
    settings: Any = spark.sparkContext._jsc.sc().conf()
    named = [each for each in settings.get(_INTERCEPTORS, "").split(",") if each]
    if _REQUESTS not in named:
        settings.set(_INTERCEPTORS, ",".join([*named, _REQUESTS]))
    # What is compressed nobody can look at, and it is refused; so clients shall not begin with it.
    settings.set(_COMPRESSED_FROM, "-1")

    def check(session: SparkSession, path: str, options: Mapping[str, str]) -> None:
        if rules.covers(session._jsparkSession):
            rules.check(path)
            for key, value in options.items():
                rules.checkOption(key, value)

    DeltaSession.check_path = check


def let_go_everywhere(spark: SparkSession) -> None:
    """Nothing is refused any more."""
    DeltaSession.check_path = None
    server_classes(spark).OnlyWarehouse.end()


def _metastore(warehouse: str) -> str | None:
    """The folder in a local warehouse that is no table."""
    return None if not warehouse.startswith(("file:", "/")) else f"{warehouse.removeprefix('file:')}/{METASTORE}"
