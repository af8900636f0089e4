"""Every Spark session of the process is enabled as soon as it exists, whoever makes it.

A builder gives its options to a session only after it has made it, and on the way to a Connect session it may
make a classic one for itself. So what is made while a builder is at work waits, and what the builder returns is
enabled; any other session is enabled at the end of its `__init__`.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import threading
from collections.abc import Callable, Iterator
from typing import Any

from anabranch.auto.jar_settings import JAR_SETTINGS, tell, without_jar
from anabranch.patches import patch

logger = logging.getLogger("anabranch.auto")

PURPOSE = "programs for delta-spark"
"""Whoever switches `auto` on for a process keeps it to the end."""


def wrap(cls: type, name: str, around: Callable[[Any, Callable[[], Any]], Any]) -> None:
    """Have `around(self, call)` answer for the method, where `call()` is the method as it was."""

    def replace(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def method(self: Any, *args: Any, **kwargs: Any) -> Any:
            return around(self, functools.partial(original, self, *args, **kwargs))

        return method

    patch(PURPOSE, cls, name, replace)


_BUILDER_METHODS = ("getOrCreate", "create")
_COPYING_METHODS = ("newSession", "cloneSession")
"""Of Connect, where newer versions of PySpark have them; they do not call `__init__`."""

_enabled: set[str] = set()
"""Identities of sessions."""


class _Thread(threading.local):
    busy = False
    """A builder is at work, or `enable`, which may make sessions of its own."""


_thread = _Thread()


def watch_sessions(module: Any) -> None:
    """Wrap the classes of `pyspark.sql.session`."""
    wrap(module.SparkSession, "__init__", _make)
    for name in _BUILDER_METHODS:
        wrap(module.SparkSession.Builder, name, _build)


def watch_connect_sessions(module: Any) -> None:
    """Wrap the classes of `pyspark.sql.connect.session`."""
    watch_sessions(module)
    for name in _COPYING_METHODS:
        if hasattr(module.SparkSession, name):
            wrap(module.SparkSession, name, _copy)


def enable_once(spark: Any) -> None:
    """`anabranch.enable`, unless this is another Python object for a session that is enabled."""
    if _thread.busy:
        return
    # Whoever watches an import of PySpark cannot import PySpark; who has a session can.
    import anabranch  # noqa: PLC0415
    from anabranch.errors.environment import ServerWithoutDeltaError  # noqa: PLC0415
    from anabranch.spark.gateway.session_identity import identity, is_connect  # noqa: PLC0415

    with _busy():
        known = spark.session_id if is_connect(spark) else identity(spark)
        if known in _enabled:
            return
        try:
            anabranch.enable(spark)
        except ServerWithoutDeltaError as error:
            # The program may have no use for Delta tables in this session; where it has, the server refuses them.
            logger.warning("%s", error)
        _enabled.add(known)


def _make(session: Any, call: Callable[[], Any]) -> None:
    call()
    enable_once(session)


def _build(builder: Any, call: Callable[[], Any]) -> Any:
    # As in `enable_once`.
    from anabranch.spark.java_check import starting_java  # noqa: PLC0415

    tell(_clean_options(builder._options))
    with _busy(), starting_java():
        session = call()
    enable_once(session)
    return session


def _copy(_: Any, call: Callable[[], Any]) -> Any:
    session = call()
    enable_once(session)
    return session


def _clean_options(options: dict[str, Any]) -> list[str]:
    found: list[str] = []
    for key in JAR_SETTINGS.keys() & options.keys():
        changed, left_out = without_jar(key, str(options[key]))
        found += left_out
        if left_out and changed is not None:
            options[key] = changed
        elif left_out:
            del options[key]
    return sorted(found)


@contextlib.contextmanager
def _busy() -> Iterator[None]:
    before = _thread.busy
    _thread.busy = True
    try:
        yield
    finally:
        _thread.busy = before
