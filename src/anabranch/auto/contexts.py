"""Spark's JVM starts without the settings that ask for the delta-spark jar, wherever they come from."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any

from anabranch.auto.enabled_sessions import PURPOSE
from anabranch.auto.jar_settings import JAR_SETTINGS, submit_arguments_without_jar, tell, without_jar
from anabranch.patches import patch

_SUBMIT_ARGUMENTS = "PYSPARK_SUBMIT_ARGS"


def watch_contexts(module: Any) -> None:
    """Wrap the one place of `pyspark.core.context` that all ways to a JVM and to a SparkContext lead through."""

    def replace(bound: Any) -> Any:
        original = bound.__func__

        @functools.wraps(original)
        def ensure_initialized(cls: Any, instance: Any = None, gateway: Any = None, conf: Any = None) -> None:
            left_out = [*_clean_environment(), *(_clean_conf(conf) if conf is not None else ())]
            tell(left_out)
            original(cls, instance, gateway, conf)
            # spark-submit and spark-defaults.conf speak through the properties of the JVM.
            tell(_clean_properties(cls._jvm))

        return classmethod(ensure_initialized)

    patch(PURPOSE, module.SparkContext, "_ensure_initialized", replace)


def _clean_environment() -> list[str]:
    arguments, left_out = submit_arguments_without_jar(os.environ.get(_SUBMIT_ARGUMENTS, ""))
    if left_out:
        os.environ[_SUBMIT_ARGUMENTS] = arguments
    return left_out


def _clean_conf(conf: Any) -> list[str]:
    """In the object that the caller made, as it is read again when the JVM is up."""

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
    """Takes what asks for the jar out of a store of settings; gives what was left out."""
    found: list[str] = []
    for key in JAR_SETTINGS:
        value = get(key)
        if value is None:
            continue
        changed, left_out = without_jar(key, value)
        found += left_out
        if left_out and changed is not None:
            put(key, changed)
        elif left_out:
            remove(key)
    return found
