"""Shared by the tests of the protocol layer."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import settings

# A busy machine is no failure.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

CORPUS = Path(__file__).parents[3] / "shared" / "corpus"


@pytest.fixture
def corpus() -> Path:
    """The folder with tables that other engines wrote."""
    if not CORPUS.is_dir():
        pytest.skip(f"no tables of other engines at {CORPUS}")
    return CORPUS
