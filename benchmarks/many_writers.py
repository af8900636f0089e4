"""Many writers of one table without Spark: updates of disjoint rows beside OPTIMIZE, as commits alone.

    python -m benchmarks many_writers [--writers 1 4 16 64] [--commits 640] [--as processes|threads] [--folder /data]

Each writer updates rows that no other one changes, as UPDATE does on a table with deletion vectors: it finds its row,
hides it, adds a file with the new one, and commits. A process compacts small files all the time. Rows are in files of
numbers, so that a scan costs nothing and the figures are those of the log: snapshots, conflict checks, commits, upkeep.
Threads have a `DeltaLog` each, as the sessions of a server do. The row of every commit is checked at the end.
"""

from __future__ import annotations

import argparse
import collections
import functools
import itertools
import json
import multiprocessing
import platform
import random
import statistics
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
from pyroaring import BitMap64
from pyspark.sql.types import LongType, StructField, StructType

from anabranch.clock import SystemClock
from anabranch.deletion_vectors.bitmap_format import bitmap_of
from anabranch.errors.commits import DeltaConcurrentModificationException
from anabranch.log.file_columns import adds_of_table
from anabranch.predicates.expressions import EQ, Column, Comparison, Literal
from anabranch.protocol.actions import PARQUET, AddFile, Metadata, Protocol
from anabranch.snapshot.snapshot import Snapshot
from anabranch.snapshot.snapshot_cache import SnapshotCache, shared_snapshots_of
from anabranch.storage.local.durable_files import DirectoryLock
from anabranch.storage.local.local_store import LocalStore
from anabranch.storage.log_store import LogStore, PutOutcome, StoredFile
from anabranch.transactions.commit.commit_context import CommitQueue
from anabranch.transactions.delta_log import DeltaLog
from anabranch.transactions.proposed_commit import Bin, Operation
from anabranch.transactions.read_set import RowsOfFile
from anabranch.transactions.rows.deletion_vector_actions import hide_rows, removal
from anabranch.transactions.rows.row_map import moved_to_tags, runs_of

FILES, ROWS_PER_FILE = 16, 4096
SMALL_FILE_ROWS = 100
SCHEMA = StructType([StructField("id", LongType())])


class CountingStore(LocalStore):
    """A local disk that counts requests."""

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self.requests: collections.Counter[str] = collections.Counter()

    def list_from(self, directory: str, start_after: str = "") -> Iterator[StoredFile]:
        self.requests["listings"] += 1
        return super().list_from(directory, start_after)

    def head(self, path: str) -> StoredFile | None:
        self.requests["heads"] += 1
        return super().head(path)

    def read(self, path: str, *, size_max: int | None = None) -> bytes:
        self.requests["reads"] += path.startswith("_delta_log")
        return super().read(path, size_max=size_max)

    def put_if_absent(self, path: str, data: bytes) -> PutOutcome:
        self.requests["puts"] += 1
        return super().put_if_absent(path, data)


