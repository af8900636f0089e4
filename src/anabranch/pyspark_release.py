"""The supported releases of PySpark, checked before an import of something that others lack fails."""

from __future__ import annotations

import re

import pyspark

FIRST, BEFORE = (4, 0), (4, 4)
"""The first supported release, and the first one after the supported ones, as in pyproject.toml."""
SUPPORTED = f">={FIRST[0]}.{FIRST[1]},<{BEFORE[0]}.{BEFORE[1]}"


class PySparkReleaseError(ImportError):
    """The installed release of PySpark is not supported."""


def check_release(version: str) -> None:
    """Raises `PySparkReleaseError` for a release that is too old. A newer one is allowed."""
    numbers = re.match(r"(\d+)\.(\d+)", version)
    if numbers is None or (int(numbers[1]), int(numbers[2])) >= FIRST:
        return
    supported = f"PySpark {FIRST[0]}.{FIRST[1]} to {BEFORE[0]}.{BEFORE[1] - 1}"
    way_out = f'run pip install "pyspark{SUPPORTED}".'
    raise PySparkReleaseError(f"PySpark {version} is installed, and anabranch runs on {supported}: {way_out}")


check_release(pyspark.__version__)
