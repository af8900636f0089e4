"""The versions that development installs fit what the package and its tools require."""

from __future__ import annotations

import re
import tomllib
from itertools import chain
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PROJECT = Path(__file__).parents[1]
DESCRIPTION = tomllib.loads((PROJECT / "pyproject.toml").read_text("utf-8"))
REQUIREMENTS = [
    Requirement(text)
    for text in chain(
        DESCRIPTION["project"]["dependencies"],
        *DESCRIPTION["project"]["optional-dependencies"].values(),
        *DESCRIPTION["dependency-groups"].values(),
    )
]
LOCKED = {
    canonicalize_name(name): version
    for name, version in re.findall(
        r"^([\w.-]+)==(\S+)$", (PROJECT / "constraints.txt").read_text("utf-8"), re.MULTILINE
    )
}


@pytest.mark.parametrize("requirement", [package for package in REQUIREMENTS if package.name != "pyspark"], ids=str)
def test_constraints_have_a_version_that_fits_each_requirement(requirement: Requirement) -> None:
    """`make lock` was run after the last change of pyproject.toml that needs it."""
    version = LOCKED.get(canonicalize_name(requirement.name))
    assert version is not None
    assert version in requirement.specifier


def test_the_makefile_has_releases_of_pyspark_that_the_package_supports() -> None:
    [supported] = [requirement.specifier for requirement in REQUIREMENTS if requirement.name == "pyspark"]
    line = re.search(r"^PYSPARK_RELEASES = (.+)$", (PROJECT / "Makefile").read_text("utf-8"), re.MULTILINE)
    assert line is not None
    releases = line[1].split()
    assert len(releases) > 1
    assert all(release in supported for release in releases)
