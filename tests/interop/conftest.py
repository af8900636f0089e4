"""Tables that other programs wrote, and one of those programs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from interop.corpus_tables import CORPUS, unpack
from interop.jar import Jar


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The unpacked folder: `golden/<name>/delta`, `dat/<name>/delta`."""
    if not CORPUS.is_dir():
        pytest.skip(f"no tables of other engines at {CORPUS}")
    unpacked = tmp_path_factory.mktemp("corpus")
    unpack(unpacked)
    return unpacked


@pytest.fixture(scope="module")
def jar() -> Iterator[Jar]:
    """delta-spark, in a process of its own; for tests marked `jar`."""
    opened = Jar()
    yield opened
    opened.close()
