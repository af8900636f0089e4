"""Tables that other programs wrote."""

from __future__ import annotations

from pathlib import Path

import pytest

from interop.corpus_tables import CORPUS, unpack


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The unpacked folder: `golden/<name>/delta`, `dat/<name>/delta`."""
    if not CORPUS.is_dir():
        pytest.skip(f"no tables of other engines at {CORPUS}")
    unpacked = tmp_path_factory.mktemp("corpus")
    unpack(unpacked)
    return unpacked
