"""The settings of Spark that load the delta-spark jar, and their values without it."""

from __future__ import annotations

import logging
import re
import shlex
from collections.abc import Callable, Iterable, Mapping

logger = logging.getLogger("anabranch.auto")

_JAR = re.compile(r"(?:io\.delta_)?delta-(?:spark|core|storage|contribs|iceberg|hudi|connect)(?![a-z]).*\.jar")
_PLUGINS = ("org.apache.spark.sql.connect.delta.", "io.delta.connect.")


def _is_package(entry: str) -> bool:
    """Delta Sharing, which reads tables over HTTP, is another library, and anabranch does not replace it."""
    group, _, artifact = entry.partition(":")
    return group == "io.delta" and not artifact.startswith("delta-sharing")


def _is_jar(entry: str) -> bool:
    return _JAR.fullmatch(re.split(r"[/\\]", entry)[-1]) is not None


def _is_extension(entry: str) -> bool:
    return entry == "io.delta.sql.DeltaSparkSessionExtension"


def _is_catalog(entry: str) -> bool:
    return entry == "org.apache.spark.sql.delta.catalog.DeltaCatalog"


def _is_plugin(entry: str) -> bool:
    return entry.startswith(_PLUGINS)


JAR_SETTINGS: Mapping[str, Callable[[str], bool]] = {
    "spark.jars.packages": _is_package,
    "spark.jars": _is_jar,
    "spark.sql.extensions": _is_extension,
    "spark.sql.catalog.spark_catalog": _is_catalog,
    "spark.connect.extensions.relation.classes": _is_plugin,
    "spark.connect.extensions.command.classes": _is_plugin,
}
"""The settings that can load the jar. Each is a comma-separated list; the function says which entries load the jar."""

_SUBMIT_OPTIONS = {"--packages": "spark.jars.packages", "--jars": "spark.jars"}
_CONF_OPTIONS = {"--conf", "-c"}

_warned_of: set[str] = set()


def without_jar(key: str, value: str) -> tuple[str | None, list[str]]:
    """The setting's value without the jar, None if that is empty, and the entries that load the jar, as `key=entry`."""
    loads_jar = JAR_SETTINGS.get(key)
    if loads_jar is None:
        return value, []
    entries = [entry.strip() for entry in value.split(",") if entry.strip()]
    left_out = [f"{key}={entry}" for entry in entries if loads_jar(entry)]
    if not left_out:
        return value, []
    return ",".join(entry for entry in entries if not loads_jar(entry)) or None, left_out


def submit_arguments_without_jar(arguments: str) -> tuple[str, list[str]]:
    """The same for a line of spark-submit's options, as in `PYSPARK_SUBMIT_ARGS`."""
    kept: list[str] = []
    left_out: list[str] = []
    words = iter(shlex.split(arguments))
    for word in words:
        option, joined, value = word.partition("=") if word.startswith("--") else (word, "", "")
        if option not in _SUBMIT_OPTIONS and option not in _CONF_OPTIONS:
            kept.append(word)
            continue
        argument = value if joined else next(words, "")
        changed, entries = _option_without_jar(option, argument)
        left_out += entries
        if not entries:
            kept += [word] if joined else [word, argument]
        elif changed is not None:
            kept += [f"{option}={changed}"] if joined else [option, changed]
    return (shlex.join(kept), left_out) if left_out else (arguments, [])


def _option_without_jar(option: str, argument: str) -> tuple[str | None, list[str]]:
    if option in _SUBMIT_OPTIONS:
        return without_jar(_SUBMIT_OPTIONS[option], argument)
    key, _, value = argument.partition("=")
    changed, left_out = without_jar(key, value)
    return (None if changed is None else f"{key}={changed}"), left_out


def warn_of(left_out: Iterable[str]) -> None:
    """Log a warning, once a process for each entry. Without a logging configuration it is on standard error."""
    new = [entry for entry in dict.fromkeys(left_out) if entry not in _warned_of]
    if new:
        _warned_of.update(new)
        logger.warning("anabranch needs no delta-spark jar and leaves these settings out: %s", ", ".join(new))
