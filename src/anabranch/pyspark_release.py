"""The supported releases of PySpark, checked before an import of something that others lack fails."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

FIRST, BEFORE = (4, 0), (4, 4)
"""The first supported release, and the first one after the supported ones, as in pyproject.toml."""
SUPPORTED = f">={FIRST[0]}.{FIRST[1]},<{BEFORE[0]}.{BEFORE[1]}"
_RUNS_ON = (
    f"anabranch runs on PySpark {FIRST[0]}.{FIRST[1]} to {BEFORE[0]}.{BEFORE[1] - 1}: "
    f'run pip install "pyspark{SUPPORTED}".'
)


class PySparkReleaseError(ImportError):
    """PySpark is not installed, or its release is not supported."""


def check_release(version: str | None) -> None:
    """Raises `PySparkReleaseError` for a release that is too old, for the next major one, and for none.

    Warns of a later minor release.
    """
    if version is None:
        raise PySparkReleaseError(f"PySpark is not installed, and {_RUNS_ON}")
    numbers = _numbers(version)
    if numbers is None or FIRST <= numbers < BEFORE:
        return
    if FIRST <= numbers < (BEFORE[0] + 1, 0):
        warnings.warn(f"PySpark {version} is installed, and {_RUNS_ON}", stacklevel=2)
        return
    raise PySparkReleaseError(f"PySpark {version} is installed, and {_RUNS_ON}")


def check_spark_home(spark_home: str | None, version: str) -> None:
    """Raises `PySparkReleaseError` where `SPARK_HOME` has the jars of another release than PySpark's.

    PySpark starts those jars, and fails with `'JavaPackage' object is not callable`.
    """
    jars = Path(spark_home, "jars").glob("spark-core_*.jar") if spark_home else ()
    for jar in jars:
        spark = jar.stem.rpartition("_")[2].partition("-")[2]
        if _numbers(spark) not in {None, _numbers(version)}:
            raise PySparkReleaseError(
                f"SPARK_HOME is {spark_home}, which has Spark {spark}, and PySpark {version} is installed: unset "
                "SPARK_HOME, or install the PySpark of its release."
            )


def _numbers(version: str) -> tuple[int, int] | None:
    numbers = re.match(r"(\d+)\.(\d+)", version)
    return None if numbers is None else (int(numbers[1]), int(numbers[2]))


def _installed() -> str | None:
    try:
        import pyspark  # noqa: PLC0415 - where it is missing, that has to be said
    except ModuleNotFoundError as error:
        if error.name != "pyspark":
            raise
        return None
    # A folder that an interrupted `pip uninstall` has left is a package without a version.
    return getattr(pyspark, "__version__", None)


check_release(_installed())
