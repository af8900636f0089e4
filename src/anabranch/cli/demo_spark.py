"""Small Spark sessions that start fast and do not chatter."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from anabranch.errors.cli import JavaMissingError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JAVA_MIN = 17


def require_java() -> None:
    """Raises `JavaMissingError` unless there is a Java that Spark can use."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which(str(Path(home) / "bin" / "java")) if home else None
    java = java or shutil.which("java")
    if java is None:
        raise JavaMissingError(found="no java was found")
    asked = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False)  # noqa: S603
    found = re.search(r'version "(\d+)', asked.stderr + asked.stdout)
    if found is None:
        raise JavaMissingError(found=f"{java} does not say its version")
    if int(found[1]) < JAVA_MIN:
        raise JavaMissingError(found=f"{java} is version {found[1]}")


def small_session(name: str, *, scratch: Path, cores: int) -> SparkSession:
    """A local session that knows Delta; what its JVM says goes to a file in `scratch`."""
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    with _stderr_to(scratch / f"{name}.log"):
        import anabranch  # noqa: PLC0415 - only the demo loads Spark

        session = anabranch.session(
            name,
            cores=cores,
            spark__driver__memory="640m",
            # A session of seconds is over before the better compiler pays.
            spark__driver__extraJavaOptions="-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
            spark__driver__host="127.0.0.1",
            spark__driver__bindAddress="127.0.0.1",
            spark__local__dir=str(scratch),
            spark__sql__shuffle__partitions="2",
            spark__sql__warehouse__dir=str(scratch / "warehouse"),
        )
        session.sparkContext.setLogLevel("ERROR")
    return session


@contextlib.contextmanager
def _stderr_to(path: Path) -> Iterator[None]:
    """The JVM inherits standard error when it starts, and keeps it for good."""
    sys.stderr.flush()
    kept = os.dup(2)
    try:
        with path.open("ab") as log:
            os.dup2(log.fileno(), 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
