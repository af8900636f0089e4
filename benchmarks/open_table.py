"""Opening a table with many files: time and memory, beside delta-rs.

    python benchmarks/open_table.py 1000000

makes a log (no data files) of one checkpoint with that many files, some 300 bytes of statistics each, in
1,000 partitions, then opens it in fresh processes and prints a Markdown table. `--commits` adds commits after
the checkpoint, `--runs` says how often each is measured; the median is shown with the range.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

SCHEMA = json.dumps(
    {
        "type": "struct",
        "fields": [
            {"name": name, "type": kind, "nullable": True, "metadata": {}}
            for name, kind in [
                ("id", "long"),
                ("name", "string"),
                ("price", "double"),
                ("at", "timestamp"),
                ("day", "date"),
            ]
        ],
    }
)
PROTOCOL = {"minReaderVersion": 1, "minWriterVersion": 2}
METADATA = {
    "id": "6f9619ff-8b86-4d01-b42d-00cf4fc964ff",
    "format": {"provider": "parquet", "options": {}},
    "schemaString": SCHEMA,
    "partitionColumns": ["day"],
    "configuration": {},
}
CHECKPOINT_VERSION = 10
ROWS_AT_ONCE = 1_000_000
"""The rows of the checkpoint that are made, and written as a row group, at once."""


def make_log(root: Path, *, files: int, commits: int, seed: int = 7) -> None:
    """A log with a checkpoint of `files` files and `commits` commits after it."""
    log = root / "_delta_log"
    log.mkdir(parents=True)
    source = np.random.default_rng(seed)
    _write_checkpoint(log / f"{CHECKPOINT_VERSION:020d}.checkpoint.parquet", files, source)
    info = {"commitInfo": {"operation": "WRITE", "timestamp": 0}}
    (log / f"{CHECKPOINT_VERSION:020d}.json").write_text(json.dumps(info) + "\n")
    (log / "_last_checkpoint").write_text(json.dumps({"version": CHECKPOINT_VERSION, "size": files + 2}))
    for number in range(commits):
        add_commit(root, version=CHECKPOINT_VERSION + 1 + number, source=source)


def add_commit(root: Path, *, version: int, source: np.random.Generator, removed: str | None = None) -> None:
    """One more commit: a file added and with `removed` one removed."""
    actions: list[dict[str, object]] = [{"commitInfo": {"operation": "WRITE", "timestamp": 0}}]
    if removed is not None:
        actions.append({"remove": {"path": removed, "dataChange": True, "deletionTimestamp": 1_700_000_000_000}})
    day = _day(version)
    added = {
        "path": f"day={day}/part-{version:05d}-{_random_uuid(source)}.c000.snappy.parquet",
        "partitionValues": {"day": day},
        "size": 1_000_000,
        "modificationTime": 1_700_000_000_000,
        "dataChange": True,
        "stats": _statistics(version),
    }
    actions.append({"add": added})
    (root / "_delta_log" / f"{version:020d}.json").write_text("".join(json.dumps(action) + "\n" for action in actions))


def _write_checkpoint(path: Path, files: int, source: np.random.Generator) -> None:
    string_map = pa.map_(pa.string(), pa.string())
    protocol = pa.struct([("minReaderVersion", pa.int32()), ("minWriterVersion", pa.int32())])
    metadata = pa.struct(
        [
            ("id", pa.string()),
            ("name", pa.string()),
            ("format", pa.struct([("provider", pa.string()), ("options", string_map)])),
            ("schemaString", pa.string()),
            ("partitionColumns", pa.list_(pa.string())),
            ("configuration", string_map),
            ("createdTime", pa.int64()),
        ]
    )
    transaction = pa.struct([("appId", pa.string()), ("version", pa.int64()), ("lastUpdated", pa.int64())])
    remove = pa.struct([("path", pa.string()), ("deletionTimestamp", pa.int64()), ("dataChange", pa.bool_())])
    table_metadata = {**METADATA, "format": {"provider": "parquet", "options": []}, "configuration": []}
    empty = _adds(range(0), source)
    schema = pa.schema(
        [("txn", transaction), ("add", empty.type), ("remove", remove), ("metaData", metadata), ("protocol", protocol)]
    )
    first_rows = {"txn": [None] * 2, "add": [None] * 2, "remove": [None] * 2, "metaData": [None, table_metadata]}
    with pq.ParquetWriter(path, schema, compression="snappy") as writer:
        writer.write_table(pa.table({**first_rows, "protocol": [PROTOCOL, None]}, schema))
        for first in range(0, files, ROWS_AT_ONCE):
            adds = _adds(range(first, min(first + ROWS_AT_ONCE, files)), source)
            columns = {field.name: pa.nulls(len(adds), field.type) for field in schema}
            writer.write_table(pa.table({**columns, "add": adds}, schema), row_group_size=ROWS_AT_ONCE)


def _adds(numbers: range, source: np.random.Generator) -> pa.StructArray:
    """The `add` actions of files with these numbers."""
    count, days = len(numbers), [_day(number) for number in numbers]
    paths = [
        f"day={day}/part-{number % 200:05d}-{_random_uuid(source)}.c000.snappy.parquet"
        for number, day in zip(numbers, days, strict=True)
    ]
    offsets = pa.array(np.arange(count + 1, dtype=np.int32))
    return pa.StructArray.from_arrays(
        [
            pa.array(paths, pa.string()),
            pa.MapArray.from_arrays(offsets, pa.array(["day"] * count, pa.string()), pa.array(days, pa.string())),
            pa.array(source.integers(1_000_000, 500_000_000, count)),
            pa.array(1_700_000_000_000 + np.arange(numbers.start, numbers.stop)),
            pa.array(np.zeros(count, dtype=bool)),
            pa.nulls(count, pa.map_(pa.string(), pa.string())),
            pa.array([_statistics(number) for number in numbers], pa.string()),
        ],
        names=["path", "partitionValues", "size", "modificationTime", "dataChange", "tags", "stats"],
    )


def _statistics(number: int) -> str:
    low = number * 10_000
    values = '"id":{id},"name":"{name}-{id:012d}","price":{id}.25,"at":"2024-03-{day:02d}T10:11:12.345Z"'
    least = values.format(id=low, name="customer", day=number % 28 + 1)
    most = values.format(id=low + 9_999, name="customer", day=number % 28 + 1)
    nulls = '"id":0,"name":12,"price":0,"at":0'
    return f'{{"numRecords":10000,"minValues":{{{least}}},"maxValues":{{{most}}},"nullCount":{{{nulls}}}}}'


def _day(number: int) -> str:
    return str(np.datetime64("2021-01-01") + number % 1000)


def _random_uuid(source: np.random.Generator) -> str:
    return str(uuid.UUID(bytes=source.bytes(16), version=4))


def open_ours(root: str) -> dict[str, float]:
    """Open, then commits more, then what a query, a DELETE by key and a checkpoint need of the statistics."""
    started = time.perf_counter()
    from pyspark.sql.types import LongType  # noqa: PLC0415

    from anabranch.clock import SystemClock  # noqa: PLC0415
    from anabranch.data_skipping.file_skipping import can_be_true  # noqa: PLC0415
    from anabranch.predicates.expressions import EQ, Column, Comparison, Literal  # noqa: PLC0415
    from anabranch.protocol.log_paths import commit_path  # noqa: PLC0415
    from anabranch.snapshot.checkpointing import write_checkpoint  # noqa: PLC0415
    from anabranch.snapshot.snapshot_cache import SnapshotCache  # noqa: PLC0415
    from anabranch.storage.local.local_store import LocalStore  # noqa: PLC0415
    from anabranch.storage.memory_store import MemoryStore  # noqa: PLC0415

    imported, before_mb = time.perf_counter(), _peak_mb()
    snapshots = SnapshotCache(LocalStore(root), SystemClock())
    snapshot = snapshots.latest()
    facts = {"files": snapshot.files.count, "TB": snapshot.files.size_bytes / 1e12}
    opened = time.perf_counter()
    result = {**facts, "import s": imported - started, "open s": opened - imported, "open MB": _peak_mb()}
    first_path = snapshot.files.columns("path")["path"][snapshot.files.count // 2].as_py()
    refreshes = []
    for number in range(5):
        removed = first_path if number == 0 else None
        add_commit(Path(root), version=snapshot.version + 1, source=np.random.default_rng(number), removed=removed)
        before = time.perf_counter()
        snapshot = snapshots.latest()
        refreshes.append(time.perf_counter() - before)
    result |= {"first refresh ms": refreshes[0] * 1000, "refresh ms": statistics.median(refreshes[1:]) * 1000}
    before, before_cpu = time.perf_counter(), time.process_time()
    key = Comparison(EQ, Column(("id",)), Literal(55_555, LongType()))
    files = snapshot.files.to_actions(can_be_true(key, snapshot.skipping_columns))
    result |= {"point query s": time.perf_counter() - before, "its CPU s": time.process_time() - before_cpu}
    result |= {"files of the key": len(files), "point query MB": _peak_mb()}
    before = time.perf_counter()
    store = MemoryStore()
    store.put_if_absent(commit_path(snapshot.version), b"")  # a checkpoint belongs to a commit
    write_checkpoint(store, snapshot, clock=SystemClock(), new_uuid=lambda: str(uuid.uuid4()))
    result |= {"checkpoint s": time.perf_counter() - before, "all MB": _peak_mb(), "growth MB": _peak_mb() - before_mb}
    for version in range(snapshot.version - 4, snapshot.version + 1):
        (Path(root) / "_delta_log" / f"{version:020d}.json").unlink()
    return result


def open_theirs(root: str) -> dict[str, float]:
    """The same with delta-rs: the table, then its file actions."""
    started = time.perf_counter()
    from deltalake import DeltaTable  # noqa: PLC0415

    imported = time.perf_counter()
    table = DeltaTable(root)
    loaded = time.perf_counter()
    rows = table.get_add_actions(flatten=False).num_rows
    opened = time.perf_counter()
    return {
        "files": rows,
        "import s": imported - started,
        "load s": loaded - imported,
        "open s": opened - imported,
        "open MB": _peak_mb(),
    }


def _peak_mb() -> float:
    """Since this program began; `ru_maxrss` would count what the parent held before."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))


