"""Tables on disk for the command line, and a way to run it."""

from __future__ import annotations

import dataclasses
import json
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from anabranch.cli.main import app
from cli.tables_in_folders import TableInFolder

CORPUS = Path(__file__).parents[3] / "shared" / "corpus"


@dataclasses.dataclass(frozen=True)
class Outcome:
    """The exit code and the output of a command."""

    exit_code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """Standard output as the one JSON document it must be."""
        return json.loads(self.out)


@pytest.fixture
def run() -> Callable[..., Outcome]:
    """Runs `anabranch` with these arguments."""
    runner = CliRunner()

    def call(*arguments: object) -> Outcome:
        result = runner.invoke(app, [str(argument) for argument in arguments])
        return Outcome(result.exit_code, result.stdout, result.stderr)

    return call


@pytest.fixture(scope="session")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A table of the corpus by name. Tests must not change it."""
    archive = CORPUS / "golden.tar.gz"
    if not archive.exists():
        pytest.skip(f"the corpus of foreign tables is not at {CORPUS}")
    folder = tmp_path_factory.mktemp("corpus")
    with tarfile.open(archive) as files:
        files.extractall(folder, filter="data")

    def find(name: str) -> Path:
        return folder / "golden" / name / "delta"

    return find


@pytest.fixture
def copied(golden: Callable[[str], Path], tmp_path: Path) -> Callable[[str], Path]:
    """A copy of a table of the corpus by name, which tests may damage."""

    def copy(name: str) -> Path:
        return Path(shutil.copytree(golden(name), tmp_path / name))

    return copy


@pytest.fixture
def table(tmp_path: Path) -> TableInFolder:
    """A table that anabranch wrote: rows 0 to 9 and 10 to 19 in two files, some rows of the second hidden."""
    return TableInFolder.with_hidden_rows(tmp_path / "table")
