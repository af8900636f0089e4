"""The Java that Spark will start: where it is, which version it is, and what to do where there is none for Spark.

Imports only the standard library, and runs as a program (`python src/anabranch/java_search.py`), so that
`scripts/ensure_java.sh` needs no environment with packages.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

JAVA_MIN = 17
JAVA_BEFORE = {"4.0": 23, "4.1": 23}
"""The first Java that a release of PySpark does not run on: Hadoop in it calls a method that Java 23 took away."""
NEEDED = f"Spark needs Java {JAVA_MIN} or newer, and "
WAYS_OUT = """
Install one of these, then run the command again:
  Debian, Ubuntu   sudo apt-get install openjdk-17-jre-headless
  Fedora, RHEL     sudo dnf install java-17-openjdk-headless
  macOS            brew install openjdk@17
  conda            conda install -c conda-forge openjdk=17
If Java is installed elsewhere, set JAVA_HOME to its folder."""


def java_path(environment: Mapping[str, str]) -> str | None:
    """The program that Spark would start as Java; None where there is none."""
    home = environment.get("JAVA_HOME")
    # As Spark does: what JAVA_HOME names is started, and where it is not set the first `java` of the path.
    return shutil.which(str(Path(home, "bin", "java"))) if home else shutil.which("java")


def java_problem(pyspark_version: str = "") -> str | None:
    """What is wrong with the Java that Spark would start, as a clause; None for one that it runs on.

    Starts no process where the folder of that Java has the file `release`, as those of all usual distributions do.
    """
    home = os.environ.get("JAVA_HOME")
    java = java_path(os.environ)
    if java is None:
        return _without_java_home(home) if home else "no java was found"
    version = java_version(java)
    if version is None:
        return f"{java} does not say its version"
    if version < JAVA_MIN:
        return f"{java} is version {version}"
    release = ".".join(pyspark_version.split(".")[:2])
    if version >= JAVA_BEFORE.get(release, sys.maxsize):
        return f"{java} is version {version}, too new for PySpark {release}, which runs on Java 17 and 21"
    return None


def _without_java_home(home: str) -> str:
    """The clause about a JAVA_HOME without Java, with the way out where the path has one that Spark runs on."""
    java = shutil.which("java")
    version = java_version(java) if java else None
    way_out = f" (unset JAVA_HOME to use {java}, version {version})" if version and version >= JAVA_MIN else ""
    return f"JAVA_HOME is {home}, which has no bin/java{way_out}"


def java_version(java: str) -> int | None:
    """The major version: 8 of `1.8.0_392`, 17 of `17.0.15`."""
    try:
        text = Path(java).resolve().parent.parent.joinpath("release").read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        text = ""
    match = re.search(r'^JAVA_VERSION="(?:1\.)?(\d+)', text, re.MULTILINE)
    match = match or re.search(r'version "(?:1\.)?(\d+)', _printed_version(java))
    return int(match[1]) if match else None


def _printed_version(java: str) -> str:
    try:
        ended = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return ended.stderr + ended.stdout


if __name__ == "__main__":
    problem = java_problem()
    if problem is not None:
        sys.exit(f"{NEEDED}{problem}.{WAYS_OUT}")
