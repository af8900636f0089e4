"""Letting classic sessions know Delta, those behind a Spark Connect server of this process among them."""

from __future__ import annotations

import threading
from typing import Any

from pyspark.sql import SparkSession

from anabranch.callbacks.answers import Answers
from anabranch.connect_messages import own_server
from anabranch.connect_messages.message_plugin import answer_messages, stop_answering
from anabranch.spark.extension import install
from anabranch.spark.extension.compiled import driver_loader, load_extension
from anabranch.spark.extension.delta_spark_names import load_delta_spark_names
from anabranch.sql.own.first_words import FIRST_WORDS

TABLE_FUNCTIONS = ("table_changes", "table_changes_by_path")
"""Functions of SQL that `TableFunctions` answers."""

_lock = threading.Lock()
_open: dict[int, Answers] = {}
"""By the id of the gateway, which the answers keep alive."""


def enable_extension(spark: SparkSession) -> None:
    """Put our classes into the session's JVM, once, and into the session. Calling it again changes nothing.

    Raises `DeltaJarPresentError`, `SessionCatalogTakenError`, `ExtensionClashError` and `ExtensionNotLoadedError`.
    """
    with _lock:
        _enable(spark, _opened(spark))


def enable_server(behind: SparkSession) -> None:
    """The same for the session `behind` a client's, with all others of that server: now and from now on.

    Sessions of the server with a catalog of somebody else's are left alone. Raises as `enable_extension`.
    """
    with _lock:
        answers = _opened(behind)
        own_server.set_up()
        _enable(behind, answers)
        free = [session for session in own_server.sessions_of_server(behind) if install.is_free(session)]
        for session in free:
            _enable(session, answers)
        answer_messages(behind, [behind, *free])


def _opened(spark: SparkSession) -> Answers:
    gateway: Any = spark.sparkContext._gateway
    load_extension(gateway)
    install.check(spark)
    answers = _open.get(id(gateway))
    if answers is None:
        load_delta_spark_names(gateway, driver_loader(gateway.jvm))
        answers = Answers(spark)
        install.open_endpoint(spark, answers.door)
        _open[id(gateway)] = answers
    return answers


def _enable(spark: SparkSession, answers: Answers) -> None:
    answers.keep(spark)
    install.install(spark, own_statements=FIRST_WORDS, table_functions=TABLE_FUNCTIONS)


def disable_extension(spark: SparkSession) -> None:
    """Every session of the application is as it was before. Harmless where none was enabled."""
    with _lock:
        answers = _open.pop(id(spark.sparkContext._gateway), None)
        if answers is not None:
            install.remove(spark)
            install.close_endpoint(spark, answers.door)
            stop_answering(spark, [spark, *own_server.sessions_of_server(spark)])
            own_server.tear_down()
