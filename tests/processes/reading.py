"""What is in a table of appenders, by every reader that needs no Spark."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from anabranch.storage.log_store import LogStore
from interop.readers import READERS
from processes.appender import COLUMNS, ROWS, append, create, table_in
from transactions.log_linter import lint

Append = tuple[int, int]
"""The writer, and which of its appends."""
APPENDER = Path(__file__).with_name("appender.py")


def run(*arguments: str, **environment: str) -> dict[Append, int]:
    """Run a program of `appender.py`: the version of each append that was acknowledged to its writer."""
    path = os.pathsep.join(filter(None, sys.path))
    done = subprocess.run(
        [sys.executable, str(APPENDER), *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PYTHONPATH": path, **environment},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    landed = {}
    for line in done.stdout.splitlines():
        writer, number, version = map(int, line.split())
        landed[writer, number] = version
    return landed


def append_from_threads(opened: Callable[[], LogStore]) -> Counter[Append]:
    """Let eight writers of this process append five times, each with a table object of its own; what they appended."""
    create(table_in(opened()), {"delta.checkpointInterval": "10"})
    landed: list[int] = []

    def work(writer: int) -> None:
        table = table_in(opened())
        landed.extend(append(table, writer=writer, number=number) for number in range(5))

    threads = [threading.Thread(target=work, args=(writer,)) for writer in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(landed) == list(range(1, 41))
    assert lint(opened()) == []
    return Counter((writer, number) for writer in range(8) for number in range(5))


def appends_in(rows: pa.Table) -> Counter[Append]:
    """How often each append (writer, number) is there. Fails where one is there in part."""
    counts = Counter(zip(*(rows[name].to_pylist() for name in COLUMNS), strict=True))
    appends = Counter({(writer, number): count for (writer, number, row), count in counts.items() if row == 0})
    for (writer, number), count in appends.items():
        for row in range(ROWS):
            assert counts.pop((writer, number, row)) == count, (writer, number)
    assert not counts, f"rows without the first of their append: {counts}"
    return appends


def appends_seen_by_all(root: str) -> Counter[Append]:
    """The result of `appends_in`, in which all readers must agree."""
    by_reader = {name: appends_in(read(root)) for name, read in READERS.items()}
    first, *others = by_reader.values()
    assert all(other == first for other in others), {name: sum(seen.values()) for name, seen in by_reader.items()}
    return first