READERS: dict[str, Callable[[str], dict[str, float]]] = {"anabranch": open_ours, "delta-rs": open_theirs}


def _measure(reader: str, root: str) -> dict[str, float]:
    """In a process of its own, so that memory and imports are those of this reader alone."""
    done = subprocess.run(
        [sys.executable, __file__, "--read", reader, root], capture_output=True, text=True, check=True
    )
    return dict(json.loads(done.stdout.splitlines()[-1]))


def _report(measured: dict[str, list[dict[str, float]]]) -> None:
    names = dict.fromkeys(name for runs in measured.values() for name in runs[0])
    print("| | " + " | ".join(measured) + " |")
    print("|---|" + "---|" * len(measured))
    for name in names:
        cells = []
        for runs in measured.values():
            values = sorted(run[name] for run in runs if name in run)
            middle = f"{statistics.median(values):.4g} ({values[0]:.4g} to {values[-1]:.4g})" if values else ""
            cells.append(middle)
        print(f"| {name} | " + " | ".join(cells) + " |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="?", type=int, default=100_000)
    parser.add_argument("--commits", type=int, default=0)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--keep", type=Path, help="make the log here, or use the one that is here")
    parser.add_argument("--read", nargs=2, metavar=("READER", "ROOT"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.read:
        reader, root = arguments.read
        print(json.dumps(READERS[reader](root)))
        return
    with tempfile.TemporaryDirectory() as scratch:
        root = arguments.keep or Path(scratch) / "table"
        if not root.exists():
            make_log(root, files=arguments.files, commits=arguments.commits)
        measured: dict[str, list[dict[str, float]]] = {reader: [] for reader in READERS}
        for _ in range(arguments.runs):
            for reader, runs in measured.items():
                runs.append(_measure(reader, str(root)))
        _report(measured)


if __name__ == "__main__":
    main()
