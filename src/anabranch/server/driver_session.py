"""The session of a driver that does nothing but serve: its settings, its warehouse, and a metastore that stays."""

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
from anabranch.spark.java_check import starting_java

METASTORE = "_metastore"
"""The folder in the warehouse that holds Derby's database."""
_DERBY_LOG = "_metastore.log"
_DERBY_TAKEN = "XSDB6"
"""What Derby calls a database that another process has open."""
_WAREHOUSE = "spark.sql.warehouse.dir"
_CONNECTION = "spark.hadoop.javax.jdo.option.ConnectionURL"
_RESULT_MAX = "spark.driver.maxResultSize"
_RESULTS_TO_MEMORY = 8
"""By Spark's default one result may be as large as the driver's default memory is. Several clients ask at once, and
while a result is made up to three copies of its parts are there."""
_OTHER_METASTORES = (
    *("spark.sql.catalogImplementation", "spark.hadoop.hive.metastore.uris", "spark.hive.metastore.uris"),
    *(_CONNECTION, "spark.hive.javax.jdo.option.ConnectionURL"),
)
"""Settings by which a user names a metastore of his own, or does without."""


def driver_session(*, warehouse: str, master: str, host: str, given: Mapping[str, str]) -> SparkSession:
    """A session with the settings `given`, and ours where these say nothing.

    Raises `MetastoreTakenError` where another process has the metastore of the warehouse open.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    settings = driver_settings(warehouse=warehouse, master=master, host=host, given=given, environment=os.environ)
    builder = SparkSession.builder
    for key, value in settings.items():
        builder = builder.config(key, value)
    with starting_java():
        spark = builder.getOrCreate()
    _bound_results(spark)
    folder = _folder(settings[_WAREHOUSE])
    if folder is not None and _CONNECTION not in given:
        # Else Derby's log would be in the folder that the program happened to be started in.
        system: Any = spark._jvm.java.lang.System  # type: ignore[union-attr]
        system.setProperty("derby.stream.error.file", str(folder / _DERBY_LOG))
    try:
        spark.sql("SHOW DATABASES").collect()
    except Exception as error:
        if _DERBY_TAKEN not in _causes(error):
            raise
        found = re.search(r"databaseName=([^;]+)", settings.get(_CONNECTION, ""))
        raise MetastoreTakenError(metastore=found[1] if found else settings[_WAREHOUSE]) from None
    return spark


def driver_settings(
    *, warehouse: str, master: str, host: str, given: Mapping[str, str], environment: Mapping[str, str]
) -> dict[str, str]:
    """Spark's settings; those `given` go before ours. Raises `InvalidArgumentError`."""
    folder = _folder(warehouse)
    settings = {
        "spark.app.name": "anabranch serve",
        _WAREHOUSE: warehouse if folder is None else str(folder),
        "spark.ui.showConsoleProgress": "false",
    }
    if "PYSPARK_GATEWAY_PORT" not in environment:
        # Of spark-submit the driver is there already.
        settings["spark.master"] = master
    if settings.get("spark.master", "").startswith("local"):
        # Tasks run in the server: one that needs more memory than there is fails its statement and does not end all.
        settings["spark.executor.killOnFatalError.depth"] = "0"
    if settings.get("spark.master", "").startswith("local") and is_of_this_machine(host):
        # Nothing of a driver without executors elsewhere needs to be reached from there.
        settings.update({"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"})
        settings["spark.ui.enabled"] = "false"
    if not any(key in given for key in _OTHER_METASTORES) and not _has_hive_site(environment):
        settings["spark.sql.catalogImplementation"] = "hive"
        settings[_CONNECTION] = _derby(folder, warehouse)
    return {**settings, **given}


def _bound_results(spark: SparkSession) -> None:
    """A client is refused a result that is large beside the driver's memory, unless the user has set another limit."""
    context: Any = spark.sparkContext._jsc.sc()
    memory = int(spark._jvm.java.lang.Runtime.getRuntime().maxMemory())  # type: ignore[union-attr]
    # Each job asks for it anew.
    context.conf().setIfMissing(_RESULT_MAX, str(memory // _RESULTS_TO_MEMORY))


def _derby(folder: Path | None, warehouse: str) -> str:
    if folder is None:
        problem = (
            "the metastore that comes with Spark needs a local folder; name another one, for example by "
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
    """Whether the administrator of this Spark has said where the metastore is."""
    folders = [environment.get("SPARK_CONF_DIR"), environment.get("HIVE_CONF_DIR")]
    home = environment.get("SPARK_HOME")
    folders += [home and f"{home}/conf"]
    return any(folder and Path(folder, "hive-site.xml").is_file() for folder in folders)


def _causes(error: Exception) -> str:
    """What `error` and the exceptions of the JVM behind it say, those included that have no cause but nested ones."""
    java = getattr(error, "_origin", None) or getattr(error, "java_exception", None)
    if java is None:
        return str(error)
    jvm: Any = SparkContext._jvm
    written = jvm.java.io.StringWriter()
    java.printStackTrace(jvm.java.io.PrintWriter(written))
    return str(written.toString())
