"""Every Spark session of the process is enabled as soon as it exists.

A builder applies its options to a session only after it has created it, and before a Connect session it may create a
classic one for itself. So sessions created inside a builder are not enabled at once: the one that the builder returns
is. Any other session is enabled at the end of its `__init__`.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import threading
from collections.abc import Callable, Iterator
from typing import Any

from anabranch.auto.jar_settings import JAR_SETTINGS, warn_of, without_jar
from anabranch.patches import patch

logger = logging.getLogger("anabranch.auto")

PURPOSE = "programs for delta-spark"
"""The purpose of these patches. They are never undone: `auto` stays on until the process ends."""


def wrap(cls: type, name: str, around: Callable[[Any, Callable[[], Any]], Any]) -> None:
    """Replace a method by `around(self, call)`, where `call()` calls the original method."""

    def replace(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def method(self: Any, *args: Any, **kwargs: Any) -> Any:
            return around(self, functools.partial(original, self, *args, **kwargs))

        return method

    patch(PURPOSE, cls, name, replace)


_BUILDER_METHODS = ("getOrCreate", "create")
_COPYING_METHODS = ("newSession", "cloneSession")
"""Methods of Connect sessions in newer releases of PySpark, which do not call `__init__`."""

_enabled: set[str] = set()
"""The ids of the sessions that are enabled."""


class _Thread(threading.local):
    busy = False
    """Whether a builder is running, or `enable`, which may create sessions of its own."""


_thread = _Thread()


def watch_sessions(module: Any) -> None:
    """Wrap the classes of `pyspark.sql.session`."""
    wrap(module.SparkSession, "__init__", _init)
    for name in _BUILDER_METHODS:
        wrap(module.SparkSession.Builder, name, _build)


def watch_connect_sessions(module: Any) -> None:
    """Wrap the classes of `pyspark.sql.connect.session`."""
    watch_sessions(module)
    for name in _COPYING_METHODS:
        if hasattr(module.SparkSession, name):
            wrap(module.SparkSession, name, _copy)


def enable_once(spark: Any) -> None:
    """Call `anabranch.enable`, unless the session is enabled already, perhaps as another Python object."""
    if _thread.busy:
        return
    # This module is loaded during the import of PySpark; once there is a session, PySpark can be imported.
    import anabranch  # noqa: PLC0415
    from anabranch.errors.environment import ServerWithoutDeltaError  # noqa: PLC0415
    from anabranch.spark.gateway.jvm_sessions import identity, is_connect  # noqa: PLC0415

    with _busy():
        session_id = spark.session_id if is_connect(spark) else identity(spark)
        if session_id in _enabled:
            return
        try:
            anabranch.enable(spark)
        except ServerWithoutDeltaError as error:
            # The program may not use Delta tables in this session; if it does, the server refuses them.
            logger.warning("%s", error)
        _enabled.add(session_id)


def _init(session: Any, call: Callable[[], Any]) -> None:
    call()
    enable_once(session)


def _build(builder: Any, call: Callable[[], Any]) -> Any:
    # As in `enable_once`.
    from anabranch.spark.jvm_start import starting_java  # noqa: PLC0415

    warn_of(_clean_options(builder._options))
    with _busy(), starting_java(may_be_elsewhere="spark.remote" in builder._options):
        session = call()
    enable_once(session)
    return session


def _copy(_: Any, call: Callable[[], Any]) -> Any:
    session = call()
    enable_once(session)
    return session


def _clean_options(options: dict[str, Any]) -> list[str]:
    removed: list[str] = []
    for key in JAR_SETTINGS.keys() & options.keys():
        changed, left_out = without_jar(key, str(options[key]))
        removed += left_out
        if left_out and changed is not None:
            options[key] = changed
        elif left_out:
            del options[key]
    return sorted(removed)


@contextlib.contextmanager
def _busy() -> Iterator[None]:
    before = _thread.busy
    _thread.busy = True
    try:
        yield
    finally:
        _thread.busy = before
