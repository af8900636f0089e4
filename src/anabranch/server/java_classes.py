"""The Java classes of servers, loaded into the driver's JVM when the first of them is used."""

from __future__ import annotations

import importlib.resources
import os
from typing import Any

from pyspark.sql import SparkSession

from anabranch.connect_messages.message_plugin import load_message_classes
from anabranch.spark.extension.compiled import driver_loader, load_classes
from anabranch.spark.extension.kept_jars import cache_folder

PACKAGE = "anabranch.server"
FOLDER, MARKER_CLASS = "java", "WarehouseGuard"
"""The folder of the sources, and a class among them, by which loaded classes are recognized."""


def server_classes(spark: SparkSession) -> Any:
    """The package of the classes in Py4J, for `server_classes(spark).Login`. Raises as `load_message_classes`.

    They are not loaded with those of `load_extension`, as they need the jars of Spark Connect and of Hive's protocol,
    which the Spark of some clusters lacks.
    """
    gateway: Any = spark.sparkContext._gateway
    load_message_classes(spark)
    sources = importlib.resources.files(__package__).joinpath(FOLDER)
    loader = driver_loader(gateway.jvm)
    load_classes(
        gateway, loader, sources, cache_folder(os.environ), package=PACKAGE, main_class=f"{PACKAGE}.{MARKER_CLASS}"
    )
    return gateway.jvm.anabranch.server
