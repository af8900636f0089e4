"""Half a minute of the soak, on a machine that may be busy; `make soak` runs it for an hour."""

from __future__ import annotations

from pathlib import Path

import pytest

from soak.soaking import Soak, kill

pytestmark = [pytest.mark.spark, pytest.mark.long]


def test_half_a_minute(tmp_path: Path) -> None:
    """Covers fault F58: features are dropped while others change rows, and processes are killed."""
    soak = Soak(tmp_path / "soak", writers=2, seed=8, life_seconds=(12, 30))
    try:
        assert soak.run(30, statements=16) == [], soak.summary()
    finally:
        for process in soak.writers:
            kill(process.popen)
    assert soak.kills >= 1
    assert all(judge.last is not None for judge in soak.judges.values())
    assert sum(len(judge.states) for judge in soak.judges.values()) > 10, soak.summary()
