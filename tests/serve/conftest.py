"""Fixtures of tests of servers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from serve.pipeline_runners import SERVED, WAYS, PipelineRunner, own_program_runner, served_runner


@pytest.fixture(params=WAYS)
def runner(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[PipelineRunner]:
    """What runs a pipeline, each way once."""
    if request.param == SERVED:
        with served_runner(tmp_path) as served:
            yield served
        return
    request.getfixturevalue("connect_port")
    yield own_program_runner(request.getfixturevalue("delta"), tmp_path)
