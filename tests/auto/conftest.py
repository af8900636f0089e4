"""Programs in processes of their own, and environments to switch on."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from auto.environments import Environment, new_environment

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


@pytest.fixture
def environment(tmp_path: Path) -> Environment:
    """An environment of its own, which finds the packages that the tests run on."""
    return new_environment(tmp_path / "environment")
