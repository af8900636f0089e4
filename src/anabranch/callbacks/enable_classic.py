"""Letting a classic session know Delta."""

from __future__ import annotations

import threading

from pyspark.sql import SparkSession

from anabranch.callbacks.answers import Answers
from anabranch.spark.extension import install
from anabranch.spark.extension.compiled import load_extension
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
    gateway = spark.sparkContext._gateway
    with _lock:
        load_extension(gateway)
        install.check(spark)
        answers = _open.get(id(gateway))
        if answers is None:
            answers = Answers(spark)
            install.open_door(spark, answers.door)
            _open[id(gateway)] = answers
        answers.keep(spark)
        install.install(spark, own_statements=FIRST_WORDS, table_functions=TABLE_FUNCTIONS)


def disable_extension(spark: SparkSession) -> None:
    """Every session of the application is as it was before. Harmless where none was enabled."""
    with _lock:
        answers = _open.pop(id(spark.sparkContext._gateway), None)
        if answers is not None:
            install.remove(spark)
            install.close_door(spark, answers.door)


def leave_out(spark: SparkSession) -> bool:
    """This session does without; whether others of its application have it."""
    with _lock:
        is_open = id(spark.sparkContext._gateway) in _open
        if is_open:
            install.remove_from_session(spark)
        return is_open
