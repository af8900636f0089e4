"""The start of a JVM for a local session: Java is checked first, and Spark's log is set up without its first screen."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pyspark
from pyspark import SparkContext
from pyspark.errors import PySparkRuntimeError

from anabranch.errors.arguments import JavaMissingError
from anabranch.java_search import java_problem
from anabranch.pyspark_release import check_spark_home
from anabranch.spark.class_archive import archive_options

_NO_JVM = "JAVA_GATEWAY_EXITED"
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_CONFIGURES_JVM = re.compile(r"log4j|driver-java-options|driver\.extraJavaOptions|properties-file")
"""Options of spark-submit that a setting of the session would replace, and a log that the user has set up."""
_CONFIGURES_CLASSES = re.compile(r"class-path|extraClassPath|driver-memory|driver\.memory")
"""Options of spark-submit that decide whether a JVM can use an archive of classes."""
_LOG_SETTINGS = Path(__file__).with_name("log4j2.properties")


def require_java() -> None:
    """Raises `JavaMissingError` unless Spark would start a Java that it runs on."""
    problem = java_problem(pyspark.__version__)
    if problem is not None:
        raise JavaMissingError(found=problem)


@contextlib.contextmanager
def starting_java(*, may_be_elsewhere: bool = False) -> Iterator[None]:
    """A block that makes a session. Raises `JavaMissingError` or `PySparkReleaseError` where no JVM can start.

    Nothing is checked where a JVM runs already. With `may_be_elsewhere`, for a client of a server that may run on
    another machine, Java is checked only when none has started.
    """
    if not (may_be_elsewhere or "SPARK_REMOTE" in os.environ or _jvm_runs() or _finds_java_itself()):
        check_spark_home(os.environ.get("SPARK_HOME"), pyspark.__version__)
        require_java()
    try:
        yield
    except PySparkRuntimeError as error:
        if error.getCondition() != _NO_JVM:
            raise
        try:
            require_java()
        except JavaMissingError as missing:
            # PySpark's error is about its gateway, and does not help a user without Java.
            raise missing from None
        raise


def quiet_start(settings: Mapping[str, str]) -> dict[str, str]:
    """Settings under which a new JVM logs warnings and errors, and nothing about its own start.

    There are none where a JVM runs already, and none where the user configures Spark's JVM or its log: by a folder of
    configuration, by the environment, or by the session's settings.
    """
    submitted = " ".join(os.environ.get(name, "") for name in ("PYSPARK_SUBMIT_ARGS", "SPARK_SUBMIT_OPTS"))
    configured = (
        _JAVA_OPTIONS in settings
        or _conf_folder() is not None
        or _CONFIGURES_JVM.search(submitted)
        or "LOG4J_CONFIGURATION_FILE" in os.environ
    )
    if configured or _jvm_runs():
        return {}
    log = f"-Dlog4j2.configurationFile={_LOG_SETTINGS.as_uri()}"
    return {_JAVA_OPTIONS: f"{log} {fast_start(settings).get(_JAVA_OPTIONS, '')}".rstrip()}


def fast_start(settings: Mapping[str, str]) -> dict[str, str]:
    """Settings under which a new JVM starts with an archive of Spark's classes, or writes one when it ends.

    There are none where a JVM runs already, and none where the user configures Spark's JVM. Raises
    `InvalidOptionError` for a value of `spark.anabranch.classArchive` other than true and false.
    """
    submitted = os.environ.get("PYSPARK_SUBMIT_ARGS", "")
    if _jvm_runs() or _JAVA_OPTIONS in settings or _conf_folder() is not None:
        return {}
    if _CONFIGURES_JVM.search(submitted) or _CONFIGURES_CLASSES.search(submitted):
        return {}
    options = archive_options(settings, os.environ, spark_home=_spark_home())
    return {_JAVA_OPTIONS: options} if options else {}


def _jvm_runs() -> bool:
    return SparkContext._gateway is not None or "PYSPARK_GATEWAY_PORT" in os.environ


def _conf_folder() -> Path | None:
    """The folder of Spark's configuration. PySpark from PyPI has none."""
    folder = Path(os.environ.get("SPARK_CONF_DIR") or _spark_home() / "conf")
    return folder if folder.is_dir() else None


def _spark_home() -> Path:
    return Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent)


def _finds_java_itself() -> bool:
    """Whether a `spark-env.sh` is read before Java is started: it may set JAVA_HOME."""
    folder = _conf_folder()
    return folder is not None and (folder / "spark-env.sh").is_file()
