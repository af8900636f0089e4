"""Which settings of Spark ask for the delta-spark jar, and what is left of them without it."""

from __future__ import annotations

import logging
import re
import shlex
from collections.abc import Callable, Iterable, Mapping

logger = logging.getLogger("anabranch.auto")

_JAR = re.compile(r"(?:io\.delta_)?delta-(?:spark|core|storage|contribs|iceberg|hudi|connect)(?![a-z]).*\.jar")
_PLUGINS = ("org.apache.spark.sql.connect.delta.", "io.delta.connect.")


def _is_package(entry: str) -> bool:
    """Delta Sharing reads what somebody shares over HTTP: another thing, which we do not do."""
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
"""Settings that can ask for the jar, each a list parted by commas, with which of its entries do."""

_SUBMIT_OPTIONS = {"--packages": "spark.jars.packages", "--jars": "spark.jars"}
_CONF_OPTIONS = {"--conf", "-c"}

_told: set[str] = set()


def without_jar(key: str, value: str) -> tuple[str | None, list[str]]:
    """What is left of a setting, None where nothing is, and what asked for the jar, each as `key=entry`."""
    asks = JAR_SETTINGS.get(key)
    if asks is None:
        return value, []
    entries = [entry.strip() for entry in value.split(",") if entry.strip()]
    left_out = [f"{key}={entry}" for entry in entries if asks(entry)]
    if not left_out:
        return value, []
    return ",".join(entry for entry in entries if not asks(entry)) or None, left_out


def submit_arguments_without_jar(arguments: str) -> tuple[str, list[str]]:
    """The same for the options of spark-submit in one line, as `PYSPARK_SUBMIT_ARGS` has them."""
    kept: list[str] = []
    left_out: list[str] = []
    words = iter(shlex.split(arguments))
    for word in words:
        option, joined, value = word.partition("=") if word.startswith("--") else (word, "", "")
        if option not in _SUBMIT_OPTIONS and option not in _CONF_OPTIONS:
            kept.append(word)
            continue
        given = value if joined else next(words, "")
        changed, asked = _option_without_jar(option, given)
        left_out += asked
        if not asked:
            kept += [word] if joined else [word, given]
        elif changed is not None:
            kept += [f"{option}={changed}"] if joined else [option, changed]
    return (shlex.join(kept), left_out) if left_out else (arguments, [])


def _option_without_jar(option: str, given: str) -> tuple[str | None, list[str]]:
    if option in _SUBMIT_OPTIONS:
        return without_jar(_SUBMIT_OPTIONS[option], given)
    key, _, value = given.partition("=")
    changed, asked = without_jar(key, value)
    return (None if changed is None else f"{key}={changed}"), asked


def tell(left_out: Iterable[str]) -> None:
    """A warning, which ends on standard error where nobody set logging up; each setting is told of once a process."""
    news = [entry for entry in dict.fromkeys(left_out) if entry not in _told]
    if news:
        _told.update(news)
        logger.warning("anabranch needs no delta-spark jar and leaves these settings out: %s", ", ".join(news))
