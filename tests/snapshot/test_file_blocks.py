"""A block of files whose rows die, compared with lists."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from anabranch.snapshot.live_files import CUTS_MAX, FileBlock
from anabranch.snapshot.replay import FileReconciler
from transactions.table_on_memory import add

PATHS = [f"f{number:04d}" for number in range(3 * CUTS_MAX)]


@pytest.fixture(scope="module")
def table() -> pa.Table:
    reconciler = FileReconciler()
    for path in PATHS:
        reconciler.take(add(path))
    return reconciler.changes().adds


@pytest.mark.parametrize("seed", range(20))
def test_a_block_has_the_rows_that_have_not_died(table: pa.Table, seed: int) -> None:
    chance = random.Random(seed)
    block, alive = FileBlock.of_table(table), set(PATHS)
    for _ in range(chance.randrange(1, 6)):
        dying = sorted(chance.sample(PATHS, chance.choice([0, 1, 3, 50, CUTS_MAX])))
        positions = block.positions_at(pa.array(dying, pa.string()))
        assert [PATHS[position] for position in positions] == [path for path in dying if path in alive]
        block, alive = block.without(positions), alive - set(dying)
        live = sorted(alive)
        assert block.count == len(live)
        assert block.columns(["path"])["path"].to_pylist() == live
        assert sum(len(batch) for batch in block.stats_batches()) == len(live)
        assert block.summary.size_bytes == 100 * len(live)
        chosen = np.array(sorted(chance.sample(range(len(live)), len(live) // 2)), dtype=np.int64)
        assert block.live_rows(chosen)["path"].to_pylist() == [live[position] for position in chosen]
