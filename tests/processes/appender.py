"""A real writer without Spark, run as processes of its own: `python appender.py NAME ARGUMENTS`.

Each append is one Parquet file of `ROWS` rows (writer, number, row) and one commit.
"""

from __future__ import annotations

import io
import json
import os
import random
import resource
import signal
import sys
import time
import traceback
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.types import LongType, StructField, StructType

from anabranch.clock import SystemClock
from anabranch.protocol.actions import PARQUET, AddFile, Metadata, Protocol
from anabranch.storage.log_store import LogStore
from anabranch.storage.opening.store_opening import open_store
from anabranch.transactions.delta_log import DeltaLog
from anabranch.transactions.proposed_commit import Operation

ROWS = 3
COLUMNS = ("writer", "number", "row")
STORAGE = "ANABRANCH_TEST_STORAGE"
"""Settings of the storage, as JSON; in the environment of a process."""


def table_in(store: LogStore) -> DeltaLog:
    return DeltaLog(store, SystemClock(), random.SystemRandom())


def opened(url: str) -> DeltaLog:
    return table_in(open_store(url, json.loads(os.environ.get(STORAGE, "{}"))))


def create(table: DeltaLog, properties: Mapping[str, str] | None = None) -> None:
    schema = StructType([StructField(name, LongType()) for name in COLUMNS])
    metadata = Metadata(
        id=str(uuid.uuid4()),
        format=PARQUET,
        schema_string=schema.json(),
        partition_columns=[],
        configuration=dict(properties or {}),
        created_time=int(time.time() * 1000),
    )
    protocol = Protocol(min_reader_version=1, min_writer_version=2)
    table.begin(Operation(name="CREATE TABLE")).commit([protocol, metadata])


def append(table: DeltaLog, *, writer: int, number: int) -> int:
    """The version that holds the rows; the file is durable before the commit."""
    rows = {"writer": [writer] * ROWS, "number": [number] * ROWS, "row": list(range(ROWS))}
    written = io.BytesIO()
    pq.write_table(pa.table(rows), written)
    path = f"part-{uuid.uuid4()}.parquet"
    table.store.put(path, written.getvalue())
    stats = {
        "numRecords": ROWS,
        "minValues": {name: min(values) for name, values in rows.items()},
        "maxValues": {name: max(values) for name, values in rows.items()},
        "nullCount": dict.fromkeys(COLUMNS, 0),
    }
    file = AddFile(
        path=path,
        partition_values={},
        size=written.tell(),
        modification_time=int(time.time() * 1000),
        data_change=True,
        stats=json.dumps(stats),
    )
    return table.begin(Operation(name="WRITE", parameters={"mode": "Append"})).commit([file]).version


def append_many(url: str, writers: str, commits: str) -> None:
    """Fork writers that append at once. Prints `writer number version` for each append that has landed.

    Forking saves the start-up of a program for each writer.
    """
    blocked, go = os.pipe()
    children = []
    for writer in range(int(writers)):
        child = os.fork()
        if child == 0:
            os.close(go)
            os.read(blocked, 1)  # ends when everybody is there and the parent closes its side
            _run(_append_many, url, writer, int(commits))
        children.append(child)
    os.close(go)
    statuses = [os.waitpid(child, 0)[1] for child in children]
    assert statuses == [0] * len(children), statuses


def be_killed(url: str, seed: str, rounds: str, writers: str) -> None:
    """Fork writers that append without end, and kill them at random moments, round after round.

    Prints as `append_many` does. Half of the writers may not even get to their first commit.
    """
    chance, writer = random.Random(int(seed)), 0
    for _ in range(int(rounds)):
        children = []
        for _ in range(int(writers)):
            writer += 1
            landed_before = chance.randrange(2)
            alive, told = os.pipe()
            child = os.fork()
            if child == 0:
                _run(_append_until_killed, url, writer, told, landed_before)
            os.close(told)
            children.append((child, alive))
        for _, alive in children:
            assert os.read(alive, 1) == b"!"
        for child, _ in children:
            time.sleep(chance.uniform(0, 0.05))
            os.kill(child, signal.SIGKILL)
        for child, alive in children:
            os.close(alive)
            _, status = os.waitpid(child, 0)
            assert os.WTERMSIG(status) == signal.SIGKILL, status


def run_out_of_memory(url: str, seed: str, rounds: str, writers: str) -> None:
    """Fork writers that append with little memory left, a different amount each. Prints as `append_many` does.

    A writer ends at its first failure of any kind: where memory is short, even an error may not come through.
    """
    chance, writer, failed = random.Random(int(seed)), 0, 0
    for _ in range(int(rounds)):
        children = []
        for _ in range(int(writers)):
            writer += 1
            child = os.fork()
            if child == 0:
                _run(_append_with_little_memory, url, writer, chance.randrange(2_000) * 1024)
            children.append(child)
        by = time.monotonic() + 10
        failed += sum(_status(child, by) != 0 for child in children)
    assert failed >= 3, f"only {failed} of {writer} ran out of memory"


def _status(child: int, by: float) -> int:
    """How it ended. Where memory is short some wait for threads that never came to be: they are killed."""
    while time.monotonic() < by:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return status
        time.sleep(0.02)
    os.kill(child, signal.SIGKILL)
    return os.waitpid(child, 0)[1]


def _run(work: Callable[..., None], url: str, *given: int) -> None:
    """All that a forked process does."""
    try:
        work(opened(url), *given)
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def _append_many(table: DeltaLog, writer: int, commits: int) -> None:
    for number in range(commits):
        _acknowledge(writer, number, append(table, writer=writer, number=number))


def _append_until_killed(table: DeltaLog, writer: int, told: int, landed_before: int) -> None:
    for number in range(1_000_000):
        if number == landed_before:
            os.write(told, b"!")
        _acknowledge(writer, number, append(table, writer=writer, number=number))


def _append_with_little_memory(table: DeltaLog, writer: int, left_bytes: int) -> None:
    """The first append finds all it needs; what is imported by then stays."""
    _acknowledge(writer, 0, append(table, writer=writer, number=0))
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[0])
    limit = pages * resource.getpagesize() + left_bytes
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    for number in range(1, 6):
        _acknowledge(writer, number, append(table, writer=writer, number=number))


def _acknowledge(writer: int, number: int, version: int) -> None:
    os.write(1, f"{writer} {number} {version}\n".encode())


if __name__ == "__main__":
    {"append": append_many, "be_killed": be_killed, "run_out_of_memory": run_out_of_memory}[sys.argv[1]](*sys.argv[2:])
