"""Installs our classes in a running session; delta-spark's jar is installed when a session starts."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

from pyspark.errors.exceptions import captured
from pyspark.sql import DataFrameWriter, SparkSession

from anabranch.errors.environment import DeltaJarPresentError, SessionCatalogTakenError
from anabranch.patches import patch, undo
from anabranch.spark.extension.compiled import is_loaded
from anabranch.spark.extension.error_logs import silence_logs_of_callbacks, unlogged
from anabranch.spark.extension.first_appends import retry_first_appends
from anabranch.spark.extension.stream_causes import show_causes
from anabranch.spark.gateway.callback_endpoint import CallbackEndpoint, is_in_callback, record_no_origins
from anabranch.spark.gateway.callback_server import PURPOSE as CONNECTIONS
from anabranch.spark.gateway.callback_server import start_callback_server
from anabranch.spark.gateway.jvm_classes import cache_lookups
from anabranch.spark.gateway.jvm_sessions import is_connect

_PURPOSE = "errors of the JVM"
_UNDECLARED = "java.lang.reflect.UndeclaredThrowableException"
"""Java's wrapper for an error that the interface of Spark's parser does not declare."""


def open_endpoint(spark: SparkSession, endpoint: CallbackEndpoint) -> None:
    """Sends callbacks of the JVM, and of no other program, to `endpoint`; PySpark turns its errors back into ours."""
    gateway: Any = spark.sparkContext._gateway
    # A server of an earlier JVM has ended.
    undo(CONNECTIONS)
    start_callback_server(gateway)
    token = gateway.gateway_parameters.auth_token
    spark._jvm.anabranch.PythonEndpoint.open(endpoint, token)  # type: ignore[union-attr]
    gateway.callback_server_parameters.auth_token = token
    endpoint.interrupts.begin()

    def converting(convert: Any) -> Any:
        def convert_exception(error: Any) -> Any:
            if error._gateway_client is not gateway._gateway_client:
                # The object is of another JVM; in ours, which PySpark would call, its number names another object.
                return captured.UnknownException(desc=str(error), stackTrace="", cause=None)
            if error.getClass().getName() == _UNDECLARED:
                error = error.getUndeclaredThrowable()
            ours = endpoint.original(error)
            if ours is not None:
                return ours
            # An error that passes through a callback, or came out of one, is not logged: its text says everything.
            with unlogged() if is_in_callback() or endpoint.has_passed(error) else contextlib.nullcontext():
                return convert(error)

        return convert_exception

    # Patches for a JVM that has ended would call it.
    undo(_PURPOSE)
    patch(_PURPOSE, captured, "convert_exception", converting)
    show_causes(_PURPOSE, captured)
    retry_first_appends(_PURPOSE, DataFrameWriter, _mode_and_format)
    silence_logs_of_callbacks(_PURPOSE, captured)
    record_no_origins(_PURPOSE)
    cache_lookups(_PURPOSE, spark._jvm)


def _mode_and_format(writer: Any) -> tuple[str | None, str | None]:
    return str(writer._jwrite.curmode().name()), str(writer._jwrite.source())


def is_installed(spark: SparkSession) -> bool:
    """Whether the session itself knows Delta."""
    if is_connect(spark) or not is_loaded(spark.sparkContext._gateway):
        return False
    return bool(spark._jvm.anabranch.Sessions.isEnabled(spark._jsparkSession))  # type: ignore[union-attr]


def close_endpoint(spark: SparkSession, endpoint: CallbackEndpoint) -> None:
    """Ends the JVM's callbacks; our rules then leave every plan as it is."""
    endpoint.interrupts.end()
    spark._jvm.anabranch.PythonEndpoint.close()  # type: ignore[union-attr]
    undo(_PURPOSE)
    undo(CONNECTIONS)


def check(spark: SparkSession) -> None:
    """Raises `DeltaJarPresentError` for a jar of delta-spark, `SessionCatalogTakenError` for another catalog."""
    sessions: Any = spark._jvm.anabranch.Sessions  # type: ignore[union-attr]
    jar = sessions.jar()
    if jar is not None:
        raise DeltaJarPresentError(location=str(jar))
    other = sessions.otherCatalog(spark._jsparkSession)
    if other is not None:
        raise SessionCatalogTakenError(catalog=str(other))


def is_free(spark: SparkSession) -> bool:
    """Whether the session's catalog is Spark's own or ours, so that ours can be installed."""
    return spark._jvm.anabranch.Sessions.otherCatalog(spark._jsparkSession) is None  # type: ignore[union-attr]


def install(spark: SparkSession, *, own_statements: str, table_functions: Sequence[str]) -> None:
    """Makes the session know Delta, and all later sessions of its application.

    `own_statements` is a Java pattern: statements in which it matches come to us before Spark's parser reads them.
    `table_functions` are the names of functions whose rows a callback returns. A second call changes nothing.
    """
    functions = "\0".join(table_functions)
    spark._jvm.anabranch.Sessions.enable(spark._jsparkSession, own_statements, functions)  # type: ignore[union-attr]


def remove(spark: SparkSession) -> None:
    """Undoes `install`, in the session's application and in all of its sessions."""
    spark._jvm.anabranch.Sessions.disableAll(spark._jsparkSession)  # type: ignore[union-attr]