class Table:
    """A table whose data files are lists of numbers, as one writer sees it."""

    def __init__(self, root: str, open_log: Callable[[LogStore], DeltaLog]) -> None:
        self.store = CountingStore(root)
        self.log = open_log(self.store)
        self._ids = functools.cache(self._read_ids)

    def write(self, ids: Sequence[int], *, data_change: bool) -> AddFile:
        path = f"{uuid.uuid4()}.ids"
        data = np.asarray(ids, dtype=np.int64)
        Path(self.store.root, path).write_bytes(data.tobytes())
        stats = {"numRecords": len(ids), "minValues": {"id": min(ids)}, "maxValues": {"id": max(ids)}}
        return AddFile(
            path=path,
            partition_values={},
            size=data.nbytes,
            modification_time=0,
            data_change=data_change,
            stats=json.dumps({**stats, "nullCount": {"id": 0}}),
        )

    def _read_ids(self, path: str) -> np.ndarray[Any, np.dtype[np.int64]]:
        return np.fromfile(Path(self.store.root, path), dtype=np.int64)

    def positions_of(self, row: int, add: AddFile, visible: BitMap64 | None = None) -> BitMap64:
        positions = bitmap_of(np.flatnonzero(self._ids(add.path) == row).astype(np.uint64))
        return positions if visible is None else positions & visible

    def update(self, row: int) -> int:
        """Hide the row, add it again, and return how many versions were tried."""
        transaction = self.log.begin(Operation(name="UPDATE"))
        assert transaction.snapshot is not None
        adds = files_of(transaction.snapshot)
        of_row = [(add, self.positions_of(row, add)) for add in adds]
        of_row = [(add, positions) for add, positions in of_row if positions]
        hidden = transaction.vectors.hidden([add for add, _ in of_row])
        of_row = [(add, live) for (add, rows), gone in zip(of_row, hidden, strict=True) if (live := rows - gone)]
        [(add, positions)] = of_row
        transaction.record_scan(
            Comparison(EQ, Column(("id",)), Literal(row, LongType())),
            files=[add.key],
            rows={add.key: positions},
            reevaluate=lambda rows: [self.positions_of(row, some.file, some.positions) for some in rows],
        )
        hides = hide_rows([RowsOfFile(file=add, positions=positions)], transaction.vectors, removed_at_ms=now_ms())
        new = self.write([row], data_change=True)
        return transaction.commit([*hides, new], deleted_rows={add.key: positions}).attempts

    def compact(self) -> None:
        """Write the rows of small files to one file."""
        transaction = self.log.begin(Operation(name="OPTIMIZE"))
        assert transaction.snapshot is not None
        small = [add for add in files_of(transaction.snapshot) if add.size < SMALL_FILE_ROWS * 8]
        if len(small) < 2:
            time.sleep(0.01)
            return
        hidden = transaction.vectors.hidden(small)
        shown = [
            [int(row) for position, row in enumerate(self._ids(add.path)) if position not in gone]
            for add, gone in zip(small, hidden, strict=True)
        ]
        output = self.write([*itertools.chain(*shown)], data_change=False)
        runs = runs_of([len(rows) for rows in shown], [(output.path, sum(map(len, shown)))])
        removes = [
            msgspec.structs.replace(removal(add, removed_at_ms=now_ms(), data_change=False), tags=moved_to_tags(moved))
            for add, moved in zip(small, runs, strict=True)
        ]
        part = Bin(sources=frozenset(add.key for add in small), outputs=frozenset([output.path]))
        transaction.commit_bins([*removes, output], [part])

    def rows(self) -> list[int]:
        """The visible rows of the newest version."""
        snapshot = self.log.snapshots.latest()
        adds = files_of(snapshot)
        hidden = self.log.begin_at(Operation(name="READ"), snapshot=snapshot).vectors.hidden(adds)
        return sorted(
            int(row)
            for add, gone in zip(adds, hidden, strict=True)
            for position, row in enumerate(self._ids(add.path))
            if position not in gone
        )


def files_of(snapshot: Snapshot) -> list[AddFile]:
    files = snapshot.files
    return adds_of_table(files.rows(range(files.count)), data_change=False)


def now_ms() -> int:
    return time.time_ns() // 1_000_000


@functools.cache
def queue_of(root: str) -> CommitQueue:
    return CommitQueue(processes=DirectoryLock(f"{root}/_delta_log"))


def open_log(store: LogStore) -> DeltaLog:
    clock, queue = SystemClock(), queue_of(store.root)
    snapshots = SnapshotCache(store, clock, recent=queue.recent, shared=shared_snapshots_of(store))
    return DeltaLog(store, clock, random.SystemRandom(), queue=queue, snapshots=snapshots)


def create(root: str) -> Table:
    table = Table(root, open_log)
    Path(root).mkdir(parents=True)
    protocol = Protocol(
        min_reader_version=3,
        min_writer_version=7,
        reader_features=["deletionVectors"],
        writer_features=["deletionVectors"],
    )
    described = Metadata(
        id=str(uuid.uuid4()), format=PARQUET, schema_string=SCHEMA.json(), partition_columns=[], configuration={}
    )
    starts = range(0, FILES * ROWS_PER_FILE, ROWS_PER_FILE)
    adds = [table.write(range(start, start + ROWS_PER_FILE), data_change=True) for start in starts]
    table.log.begin(Operation(name="CREATE TABLE")).commit([protocol, described, *adds])
    return table


