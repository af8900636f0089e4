"""Tables of other engines, unpacked once a run, and the way to the log that the tests of `log` build."""

from __future__ import annotations

import sys
import tarfile
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "log"))

CORPUS = Path(__file__).parents[3] / "shared" / "corpus"


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The unpacked folder: `golden/<name>/delta`, `dat/<name>/delta`."""
    if not CORPUS.is_dir():
        pytest.skip(f"no tables of other engines at {CORPUS}")
    unpacked = tmp_path_factory.mktemp("corpus")
    for name in ("golden", "dat"):
        with tarfile.open(CORPUS / f"{name}.tar.gz") as archive:
            archive.extractall(unpacked, filter="data")
    return unpacked
