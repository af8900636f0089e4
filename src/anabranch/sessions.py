"""Sessions that know Delta.

What sessions by public API alone need is imported by these: it is much, and classic sessions use none of it.
"""

from __future__ import annotations

import logging
import os
import sys

from pyspark.sql import SparkSession

from anabranch.callbacks.enable_classic import disable_extension, enable_extension, enable_server, leave_out
from anabranch.errors.environment import (
    DeltaJarPresentError,
    ExtensionClashError,
    ExtensionNotLoadedError,
    SessionCatalogTakenError,
)
from anabranch.spark.extension.own_server import session_behind
from anabranch.spark.session.session_settings import ENGINE_SETTING, is_connect

logger = logging.getLogger("anabranch.spark")

_CATALOG = "spark.sql.catalog.spark_catalog"
_OUR_CATALOG = "delta.DeltaCatalog"
"""What sessions have for a catalog where Spark itself knows Delta."""


def enable(spark: SparkSession) -> SparkSession:
    """Let a running session read and write Delta tables, and give it back.

    Afterwards `spark.read.format("delta")`, `df.write.format("delta")`, `spark.table` and `spark.sql` work on
    Delta tables, by path and by names of the session's catalog. Works on classic sessions and on Spark Connect;
    nothing is added to Spark's classpath. Calling it again changes nothing. For a client whose server knows Delta
    (`anabranch serve`) it only lets errors be raised as the classes of `anabranch.errors`. Where the server of a client
    is in this process (`remote("local[*]")`), it knows Delta from now on, in all of its sessions. Tasks of a local
    session that run Python run this one, unless the environment or the session names another.
    """
    knows_format = False
    behind = session_behind(spark) if is_connect(spark) else spark
    if behind is not None:
        if behind is spark:
            _use_this_python(spark)
        if spark.conf.get(ENGINE_SETTING, "") != "portable" and _enable_in_jvm(spark, behind):
            return spark
        # Where other sessions have our classes, Spark knows a format of the name.
        knows_format = leave_out(behind)
    elif spark.conf.get(_CATALOG, "") == _OUR_CATALOG:
        # Its server is a driver that knows Delta, in every session: whatever the client says means there what it shall.
        from anabranch.spark.served.client_errors import raise_what_is_found  # noqa: PLC0415
        from anabranch.spark.served.told_errors import error_in  # noqa: PLC0415

        raise_what_is_found(__name__, error_in)
        return spark
    from anabranch.connect.enable_connect import enable_from_outside  # noqa: PLC0415

    enable_from_outside(spark, knows_format=knows_format)
    return spark


def _enable_in_jvm(spark: SparkSession, behind: SparkSession) -> bool:
    """Whether Spark itself knows Delta now. A client can do without, where a classic session cannot."""
    if behind is spark:
        enable_extension(spark)
        return True
    try:
        enable_server(behind)
    except (DeltaJarPresentError, SessionCatalogTakenError, ExtensionClashError, ExtensionNotLoadedError) as error:
        logger.warning("Delta tables are read and written through Spark's public API: %s", error)
        return False
    return True


def disable(spark: SparkSession) -> None:
    """Undo `enable`: the session is as it was, and so are all sessions of its application.

    Tables and streams stay; a DataFrame over a Delta table that was made before cannot be used any more. Harmless
    where nothing was enabled.
    """
    from anabranch.spark.served.client_errors import raise_as_before  # noqa: PLC0415

    raise_as_before(__name__)
    behind = session_behind(spark) if is_connect(spark) else spark
    if behind is not None:
        disable_extension(behind)
    from anabranch.connect.enable_connect import disable_from_outside  # noqa: PLC0415

    disable_from_outside(spark)


def session(app_name: str = "anabranch", *, cores: int | None = None, **settings: str) -> SparkSession:
    """A local session that knows Delta: the one that is running, or a new one on this machine.

    `cores` are the threads that run tasks, all of the machine's by default. Further settings are Spark's, with
    `__` for dots: `session(spark__sql__shuffle__partitions="8")`.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(app_name).master(f"local[{cores or '*'}]")
    defaults = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}
    for key, value in {**defaults, **{name.replace("__", "."): value for name, value in settings.items()}}.items():
        builder = builder.config(key, value)
    return enable(builder.getOrCreate())


def _use_this_python(spark: SparkSession) -> None:
    """Where tasks run on this machine, another `python3` that happens to come first lacks what they need.

    On a cluster, whoever set it up knows where Python is there.
    """
    context = spark.sparkContext
    # The context's own settings: `getConf` would copy each of them from the JVM.
    named = os.environ.get("PYSPARK_PYTHON") or context._conf.get("spark.pyspark.python")
    if not named and str(context.master).startswith("local"):
        context.pythonExec = sys.executable