def work(root: str, writer: int, writers: int, commits: int, begin: Any) -> dict[str, Any]:
    """Update rows of this writer; what it took."""
    table = Table(root, open_log)
    chance = random.Random(writer)
    own = range(writer, FILES * ROWS_PER_FILE, writers)
    table.log.snapshots.latest()
    table.store.requests.clear()
    begin.wait()
    times, attempts, aborts = [], 0, 0
    used = time.process_time()
    for _ in range(commits):
        row = chance.choice(own)
        started = time.perf_counter()
        while True:
            try:
                attempts += table.update(row)
                break
            except DeltaConcurrentModificationException:
                aborts += 1
        times.append(time.perf_counter() - started)
    return {
        "times": times,
        "attempts": attempts,
        "aborts": aborts,
        "requests": table.store.requests,
        "used": time.process_time() - used,
    }


def work_in_process(queue: Any, *arguments: Any) -> None:
    queue.put(work(*arguments))


def compact_until(root: str, done: Any) -> None:
    table = Table(root, open_log)
    while not done.is_set():
        table.compact()


def measure(root: str, *, writers: int, commits: int, processes: bool) -> str:
    """One line of figures."""
    table = create(root)
    spawn = multiprocessing.get_context("forkserver")
    # Writers are forked from a process that has imported this module, so that none of them waits for imports.
    spawn.set_forkserver_preload(["benchmarks.many_writers"])
    arguments = [(root, writer, writers, max(1, commits // writers)) for writer in range(writers)]
    results: list[dict[str, Any]] = []
    begin = spawn.Barrier(writers + 1) if processes else threading.Barrier(writers + 1)
    done = spawn.Event()
    compacting = spawn.Process(target=compact_until, args=(root, done))
    compacting.start()
    if processes:
        queue = spawn.Queue()
        workers: list[Any] = [spawn.Process(target=work_in_process, args=(queue, *some, begin)) for some in arguments]
    else:
        workers = [
            threading.Thread(target=lambda some: results.append(work(*some, begin=begin)), args=(some,))
            for some in arguments
        ]
    for worker in workers:
        worker.start()
    begin.wait()
    started, used = time.perf_counter(), time.process_time()
    if processes:
        results = [queue.get() for _ in workers]
    for worker in workers:
        worker.join()
    seconds, used = time.perf_counter() - started, time.process_time() - used
    done.set()
    compacting.join()
    assert table.rows() == list(range(FILES * ROWS_PER_FILE)), "a row is missing or twice"
    times = sorted(time_ for result in results for time_ in result["times"])
    requests = sum((collections.Counter(result["requests"]) for result in results), collections.Counter[str]())
    if processes:
        used = sum(result["used"] for result in results)
    per_commit = " | ".join(f"{requests[kind] / len(times):.1f}" for kind in ("listings", "reads", "heads", "puts"))
    p99 = times[min(len(times) - 1, int(len(times) * 0.99))]
    return (
        f"| {writers} {'processes' if processes else 'threads'} | {len(times) / seconds:.0f} | "
        f"{sum(result['aborts'] for result in results)} | {statistics.median(times) * 1000:.0f} | {p99 * 1000:.0f} | "
        f"{sum(result['attempts'] for result in results) / len(times):.1f} | {used / len(times) * 1000:.0f} | "
        f"{per_commit} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--writers", type=int, nargs="*", default=[1, 4, 16, 64])
    parser.add_argument("--commits", type=int, default=640, help="of all writers together")
    parser.add_argument(
        "--as", dest="kinds", nargs="*", default=["processes", "threads"], choices=["processes", "threads"]
    )
    parser.add_argument("--folder", help="where the tables are made; the folder for temporary files by default")
    arguments = parser.parse_args()
    print(f"Python {platform.python_version()}, {multiprocessing.cpu_count()} cores, pyarrow {pa.__version__}\n")
    print("| writers | commits/s | aborts | p50 ms | p99 ms | tried | CPU ms | listings | reads | heads | puts |")
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory(prefix="anabranch-benchmark-", dir=arguments.folder) as scratch:
        for kind, writers in itertools.product(arguments.kinds, arguments.writers):
            root = str(Path(scratch, f"{kind}-{writers}"))
            print(measure(root, writers=writers, commits=arguments.commits, processes=kind == "processes"), flush=True)


if __name__ == "__main__":
    main()
