"""Checks for a Java that Spark can use: PySpark's own error for a missing one does not mention Java."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from pyspark.errors import PySparkRuntimeError

from anabranch.errors.arguments import JavaMissingError

JAVA_MIN = 17
_NO_JVM = "JAVA_GATEWAY_EXITED"


def require_java() -> None:
    """Raises `JavaMissingError` unless there is a Java that Spark can use."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which(str(Path(home) / "bin" / "java")) if home else None
    java = java or shutil.which("java")
    if java is None:
        raise JavaMissingError(found="no java was found")
    java_output = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False)  # noqa: S603
    version = re.search(r'version "(\d+)', java_output.stderr + java_output.stdout)
    if version is None:
        raise JavaMissingError(found=f"{java} does not say its version")
    if int(version[1]) < JAVA_MIN:
        raise JavaMissingError(found=f"{java} is version {version[1]}")


@contextlib.contextmanager
def starting_java() -> Iterator[None]:
    """A block that makes a session. Raises `JavaMissingError` where no JVM starts because there is no Java for it."""
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
