"""The soak of streams for some 30 seconds. `make soak-streams` goes on for the given time."""

from __future__ import annotations

from pathlib import Path

import pytest

from streaming.soak import soak

SECONDS = 30

pytestmark = [pytest.mark.spark, pytest.mark.long]


def test_streams_that_are_killed_read_and_write_each_row_once(tmp_path: Path) -> None:
    """Covers fault F52: processes are killed at any point, beside MERGE, OPTIMIZE and VACUUM."""
    figures = soak(tmp_path, SECONDS, seed=1)
    assert figures.problems == [], str(figures)
    assert figures.batches > 0
    assert figures.operations["STREAMING UPDATE"] > 0
