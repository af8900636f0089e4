"""The memory that many files take, as Arrow and Python count it: neither count depends on the machine."""

from __future__ import annotations

import ctypes
import gc
import json
import tracemalloc
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql.types import LongType

from anabranch.data_skipping import statistics_columns
from anabranch.data_skipping.file_skipping import can_be_true
from anabranch.log import checkpoint_part, checkpoint_writing, file_columns
from anabranch.predicates.expressions import EQ, Column, Comparison, Literal
from anabranch.protocol.log_paths import commit_path
from anabranch.snapshot.checkpointing import write_checkpoint
from anabranch.snapshot.snapshot import Snapshot
from anabranch.snapshot.snapshot_cache import SnapshotCache
from anabranch.storage.local.local_store import LocalStore
from log.log_in_memory import CountedUuids, LogInMemory, StillClock, add

FILES = 20_000
ROWS_AT_ONCE = 2_000
STATS_BYTES = 1_000
"""The least length of the statistics of one file."""
KEPT_MAX = 250
"""Bytes for each file: its path and partition, its bounds, and its share of compressed statistics."""
PEAK_MAX = 800


def statistics(number: int) -> str:
    bounds = {"id": number * 10, "name": f"{number:08d}" + "a comment, which is as long as most are; " * 12}
    return json.dumps({"numRecords": 10, "minValues": bounds, "maxValues": bounds, "nullCount": {"id": 0, "name": 0}})


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table with a checkpoint of all files, and the commit before it deleted."""
    log = LogInMemory.created()
    log.commit(*(add(f"day=monday/{uuid.UUID(int=i << 100)}", stats=statistics(i)) for i in range(FILES)))
    store = LocalStore(str(tmp_path_factory.mktemp("table")))
    checkpoint(log.snapshots().latest(), store)
    return Path(store.root)


@pytest.fixture
def rows_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts so small that the files are many of them."""
    monkeypatch.setattr(checkpoint_part, "BATCH_ROWS", ROWS_AT_ONCE)
    monkeypatch.setattr(checkpoint_writing, "ROW_GROUP_ROWS", ROWS_AT_ONCE)
    monkeypatch.setattr(file_columns, "BLOCK_ROWS", ROWS_AT_ONCE // 4)
    monkeypatch.setattr(file_columns, "BATCH_BLOCKS", 4)
    monkeypatch.setattr(statistics_columns, "BATCH_ROWS_MAX", ROWS_AT_ONCE)


class Memory:
    """Bytes in use now, and at most since the start, per file."""

    def __init__(self, arrow: pa.MemoryPool) -> None:
        self._arrow = arrow
        self._system = pa.system_memory_pool().bytes_allocated()

    def per_file(self) -> float:
        gc.collect()
        system = pa.system_memory_pool().bytes_allocated() - self._system
        return (tracemalloc.get_traced_memory()[0] + self._arrow.bytes_allocated() + system) / FILES

    def peak_per_file(self) -> float:
        """The sum of the peaks, which need not have been at one time."""
        system = pa.system_memory_pool().bytes_allocated() - self._system
        return (tracemalloc.get_traced_memory()[1] + self._arrow.max_memory() + system) / FILES


@pytest.fixture
def memory(rows_at_once: None) -> Iterator[Memory]:
    default = pa.default_memory_pool()
    counted = pa.proxy_memory_pool(default)
    # Arrow does not keep the pool of an array alive, and an array of a cache may live until the process ends.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(counted))
    pa.set_memory_pool(counted)
    tracemalloc.start()
    try:
        yield Memory(counted)
    finally:
        tracemalloc.stop()
        pa.set_memory_pool(default)


def checkpoint(snapshot: Snapshot, store: LocalStore) -> None:
    # A checkpoint of a version without a commit would be that of a dropped table.
    store.put(commit_path(snapshot.version), b"{}\n")
    write_checkpoint(store, snapshot, clock=StillClock(), new_uuid=CountedUuids())


def opened(table: Path) -> Snapshot:
    return SnapshotCache(LocalStore(str(table)), StillClock()).latest()


def files_with_id(snapshot: Snapshot, value: int) -> np.ndarray:
    return can_be_true(Comparison(EQ, Column(("id",)), Literal(value, LongType())), snapshot.skipping_columns)


def test_statistics_are_not_kept_as_text(table: Path, memory: Memory) -> None:
    snapshot = opened(table)
    mask = files_with_id(snapshot, 70)
    assert [json.loads(file.stats or "")["minValues"]["id"] for file in snapshot.files.to_actions(mask)] == [70]
    assert min(map(len, snapshot.files.columns("stats")["stats"].to_pylist())) > STATS_BYTES
    assert memory.per_file() < KEPT_MAX


@pytest.mark.parametrize("work", [files_with_id, lambda snapshot, _: snapshot.files.rows([5, 3])])
def test_a_plan_decodes_some_statistics_at_a_time(
    table: Path, memory: Memory, work: Callable[[Snapshot, int], object]
) -> None:
    work(opened(table), 70)
    assert memory.peak_per_file() < PEAK_MAX


def test_a_checkpoint_is_written_a_part_at_a_time(table: Path, memory: Memory, tmp_path: Path) -> None:
    snapshot = opened(table)
    checkpoint(snapshot, LocalStore(str(tmp_path)))
    assert memory.peak_per_file() < PEAK_MAX
