"""Writes into constraints.txt the newest versions that fit together, of all packages of the development.

    python scripts/lock.py -e '.[connect,demo,iceberg]' --group dev

The arguments are those of `pip install`; `make lock` passes those of the Makefile. Nothing is installed. `pip lock`
would also write the address of each package, which is that of a mirror where one is set.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

FILE = Path(__file__).parents[1] / "constraints.txt"
OLDEST_PYTHON = (3, 11)
"""A package's newest version for this release also supports the later ones; the reverse is not true."""

NOT_LOCKED = {"anabranch", "pyspark"}
HEADER = """\
# The versions that development installs. `make lock` writes this file.
# PySpark is not in it: each environment has another release, which the Makefile names.
"""


def versions(arguments: Sequence[str]) -> dict[str, str]:
    """The version of each package that pip would install into an empty environment, by the package's name."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    report = subprocess.run(  # noqa: S603
        [*pip, "--dry-run", "--ignore-installed", "--report", "-", *arguments], check=True, stdout=subprocess.PIPE
    ).stdout
    packages = [package["metadata"] for package in json.loads(report)["install"]]
    return {package["name"]: package["version"] for package in packages if package["name"] not in NOT_LOCKED}


def main(arguments: Sequence[str]) -> None:
    """Write the file."""
    if sys.version_info[:2] != OLDEST_PYTHON:
        sys.exit("constraints.txt is for all supported releases of Python: run this with the oldest, 3.11.")
    locked = sorted(versions(arguments).items(), key=lambda package: package[0].lower())
    FILE.write_text(HEADER + "".join(f"{name}=={version}\n" for name, version in locked), "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
