"""Programs in processes of their own, and environments to switch on."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Callable
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src"
PROGRAMS = Path(__file__).parent / "programs"

Finished = subprocess.CompletedProcess[str]
RunPython = Callable[..., Finished]


@pytest.fixture
def python(tmp_path: Path) -> RunPython:
    """Runs a Python in an empty folder with these arguments and environment variables."""
    folder = tmp_path / "here"
    folder.mkdir()

    def run(*words: object, executable: object = sys.executable, typed: str = "", **variables: str) -> Finished:
        environment = {key: value for key, value in os.environ.items() if key != "PYSPARK_SUBMIT_ARGS"}
        command = [str(executable), *map(str, words)]
        return subprocess.run(
            command,
            cwd=folder,
            env={**environment, **variables},
            input=typed,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )

    return run


@pytest.fixture
def anabranch_run(python: RunPython) -> RunPython:
    """Runs `anabranch run` with these arguments."""

    def run(*words: object, **variables: str) -> Finished:
        return python("-m", "anabranch", "run", *words, **variables)

    return run


@dataclasses.dataclass(frozen=True)
class Environment:
    """A virtual environment."""

    python: Path
    site_packages: Path


@pytest.fixture
def environment(tmp_path: Path) -> Environment:
    """An environment of its own, which finds the packages that the tests run on."""
    folder = tmp_path / "environment"
    venv.EnvBuilder(with_pip=False).create(folder)
    site_packages = next((folder / "lib").glob("python3*")) / "site-packages"
    # Each line becomes a place for packages; files like this one are not looked for there.
    packages = [SOURCE, sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]
    (site_packages / "_packages_of_the_tests.pth").write_text("\n".join(map(str, packages)) + "\n")
    return Environment(python=folder / "bin" / "python", site_packages=site_packages)
