"""The extension of classic sessions, also of those behind a Spark Connect server of this process."""

from __future__ import annotations

import threading
from typing import Any

from pyspark.sql import SparkSession

from anabranch.callbacks.handler_registry import HandlerRegistry
from anabranch.connect_messages import own_server
from anabranch.connect_messages.message_plugin import answer_messages, stop_answering
from anabranch.spark.extension import install
from anabranch.spark.extension.compiled import driver_loader, load_extension
from anabranch.spark.extension.delta_spark_names import load_delta_spark_names
from anabranch.sql.own.first_words import FIRST_WORDS

TABLE_FUNCTIONS = ("table_changes", "table_changes_by_path")
"""SQL functions whose rows `TableFunctionHandler` returns."""

_lock = threading.Lock()
_registries: dict[int, HandlerRegistry] = {}
"""The registry of each gateway, by the gateway's id. A registry keeps its gateway alive."""


def enable_extension(spark: SparkSession) -> None:
    """Put our classes into the session's JVM, once, and into the session. Calling it again changes nothing.

    Raises `DeltaJarPresentError`, `SessionCatalogTakenError`, `ExtensionClashError` and `ExtensionNotLoadedError`.
    """
    with _lock:
        _enable(spark, _registry_of(spark))


def enable_server(behind: SparkSession) -> None:
    """Extend the session `behind` a client's, and all present and future sessions of its server.

    Sessions of the server that have another catalog are not changed. Raises as `enable_extension`.
    """
    with _lock:
        registry = _registry_of(behind)
        own_server.set_up()
        _enable(behind, registry)
        free = [session for session in own_server.sessions_of_server(behind) if install.is_free(session)]
        for session in free:
            _enable(session, registry)
        answer_messages(behind, [behind, *free])


def _registry_of(spark: SparkSession) -> HandlerRegistry:
    gateway: Any = spark.sparkContext._gateway
    load_extension(gateway)
    install.check(spark)
    registry = _registries.get(id(gateway))
    if registry is None:
        load_delta_spark_names(gateway, driver_loader(gateway.jvm))
        registry = HandlerRegistry(spark)
        install.open_endpoint(spark, registry.endpoint)
        _registries[id(gateway)] = registry
    return registry


def _enable(spark: SparkSession, registry: HandlerRegistry) -> None:
    registry.keep(spark)
    install.install(spark, own_statements=FIRST_WORDS, table_functions=TABLE_FUNCTIONS)


def disable_extension(spark: SparkSession) -> None:
    """Undo the extension of every session of the application. Harmless if none was extended."""
    with _lock:
        registry = _registries.pop(id(spark.sparkContext._gateway), None)
        if registry is not None:
            install.remove(spark)
            install.close_endpoint(spark, registry.endpoint)
            stop_answering(spark, [spark, *own_server.sessions_of_server(spark)])
            own_server.tear_down()
