"""A stream from a table into a table, over hundreds of micro-batches, leaves nothing behind; and keeps its memory.

`make soak-batches` runs it with the number that a run of the suite cannot afford.
"""

from __future__ import annotations

import gc
import os
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from extension.left_behind import check_nothing_is_left

BATCHES = int(os.environ.get("ANABRANCH_STREAM_BATCHES", "0"))
WARM_UP = 60
"""Batches until Spark's own caches and what it keeps of the last batches have their size."""
GROWTH_MAX_MB = 64
"""Of heap or process. Some 60 kB a batch would be found in 1,000 of them."""
WAIT_SECONDS = 6_000

pytestmark = [
    pytest.mark.spark,
    pytest.mark.long,
    pytest.mark.skipif("not BATCHES", reason="run it by `make soak-batches`"),
]


def memory(delta: SparkSession) -> dict[str, int]:
    """The memory in MB: what Java has in use once it has collected, and what this process has."""
    jvm: Any = delta._jvm
    gc.collect()
    for _ in range(3):
        jvm.java.lang.System.gc()
    runtime = jvm.java.lang.Runtime.getRuntime()
    pages = int(Path("/proc/self/statm").read_text("utf-8").split()[1])
    used = int(runtime.totalMemory()) - int(runtime.freeMemory())
    return {"heap": used >> 20, "process": pages * os.sysconf("SC_PAGE_SIZE") >> 20}


def test_micro_batches_from_table_to_table(native: SparkSession, tmp_path: Path) -> None:
    def stream(name: str, batches: int) -> None:
        source, target = str(tmp_path / name), str(tmp_path / f"{name}-target")
        native.range(0, batches, 1, batches).write.format("delta").save(source)
        rows = native.readStream.format("delta").option("startingVersion", 0).option("maxFilesPerTrigger", 1)
        writer = rows.load(source).writeStream.format("delta").option("checkpointLocation", f"{source}-checkpoint")
        query = writer.trigger(availableNow=True).start(target)
        assert query.awaitTermination(WAIT_SECONDS)
        frame = native.read.format("delta").load(target)
        assert (frame.count(), frame.distinct().count()) == (batches, batches)
        assert query.lastProgress["batchId"] == batches - 1

    stream("warm-up", WARM_UP)
    before = memory(native)
    check_nothing_is_left(native, lambda: stream("all", BATCHES), slack=20)
    after = memory(native)
    print(f"{BATCHES} batches; MB before {before}, after {after}")
    assert {kind: after[kind] - before[kind] for kind in after if after[kind] - before[kind] > GROWTH_MAX_MB} == {}
