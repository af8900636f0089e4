"""Restricts clients to the warehouse's folder: refuses paths outside it, and features that could bypass the check."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from typing import Any

from pyspark.sql import SparkSession

from anabranch.server.driver_session import METASTORE
from anabranch.server.java_classes import PACKAGE, server_classes
from anabranch.spark.native.native_write import SCRATCH_PREFIX
from anabranch.spark.session.delta_session import SESSION_RULES

_INTERCEPTORS = "spark.connect.grpc.interceptor.classes"
_COMPRESSED_FROM = "spark.connect.session.planCompression.threshold"
_REQUESTS = f"{PACKAGE}.ClientRequests"


def restrict_to_warehouse(spark: SparkSession) -> None:
    """Restrict the sessions that the application of `spark` makes from now on, which are those of clients."""
    guard: Any = server_classes(spark).WarehouseGuard
    warehouse = str(spark.conf.get("spark.sql.warehouse.dir"))
    scratch = os.path.join(os.path.realpath(tempfile.gettempdir()), SCRATCH_PREFIX)
    guard.begin(spark._jsparkSession, warehouse, _metastore(warehouse), scratch)
    settings: Any = spark.sparkContext._jsc.sc().conf()
    interceptors = [name for name in settings.get(_INTERCEPTORS, "").split(",") if name]
    if _REQUESTS not in interceptors:
        settings.set(_INTERCEPTORS, ",".join([*interceptors, _REQUESTS]))
    # Compressed plans cannot be checked and are refused, so clients are configured not to send them.
    settings.set(_COMPRESSED_FROM, "-1")

    def check(session: SparkSession, path: str, options: Mapping[str, str]) -> None:
        if guard.covers(session._jsparkSession):
            guard.check(path)
            for key, value in options.items():
                guard.checkOption(key, value)

    SESSION_RULES.check_path = check


def lift_restriction(spark: SparkSession) -> None:
    """Let clients reach files outside the warehouse again."""
    SESSION_RULES.check_path = None
    server_classes(spark).WarehouseGuard.end()


def _metastore(warehouse: str) -> str | None:
    """The metastore's folder in a local warehouse; None in others, which have none."""
    return None if not warehouse.startswith(("file:", "/")) else f"{warehouse.removeprefix('file:')}/{METASTORE}"
