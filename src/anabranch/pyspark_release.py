"""Which releases of PySpark anabranch runs on, said before an import fails on what others lack."""

from __future__ import annotations

import re

import pyspark

FIRST, BEFORE = (4, 0), (4, 4)
"""As in pyproject.toml."""
SUPPORTED = f">={FIRST[0]}.{FIRST[1]},<{BEFORE[0]}.{BEFORE[1]}"


class PySparkReleaseError(ImportError):
    """The PySpark that is installed is none that anabranch runs on."""


def check_release(version: str) -> None:
    """Raises `PySparkReleaseError` for a release that is too old. A newer one is tried."""
    numbers = re.match(r"(\d+)\.(\d+)", version)
    if numbers is None or (int(numbers[1]), int(numbers[2])) >= FIRST:
        return
    supported = f"PySpark {FIRST[0]}.{FIRST[1]} to {BEFORE[0]}.{BEFORE[1] - 1}"
    way_out = f'run pip install "pyspark{SUPPORTED}".'
    raise PySparkReleaseError(f"PySpark {version} is installed, and anabranch runs on {supported}: {way_out}")


check_release(pyspark.__version__)
