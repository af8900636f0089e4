"""`anabranch shell`: an interactive Python with a session."""

from __future__ import annotations

import code
import importlib.util
import os
import platform
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from anabranch import __version__
from anabranch.auto.import_hook import install
from anabranch.errors.arguments import InvalidArgumentError


def start_shell(settings: Sequence[str], *, plain: bool) -> None:
    """Make a session with `settings`, each `key=value`, and start IPython, or Python's own shell."""
    parsed = dict(_parsed(setting) for setting in settings)
    install()
    names = _names(parsed)
    banner = _banner(names["spark"])
    if not plain and importlib.util.find_spec("IPython") is not None:
        _ipython(names, banner)
    else:
        _python(names, banner)


def _parsed(setting: str) -> tuple[str, str]:
    key, equals, value = setting.partition("=")
    if not key or not equals:
        raise InvalidArgumentError(argument="--conf", value=setting, problem="it must be KEY=VALUE")
    return key, value


def _names(settings: dict[str, str]) -> dict[str, Any]:
    from pyspark.sql import SparkSession  # noqa: PLC0415 - slow to import, so arguments are checked first

    import anabranch  # noqa: PLC0415 - as above
    from anabranch.spark.jvm_start import quiet_start  # noqa: PLC0415 - as above
    from anabranch.tables import DeltaTable  # noqa: PLC0415 - as above

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName("anabranch shell")
    for key, value in {**quiet_start(settings), **settings}.items():
        builder = builder.config(key, value)
    return {"spark": builder.getOrCreate(), "DeltaTable": DeltaTable, "anabranch": anabranch}


def _banner(spark: Any) -> str:
    return (
        f"anabranch {__version__}, Spark {spark.version}, Python {platform.python_version()}.\n"
        "`spark` is a session that knows Delta; DeltaTable and anabranch are imported."
    )


def _ipython(names: dict[str, Any], banner: str) -> None:
    ipython: Any = importlib.import_module("IPython")
    config: Any = importlib.import_module("traitlets.config").Config()
    config.TerminalInteractiveShell.banner1 = f"{banner}\n"
    ipython.start_ipython(argv=[], user_ns=names, config=config)


def _python(names: dict[str, Any], banner: str) -> None:
    main = {"__name__": "__main__", "__doc__": None, **names}
    hook = getattr(sys, "__interactivehook__", None)
    if hook is not None:
        hook()  # completion by Tab, and the history of earlier sessions
    startup = os.environ.get("PYTHONSTARTUP")
    if startup and Path(startup).is_file():
        exec(compile(Path(startup).read_bytes(), startup, "exec"), main)  # noqa: S102 - the user's, as `python` does
    code.interact(banner, local=main, exitmsg="")
