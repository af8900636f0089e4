"""The plugin of Spark Connect by which a server in this driver answers messages about tables."""

from __future__ import annotations

import importlib.resources
import os
from collections.abc import Iterable
from typing import Any

from pyspark.sql import SparkSession

from anabranch.connect_messages.message_descriptor import descriptor_set
from anabranch.connect_messages.server_capabilities import ANSWERED
from anabranch.spark.extension.compiled import driver_loader, load_classes, load_extension
from anabranch.spark.extension.kept_jars import cache_folder

UNITS = {
    "io.delta.exceptions": ("delta_exceptions", "DeltaConcurrentModificationException"),
    "anabranch.messages": ("java", "MessagePlugin"),
}
"""The source folder and a class of each Java package. Folders are beside this module, and compiled separately."""
_PLUGIN = "anabranch.messages.MessagePlugin"
_SETTINGS = ("spark.connect.extensions.relation.classes", "spark.connect.extensions.command.classes")


def answer_messages(spark: SparkSession, sessions: Iterable[SparkSession] = ()) -> None:
    """Answer messages of clients from now on, in these sessions and in all that are created later.

    Clients recognise such a server by the setting `ANSWERED`. Raises `ExtensionNotLoadedError` where this Spark lacks
    the jars of Spark Connect.
    """
    load_message_classes(spark)
    _set_plugins(spark, [_PLUGIN])
    _settings(spark).set(ANSWERED, "true")
    for session in sessions:
        session.conf.set(ANSWERED, "true")


def load_message_classes(spark: SparkSession) -> None:
    """Put the Java classes that parse messages into the driver's JVM. Raises as `load_extension`."""
    gateway: Any = spark.sparkContext._gateway
    load_extension(gateway)
    sources = importlib.resources.files(__package__)
    loader = driver_loader(gateway.jvm)
    for package, (folder, class_name) in UNITS.items():
        java, main_class = sources.joinpath(folder), f"{package}.{class_name}"
        load_classes(gateway, loader, java, cache_folder(os.environ), package=package, main_class=main_class)
    gateway.jvm.anabranch.messages.MessageTypes.describe(descriptor_set(), _settings(spark))


def stop_answering(spark: SparkSession, sessions: Iterable[SparkSession] = ()) -> None:
    """Undo `answer_messages`. Without it this does nothing."""
    if _settings(spark).get(ANSWERED, "") != "true":
        return
    _settings(spark).remove(ANSWERED)
    for session in sessions:
        session.conf.unset(ANSWERED)
    _set_plugins(spark, [])


def _set_plugins(spark: SparkSession, ours: list[str]) -> None:
    settings = _settings(spark)
    for key in _SETTINGS:
        others = [name for name in settings.get(key, "").split(",") if name not in {"", _PLUGIN}]
        settings.set(key, ",".join([*others, *ours]))
    # Spark would create the plugins at the first message, on a thread whose class loader lacks the driver's classes.
    jvm: Any = spark._jvm
    plugins = jvm.org.apache.spark.sql.connect.plugin.SparkConnectPluginRegistry
    plugins.reset()
    plugins.relationRegistry()
    plugins.commandRegistry()


def _settings(spark: SparkSession) -> Any:
    """The application's settings, with which sessions of clients start."""
    context: Any = spark.sparkContext._jsc
    return context.sc().conf()
