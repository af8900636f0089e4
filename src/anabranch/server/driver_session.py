"""The session of a driver that only serves clients: its settings, its warehouse, and a persistent metastore."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyspark import SparkContext
from pyspark.sql import SparkSession

from anabranch.errors.arguments import InvalidArgumentError
from anabranch.errors.environment import MetastoreTakenError
from anabranch.server.access_rules import is_of_this_machine
from anabranch.spark.jvm_start import fast_start, starting_java

METASTORE = "_metastore"
"""The folder in the warehouse that holds Derby's database."""
_DERBY_LOG = "_metastore.log"
_DERBY_IN_USE = "XSDB6"
"""Derby's SQLSTATE for a database that another process has open."""
_WAREHOUSE = "spark.sql.warehouse.dir"
_CONNECTION = "spark.hadoop.javax.jdo.option.ConnectionURL"
_RESULT_MAX = "spark.driver.maxResultSize"
_RESULTS_TO_MEMORY = 8
"""By Spark's default one result may be as large as the driver's default memory. Several clients fetch results at once,
and up to three copies of a result's parts are in memory while it is made."""
_OTHER_METASTORES = (
    *("spark.sql.catalogImplementation", "spark.hadoop.hive.metastore.uris", "spark.hive.metastore.uris"),
    *(_CONNECTION, "spark.hive.javax.jdo.option.ConnectionURL"),
)
"""Settings by which a user names another metastore, or none."""


def driver_session(*, warehouse: str, master: str, host: str, user_settings: Mapping[str, str]) -> SparkSession:
    """A session with the user's settings, and the defaults of `driver_settings` for others.

    Raises `MetastoreTakenError` if another process has the metastore of the warehouse open.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    settings = driver_settings(
        warehouse=warehouse, master=master, host=host, user_settings=user_settings, environment=os.environ
    )
    builder = SparkSession.builder
    for key, value in {**fast_start(settings), **settings}.items():
        builder = builder.config(key, value)
    with starting_java():
        spark = builder.getOrCreate()
    _bound_results(spark)
    folder = _folder(settings[_WAREHOUSE])
    if folder is not None and _CONNECTION not in user_settings:
        # By default Derby writes its log into the current folder.
        system: Any = spark._jvm.java.lang.System  # type: ignore[union-attr]
        system.setProperty("derby.stream.error.file", str(folder / _DERBY_LOG))
    try:
        spark.sql("SHOW DATABASES").collect()
    except Exception as error:
        if _DERBY_IN_USE not in _causes(error):
            raise
        database = re.search(r"databaseName=([^;]+)", settings.get(_CONNECTION, ""))
        raise MetastoreTakenError(metastore=database[1] if database else settings[_WAREHOUSE]) from None
    return spark


def driver_settings(
    *, warehouse: str, master: str, host: str, user_settings: Mapping[str, str], environment: Mapping[str, str]
) -> dict[str, str]:
    """Spark's settings: defaults for a server, overridden by the user's. Raises `InvalidArgumentError`."""
    folder = _folder(warehouse)
    settings = {
        "spark.app.name": "anabranch serve",
        _WAREHOUSE: warehouse if folder is None else str(folder),
        "spark.ui.showConsoleProgress": "false",
    }
    if "PYSPARK_GATEWAY_PORT" not in environment:
        # spark-submit has started the driver already.
        settings["spark.master"] = master
    if settings.get("spark.master", "").startswith("local"):
        # Tasks run in the server. Without this, a task that runs out of memory ends the server, not just its statement.
        settings["spark.executor.killOnFatalError.depth"] = "0"
    if settings.get("spark.master", "").startswith("local") and is_of_this_machine(host):
        # A driver without executors on other machines need not be reachable from them.
        settings.update({"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"})
        settings["spark.ui.enabled"] = "false"
    if not any(key in user_settings for key in _OTHER_METASTORES) and not _has_hive_site(environment):
        settings["spark.sql.catalogImplementation"] = "hive"
        settings[_CONNECTION] = _derby(folder, warehouse)
    return {**settings, **user_settings}


def _bound_results(spark: SparkSession) -> None:
    """Refuse results larger than a part of the driver's memory, unless the user has set another limit."""
    context: Any = spark.sparkContext._jsc.sc()
    memory = int(spark._jvm.java.lang.Runtime.getRuntime().maxMemory())  # type: ignore[union-attr]
    # Spark reads the setting for each job.
    context.conf().setIfMissing(_RESULT_MAX, str(memory // _RESULTS_TO_MEMORY))


def _derby(folder: Path | None, warehouse: str) -> str:
    if folder is None:
        problem = (
            "the metastore that comes with Spark needs a local folder; name another metastore, for example by "
            "--conf spark.hadoop.hive.metastore.uris=thrift://…"
        )
        raise InvalidArgumentError(argument="--warehouse", value=warehouse, problem=problem)
    folder.mkdir(parents=True, exist_ok=True)
    return f"jdbc:derby:;databaseName={folder / METASTORE};create=true"


def _folder(warehouse: str) -> Path | None:
    """None for a warehouse that is no local folder."""
    path = warehouse.removeprefix("file://").removeprefix("file:")
    return None if "://" in path else Path(path).expanduser().absolute()


def _has_hive_site(environment: Mapping[str, str]) -> bool:
    """Whether this Spark has a `hive-site.xml`, which may name a metastore."""
    folders = [environment.get("SPARK_CONF_DIR"), environment.get("HIVE_CONF_DIR")]
    home = environment.get("SPARK_HOME")
    folders += [home and f"{home}/conf"]
    return any(folder and Path(folder, "hive-site.xml").is_file() for folder in folders)


def _causes(error: Exception) -> str:
    """The text of `error` and of the JVM's exceptions behind it, also of nested ones without a `getCause`."""
    java = getattr(error, "_origin", None) or getattr(error, "java_exception", None)
    if java is None:
        return str(error)
    jvm: Any = SparkContext._jvm
    stack_trace = jvm.java.io.StringWriter()
    java.printStackTrace(jvm.java.io.PrintWriter(stack_trace))
    return str(stack_trace.toString())
