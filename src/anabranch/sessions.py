"""Enabling Delta in sessions of Spark."""

from __future__ import annotations

import os
import sys

from pyspark.sql import SparkSession

from anabranch.callbacks.enable_classic import disable_extension, enable_extension, enable_server
from anabranch.connect_messages.client_errors import raise_our_errors, raise_sparks_errors
from anabranch.connect_messages.own_server import session_behind
from anabranch.connect_messages.server_capabilities import check_knows_delta
from anabranch.errors.arguments import InvalidArgumentError
from anabranch.progress.progress_display import install_display, uninstall_display
from anabranch.spark.gateway.error_text import error_in
from anabranch.spark.gateway.jvm_sessions import is_connect
from anabranch.spark.jvm_start import quiet_start, starting_java


def enable(spark: SparkSession) -> SparkSession:
    """Enable a running session to read and write Delta tables, and return it.

    Afterwards `spark.read.format("delta")`, `df.write.format("delta")`, `spark.table` and `spark.sql` work on
    Delta tables, by path and by names of the session's catalog. Nothing is added to Spark's classpath. Calling it again
    changes nothing. Tasks of a local session that run Python run this one, unless the environment or the session names
    another.

    For a client of Spark Connect whose server is in this process (`remote("local[*]")`), the server knows Delta from
    now on, in all of its sessions. For a client whose server knows Delta already (`anabranch serve`, or delta-spark's
    plugin), only errors change: they are raised as the classes of `anabranch.errors`. Raises
    `ServerWithoutDeltaError` for any other client, and `DeltaJarPresentError`, `SessionCatalogTakenError`,
    `ExtensionClashError` and `ExtensionNotLoadedError` where Spark cannot learn Delta.
    """
    if not hasattr(spark, "sql"):
        problem = "it must be a SparkSession; anabranch.session() creates one"
        raise InvalidArgumentError(argument="spark", value=str(spark), problem=problem)
    install_display()
    if not is_connect(spark):
        _use_this_python(spark)
        enable_extension(spark)
        return spark
    behind = session_behind(spark)
    if behind is not None:
        enable_server(behind)
    else:
        check_knows_delta(spark)
        raise_our_errors(__name__, error_in)
    return spark


def disable(spark: SparkSession) -> None:
    """Undo `enable` for the session and all other sessions of its application.

    Tables and streams are kept; DataFrames over Delta tables that were created before cannot be used any more. Does
    nothing where nothing was enabled.
    """
    raise_sparks_errors(__name__)
    uninstall_display()
    behind = session_behind(spark) if is_connect(spark) else spark
    if behind is not None:
        disable_extension(behind)


def session(app_name: str = "anabranch", *, cores: int | None = None, **settings: str) -> SparkSession:
    """A local session that knows Delta: the one that is running, or a new one on this machine.

    `cores` are the threads that run tasks, all of the machine's by default. Further settings are Spark's, with
    `__` for dots: `session(spark__sql__shuffle__partitions="8")`. Spark's web UI and its progress bar are on, as Spark
    has them; `spark__ui__enabled="false"` and `spark__ui__showConsoleProgress="false"` switch them off.

    Java and PySpark are checked before a JVM is started: raises `JavaMissingError` and `PySparkReleaseError`. A new
    JVM logs warnings and errors as Spark does, without the lines about its own start (log profile, log level, Hadoop's
    native library, the address of this machine). Where you configure the JVM or its log (`SPARK_CONF_DIR`, a folder
    `conf` in `SPARK_HOME`, `PYSPARK_SUBMIT_ARGS`, `spark.driver.extraJavaOptions`), nothing is changed. One line that
    begins with `WARNING: Using incubator modules` stays: Java itself writes it.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    chosen = {name.replace("__", "."): value for name, value in settings.items()}
    builder = SparkSession.builder.appName(app_name).master(f"local[{cores or '*'}]")
    for key, value in {**quiet_start(chosen), **chosen}.items():
        builder = builder.config(key, value)
    with starting_java():
        spark = builder.getOrCreate()
    return enable(spark)


def _use_this_python(spark: SparkSession) -> None:
    """Run tasks on this machine with this Python: the first `python3` in the path may lack packages that they need.

    On a cluster, its configuration has the path of Python.
    """
    context = spark.sparkContext
    # The context's own settings: `getConf` would copy all of them from the JVM.
    named = os.environ.get("PYSPARK_PYTHON") or context._conf.get("spark.pyspark.python")
    if not named and str(context.master).startswith("local"):
        context.pythonExec = sys.executable
