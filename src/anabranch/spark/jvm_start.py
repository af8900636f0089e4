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

_NO_JVM = "JAVA_GATEWAY_EXITED"
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_CONFIGURES_JVM = re.compile(r"log4j|driver-java-options|driver\.extraJavaOptions|properties-file")
"""Options of spark-submit that a setting of the session would replace, and a log that the user has set up."""
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
    return {} if configured or _jvm_runs() else {_JAVA_OPTIONS: f"-Dlog4j2.configurationFile={_LOG_SETTINGS.as_uri()}"}


def _jvm_runs() -> bool:
    return SparkContext._gateway is not None or "PYSPARK_GATEWAY_PORT" in os.environ


def _conf_folder() -> Path | None:
    """The folder of Spark's configuration. PySpark from PyPI has none."""
    home = os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent
    folder = Path(os.environ.get("SPARK_CONF_DIR") or Path(home, "conf"))
    return folder if folder.is_dir() else None


def _finds_java_itself() -> bool:
    """Whether a `spark-env.sh` is read before Java is started: it may set JAVA_HOME."""
    folder = _conf_folder()
    return folder is not None and (folder / "spark-env.sh").is_file()
