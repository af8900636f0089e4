"""Independent readers, judge C6: what a simulation leaves is read by other engines, with equal rows."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from concurrency.conditions import Row
from concurrency.judges import table_at_every_version
from concurrency.random_histories import CHANGES_AND_OPTIMIZE, WITHOUT_VECTORS
from interop.readers import read_by_delta_rs, read_by_duckdb
from simulation.acts import Checkpoint, CompactLog
from simulation.events import Weather
from simulation.scenarios import Focus
from simulation.storm import run_seed

CHANGES = Focus(
    mix=CHANGES_AND_OPTIMIZE,
    upkeep=(Checkpoint(0), CompactLog(0, 2), Checkpoint(0)),
    properties=(("delta.checkpointInterval", "3"),),
    others=(),
    weather=Weather(switches=0.4, faults=0.05, deaths=0.01),
)
REWRITES = dataclasses.replace(CHANGES, mix=WITHOUT_VECTORS)


@pytest.mark.parametrize("read", [read_by_delta_rs, read_by_duckdb])
@pytest.mark.parametrize("focus", [CHANGES, REWRITES], ids=["vectors", "rewritten files"])
def test_others_read_what_a_simulation_leaves(read: Callable[[str], pa.Table], focus: Focus, tmp_path: Path) -> None:
    for seed in range(4):
        result = run_seed(seed, focus, with_rows=True)
        assert result.problems == ()
        folder = tmp_path / str(seed)
        for file in result.disk.list_tree():
            path = folder / file.path
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(result.disk.read(file.path))
        rows = Counter(Row(row["k"], row["v"]) for row in read(str(folder)).to_pylist())
        assert rows == table_at_every_version(result.played)[-1], result.scenario.in_words()
