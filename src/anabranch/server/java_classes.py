"""The Java classes of servers in the driver's JVM: they are put in where one is asked for that needs them."""

from __future__ import annotations

import importlib.resources
import os
from typing import Any

from pyspark.sql import SparkSession

from anabranch.connect_messages.message_plugin import load_message_classes
from anabranch.spark.extension.compiled import driver_loader, load_classes
from anabranch.spark.extension.kept_jars import cache_folder

PACKAGE = "delta.server"
FOLDER, KNOWN_BY = "java", "OnlyWarehouse"
"""Of the sources, and a class among them."""


def server_classes(spark: SparkSession) -> Any:
    """The package as Py4J has it: `server_classes(spark).Login`.

    Beside those of `load_extension` and of messages, on which they are built, as they need jars that some Sparks of
    clusters come without: of Spark Connect, and of Hive's protocol. Raises as that does.
    """
    gateway: Any = spark.sparkContext._gateway
    load_message_classes(spark)
    sources = importlib.resources.files(__package__).joinpath(FOLDER)
    loader = driver_loader(gateway.jvm)
    load_classes(gateway, loader, sources, cache_folder(os.environ), package=PACKAGE, main_class=KNOWN_BY)
    return gateway.jvm.delta.server
