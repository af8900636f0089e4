"""Fixtures of tests of servers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from serve.pipeline_places import SERVED, WAYS, Place, place_of_own_program, place_served


@pytest.fixture(params=WAYS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """Where a pipeline runs, each way once."""
    if request.param == SERVED:
        with place_served(tmp_path) as served:
            yield served
        return
    request.getfixturevalue("connect_port")
    yield place_of_own_program(request.getfixturevalue("delta"), tmp_path)
