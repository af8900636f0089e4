"""A MERGE leaves nothing in the memory of the JVM."""

from __future__ import annotations

import gc
import math
import time
from typing import Any
from unittest import mock

import pytest
from pyspark.sql import SparkSession

from anabranch.commands import table_access
from anabranch.commands.merge import merge_join
from anabranch.spark.gateway.garbage_collection import FrameGarbage
from anabranch.spark.rows.cached_rows import Size
from extension.left_behind import GONE_SECONDS, STILL_SECONDS, block_bytes, counted
from session_kinds import in_this_process

pytestmark = [pytest.mark.spark, in_this_process]


SLACK = 65_536
"""Bytes, of what the newest jobs have sent to their tasks. One of the sources has 400 KB."""


class _AfterEach(FrameGarbage):
    """A program has collected other garbage before, which takes long."""

    def collect(self) -> None:
        super().collect()
        self.worth_ms = 0


@pytest.mark.parametrize("updates", [True, False], ids=["upsert", "inserts"])
def test_a_source_that_is_broadcast(
    delta: SparkSession, path: str, monkeypatch: pytest.MonkeyPatch, *, updates: bool
) -> None:
    """Python's own collector, which frees frames at some time, does not run."""
    delta.range(0, 1000, 1, 2).selectExpr("id", "id AS v").write.format("delta").save(path)
    updating = "WHEN MATCHED THEN UPDATE SET v = -1" if updates else ""
    merge = (
        f"MERGE INTO delta.`{path}` t USING (SELECT id + {{}} AS id FROM range(20000)) s ON t.id = s.id {updating}"
        " WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, 0)"
    )
    jvm: Any = delta._jvm
    # A mock would keep the frames.
    monkeypatch.setattr(merge_join, "size_of", lambda _: Size.LARGE)
    garbage = _AfterEach()
    garbage.worth_ms = 0
    monkeypatch.setattr(table_access, "FRAME_GARBAGE", garbage)
    delta.sql(merge.format(10))
    counted(delta)
    allowed = block_bytes(delta.sparkContext) + SLACK
    gc.disable()
    try:
        for number in range(3):
            delta.sql(merge.format(10 * number))
        deadline = time.monotonic() + GONE_SECONDS
        while block_bytes(delta.sparkContext) > allowed and time.monotonic() < deadline:
            jvm.java.lang.System.gc()
            time.sleep(STILL_SECONDS)
        assert block_bytes(delta.sparkContext) <= allowed
    finally:
        gc.enable()


def test_short_statements_collect_nothing(delta: SparkSession, path: str) -> None:
    with mock.patch.object(FrameGarbage, "collect") as collect:
        with mock.patch.object(table_access.FRAME_GARBAGE, "worth_ms", math.inf):
            delta.range(3).write.format("delta").save(path)
        assert not collect.called
        with mock.patch.object(table_access.FRAME_GARBAGE, "worth_ms", 0):
            delta.range(3).write.format("delta").mode("append").save(path)
        assert collect.called


def test_what_a_collection_takes_is_a_small_part_of_the_statement() -> None:
    garbage = FrameGarbage()
    with mock.patch.object(gc, "collect", side_effect=lambda: time.sleep(0.1)):
        garbage.collect()
    assert garbage.worth_ms >= 2000
