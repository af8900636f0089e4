"""Spark's JVM starts without the settings that load the delta-spark jar, whether from code, environment or files."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any

from anabranch.auto.enabled_sessions import PURPOSE
from anabranch.auto.jar_settings import JAR_SETTINGS, submit_arguments_without_jar, warn_of, without_jar
from anabranch.patches import patch

_SUBMIT_ARGUMENTS = "PYSPARK_SUBMIT_ARGS"


def watch_contexts(module: Any) -> None:
    """Wrap `SparkContext._ensure_initialized`, which every start of a JVM or of a SparkContext calls."""

    def replace(bound: Any) -> Any:
        original = bound.__func__

        @functools.wraps(original)
        def ensure_initialized(cls: Any, instance: Any = None, gateway: Any = None, conf: Any = None) -> None:
            left_out = [*_clean_environment(), *(_clean_conf(conf) if conf is not None else ())]
            warn_of(left_out)
            original(cls, instance, gateway, conf)
            # Settings of spark-submit and of spark-defaults.conf are properties of the JVM.
            warn_of(_clean_properties(cls._jvm))

        return classmethod(ensure_initialized)

    patch(PURPOSE, module.SparkContext, "_ensure_initialized", replace)


def _clean_environment() -> list[str]:
    arguments, left_out = submit_arguments_without_jar(os.environ.get(_SUBMIT_ARGUMENTS, ""))
    if left_out:
        os.environ[_SUBMIT_ARGUMENTS] = arguments
    return left_out


def _clean_conf(conf: Any) -> list[str]:
    """Changes the caller's own object, since PySpark reads it again when the JVM is up."""

    def remove(key: str) -> None:
        if conf._jconf is not None:
            conf._jconf.remove(key)
        else:
            del conf._conf[key]

    return _clean(conf.get, conf.set, remove)


def _clean_properties(jvm: Any) -> list[str]:
    system = getattr(jvm, "java.lang.System")
    return _clean(system.getProperty, system.setProperty, system.clearProperty)


def _clean(get: Callable[[str], str | None], put: Callable[[str, str], Any], remove: Callable[[str], Any]) -> list[str]:
    """Remove the entries that load the jar from a store of settings, and return them."""
    removed: list[str] = []
    for key in JAR_SETTINGS:
        value = get(key)
        if value is None:
            continue
        changed, left_out = without_jar(key, value)
        removed += left_out
        if left_out and changed is not None:
            put(key, changed)
        elif left_out:
            remove(key)
    return removed
