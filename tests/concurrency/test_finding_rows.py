"""Rows that a commit moved without word of where to, found again by their values. The judges do not know of it."""

from __future__ import annotations

import dataclasses
import os
import random

import numpy as np
import pytest
from pyroaring import BitMap64

from anabranch.transactions.read_set import RowsOfFile
from anabranch.transactions.rows.located_rows import RowPositions, checked_positions
from concurrency.conditions import Change, Row, Where
from concurrency.histories import LEVELS, run
from concurrency.judges import violations
from concurrency.merging import Merge
from concurrency.played_table import Manner
from concurrency.random_histories import (
    APPENDS_AND_COMPACTION,
    CHANGES_AND_OPTIMIZE,
    MERGES_AND_COMPACTION,
    random_history,
)
from concurrency.scenes import Scene, keys
from concurrency.statements import Delete, Insert, Optimize, Update
from transactions.table_on_memory import add

BOTH_LEVELS = pytest.mark.parametrize("level", LEVELS)
SIX = [Row(k, k) for k in range(6)]
FINDING = Manner(finds_rows=True)
SILENT = Optimize(leaves_word=False, ordered=True)
HISTORIES = int(os.environ.get("HISTORIES", "20000"))


@pytest.mark.long
@pytest.mark.parametrize("mix", [CHANGES_AND_OPTIMIZE, APPENDS_AND_COMPACTION, MERGES_AND_COMPACTION])
def test_every_history_has_a_serial_order(mix: object) -> None:
    """Whichever of several equal rows is taken for the one that was meant."""
    for seed in range(max(1, HISTORIES // 20)):
        history = random_history(random.Random(seed), mix)  # type: ignore[arg-type]
        history = dataclasses.replace(history, manner=dataclasses.replace(history.manner, finds_rows=True))
        assert violations(run(history)) == [], f"seed {seed}\n{history.in_words()}"


def test_delete_loses_to_a_rewrite_that_swallowed_an_append() -> None:
    """What came later stays, though it may satisfy the condition."""
    scene = Scene("WriteSerializable", SIX[:3], SIX[3:], manner=FINDING)
    error = scene.meets(Delete(Where("v", ">=", 4)), Insert((Row(8, 8), Row(5, 5))), SILENT)
    assert error is None
    assert sorted(keys(scene).elements()) == [0, 1, 2, 3, 5, 8]


@BOTH_LEVELS
def test_merge_that_matched_more_than_it_changed(level: str) -> None:
    scene = Scene(level, SIX[:3], SIX[3:], manner=FINDING)
    ours = scene.begins(Merge((Row(1, 9), Row(4, 0)), matched="update below"))
    scene.lands(Delete(Where("k", "=", 3)), SILENT)
    assert scene.ends(ours) is None


@BOTH_LEVELS
def test_a_rewrite_without_row_map_loses_to_a_delete(level: str) -> None:
    """The marks are put into its outputs; nothing is written again."""
    scene = Scene(level, SIX[:3], SIX[3:], manner=FINDING)
    assert scene.meets(SILENT, Delete(Where("k", "=", 1)), Update(Where("k", "=", 4), Change("v", 9, False))) is None
    assert scene.rows == [Row(0, 0), Row(2, 2), Row(3, 3), Row(4, 9), Row(5, 5)]
    assert len([action for action in scene.commit() if "remove" in action]) == 2


def test_rows_that_are_not_there_any_more() -> None:
    """A rewrite that changed values on the way is not believed."""
    rows = [RowsOfFile(file=add("a", rows=3), positions=BitMap64([0, 2]))]
    outputs = [add("b", rows=3)]

    def positions_of(*pairs: tuple[int, int]) -> list[RowPositions]:
        numbers, positions = zip(*pairs, strict=True)
        return [RowPositions(outputs=np.array(numbers, dtype=np.int64), positions=np.array(positions, dtype=np.uint64))]

    assert checked_positions(positions_of((0, 1), (0, 2)), rows, outputs) is not None
    assert checked_positions(None, rows, outputs) is None
    assert checked_positions(positions_of((0, 1)), rows, outputs) is None
    assert checked_positions(positions_of((0, 1), (0, 1)), rows, outputs) is None
    assert checked_positions(positions_of((0, 1), (1, 0)), rows, outputs) is None
