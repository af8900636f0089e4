"""Prints, as constraints for pip, the lowest version of each package that pyproject.toml accepts.

    python scripts/lowest.py > build/lowest.txt

`make test-lowest` runs tests with them. Packages without a lower bound, and those of development, are left to pip.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

PROJECT = Path(__file__).parents[1] / "pyproject.toml"


def lowest(requirements: list[str]) -> dict[str, str]:
    """By name of a package, the version after `>=`."""
    matches = (re.match(r"([\w.-]+)[^>]*>=([\d.]+)", requirement) for requirement in requirements)
    return {match[1]: match[2] for match in matches if match}


def main() -> None:
    """Print them."""
    project = tomllib.loads(PROJECT.read_text("utf-8"))["project"]
    requirements = [
        *project["dependencies"],
        *(line for extra in project["optional-dependencies"].values() for line in extra),
    ]
    sys.stdout.write("".join(f"{name}=={version}\n" for name, version in lowest(requirements).items()))


if __name__ == "__main__":
    main()
