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
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.types import LongType, StructField, StructType

from anabranch.clock import SystemClock
from anabranch.commands.dml.identity_high_water import generated_numbers, with_moved_marks
from anabranch.protocol.actions import PARQUET, AddFile, Metadata, Protocol
from anabranch.schema.computed_columns import identity_column, identity_columns
from anabranch.storage.log_store import LogStore
from anabranch.storage.opening.store_opening import open_store
from anabranch.transactions.delta_log import DeltaLog
from anabranch.transactions.proposed_commit import Operation
from anabranch.transactions.statement_retry import Attempt, execute_with_retries

ROWS = 3
COLUMNS = ("writer", "number", "row")
APPEND = Operation(name="WRITE", parameters={"mode": "Append"})
STORAGE = "ANABRANCH_TEST_STORAGE"
"""Settings of the storage, as JSON; in the environment of a process."""


def table_in(store: LogStore) -> DeltaLog:
    return DeltaLog(store, SystemClock(), random.SystemRandom())


def opened(url: str) -> DeltaLog:
    return table_in(open_store(url, json.loads(os.environ.get(STORAGE, "{}"))))


def create(table: DeltaLog, properties: Mapping[str, str] | None = None, *, step: int = 0) -> None:
    """A new table; with a step `row` is an identity column."""
    schema = StructType([StructField(name, LongType()) for name in COLUMNS])
    if step:
        schema = StructType(
            [*schema.fields[:2], identity_column(schema["row"], start=10, step=step, allow_explicit=False)]
        )
    metadata = Metadata(
        id=str(uuid.uuid4()),
        format=PARQUET,
        schema_string=schema.json(),
        partition_columns=[],
        configuration=dict(properties or {}),
        created_time=int(time.time() * 1000),
    )
    protocol = Protocol(min_reader_version=1, min_writer_version=6 if step else 2)
    table.begin(Operation(name="CREATE TABLE")).commit([protocol, metadata])


def append(table: DeltaLog, *, writer: int, number: int) -> int:
    """The version that holds the rows; the file is durable before the commit."""
    file = written_file(table, writer=writer, number=number, rows=range(ROWS))
    return table.begin(APPEND).commit([file]).version


def append_numbered(table: DeltaLog, *, writer: int, number: int) -> int:
    """The version that holds the rows, whose `row` the table generates. The user allows no statement to run again."""

    def run(attempt: Attempt) -> int:
        reserved = attempt.reserved
        snapshot = table.snapshots.latest() if reserved is None else table.snapshots.at_version(reserved.version)
        numbering = identity_columns(snapshot.schema)["row"]
        first = numbering.next_value if reserved is None else reserved.first_numbers["row"]
        rows = range(first, first + ROWS * numbering.step, numbering.step)
        file = written_file(table, writer=writer, number=number, rows=rows)
        generated = generated_numbers(snapshot.metadata, [file], ["row"], table=table.root, reserved=reserved)
        metadata = with_moved_marks(snapshot.metadata, generated, table=table.root, reserved=reserved)
        committed = table.begin_at(APPEND, snapshot=snapshot).commit(
            [file, *([] if metadata is snapshot.metadata else [metadata])],
            edited_properties=frozenset(),
            generated=generated,
            reserved=reserved,
        )
        return committed.version

    chance = random.SystemRandom()
    return execute_with_retries(run, retries_max=0, random=chance, sleep=lambda wait_ms: time.sleep(wait_ms / 1000))


def written_file(table: DeltaLog, *, writer: int, number: int, rows: Sequence[int]) -> AddFile:
    """A durable file of these rows."""
    columns = {"writer": [writer] * ROWS, "number": [number] * ROWS, "row": list(rows)}
    written = io.BytesIO()
    pq.write_table(pa.table(columns), written)
    path = f"part-{uuid.uuid4()}.parquet"
    table.store.put(path, written.getvalue())
    stats = {
        "numRecords": ROWS,
        "minValues": {name: min(values) for name, values in columns.items()},
        "maxValues": {name: max(values) for name, values in columns.items()},
        "nullCount": dict.fromkeys(COLUMNS, 0),
    }
    return AddFile(
        path=path,
        partition_values={},
        size=written.tell(),
        modification_time=int(time.time() * 1000),
        data_change=True,
        stats=json.dumps(stats),
    )


def append_many(url: str, writers: str, commits: str) -> None:
    """Fork writers that append at once. Prints `writer number version` for each append that has landed.

    Forking saves the start-up of a program for each writer.
    """
    _at_once(_append_many, url, writers, commits)


def append_many_numbered(url: str, writers: str, commits: str) -> None:
    """The same with `append_numbered`."""
    _at_once(_append_many_numbered, url, writers, commits)


def _at_once(work: Callable[..., None], url: str, writers: str, commits: str) -> None:
    blocked, go = os.pipe()
    children = []
    for writer in range(int(writers)):
        child = os.fork()
        if child == 0:
            os.close(go)
            os.read(blocked, 1)  # ends when everybody is there and the parent closes its side
            _run(work, url, writer, int(commits))
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
            alive, ready = os.pipe()
            child = os.fork()
            if child == 0:
                _run(_append_until_killed, url, writer, ready, landed_before)
            os.close(ready)
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


def _run(work: Callable[..., None], url: str, *arguments: int) -> None:
    """All that a forked process does."""
    try:
        work(opened(url), *arguments)
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def _append_many(table: DeltaLog, writer: int, commits: int) -> None:
    for number in range(commits):
        _acknowledge(writer, number, append(table, writer=writer, number=number))


def _append_many_numbered(table: DeltaLog, writer: int, commits: int) -> None:
    for number in range(commits):
        _acknowledge(writer, number, append_numbered(table, writer=writer, number=number))


def _append_until_killed(table: DeltaLog, writer: int, ready: int, landed_before: int) -> None:
    for number in range(1_000_000):
        if number == landed_before:
            os.write(ready, b"!")
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
    {
        "append": append_many,
        "number": append_many_numbered,
        "be_killed": be_killed,
        "run_out_of_memory": run_out_of_memory,
    }[sys.argv[1]](*sys.argv[2:])
