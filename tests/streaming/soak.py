"""Streams into and from a table that is merged, compacted and vacuumed, in processes that are killed again and again.

    python -m streaming.soak SECONDS [SEED]

with `src` and `tests` on the path. Ends with 1 where a row is lost, is there twice, or a stream fails by itself.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from anabranch.storage.opening.store_opening import open_store
from interop.readers import read_by_delta_rs
from transactions.log_linter import lint

PROGRAM = Path(__file__).parent / "programs" / "soaking.py"
PARTS = ("append", "change", "read")
TABLES = ("source", "skipped", "ignored")
ROWS = 20
"""Of a file of the feed, of which there are two a second."""
READY_SECONDS = 180
FINISH_SECONDS = 600
LIFE_SECONDS = {"append": (2, 30), "change": (40, 240), "read": (2, 30)}
"""From the moment on that it is ready."""
RETENTION_SECONDS = 240
"""Of removed files. A stream that lags further behind VACUUM fails by right: a restart must not take so long."""


@dataclasses.dataclass
class Figures:
    """What was done, and what is wrong."""

    put: int = 0
    kills: Counter[str] = dataclasses.field(default_factory=Counter)
    said: Counter[str] = dataclasses.field(default_factory=Counter)
    operations: Counter[str] = dataclasses.field(default_factory=Counter)
    batches: int = 0
    problems: list[str] = dataclasses.field(default_factory=list)

    def __str__(self) -> str:
        counts = (
            f"{name} {count}" for part in (self.kills, self.said, self.operations) for name, count in part.items()
        )
        return f"{self.put} rows put; {self.batches} batches read; " + ", ".join(counts)


class Part:
    """One process, and those that come after it."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.folder = folder
        self.log = folder / f"{name}.log"
        self.process: subprocess.Popen[bytes] | None = None
        self.dies_at: float | None = None
        self.seen = 0

    def start(self) -> None:
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
            "PYSPARK_PYTHON": sys.executable,
        }
        with self.log.open("ab") as log, self.log.with_suffix(".errors").open("ab") as errors:
            self.process = subprocess.Popen(
                [sys.executable, str(PROGRAM), self.name, str(self.folder)],
                stdout=log,
                stderr=errors,
                env=environment,
                start_new_session=True,
            )
        self.dies_at = None
        self.seen = len(self.output())
        self.begun = time.monotonic()

    def output(self) -> list[str]:
        return self.log.read_text("utf-8", "replace").splitlines() if self.log.exists() else []

    def is_ready(self) -> bool:
        return "ready" in self.output()[self.seen :]

    def kill(self, *, python_first: bool = False) -> None:
        """Kills the process with its JVM, which with `python_first` lives for as long as it takes to notice that it is alone."""
        assert self.process is not None
        if python_first:
            self.process.kill()
            self.process.wait()
            time.sleep(1)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def soak(folder: Path, seconds: float, seed: int) -> Figures:
    """Everything at work for `seconds`, then the rest read without a kill, then judged."""
    chance = random.Random(seed)
    figures = Figures()
    _create(folder)
    parts = [Part(name, folder) for name in PARTS]
    for part in parts:
        part.start()
    try:
        until = time.monotonic() + seconds
        while time.monotonic() < until and not figures.problems:
            _put(folder, figures)
            time.sleep(0.5)
            for part in parts:
                _look(part, chance, figures)
    finally:
        for part in parts:
            part.kill()
    if not figures.problems:
        _finish(folder, figures)
    for part in parts:
        words = [line.split()[0] for line in part.output() if line]
        figures.said.update(
            word for word in words if word in {"ready", "merged", "inserted", "optimized", "vacuumed", "conflict"}
        )
    if not figures.problems:
        _judge(folder, figures)
    return figures


def _create(folder: Path) -> None:
    """Tables by hand, so that none of the processes has to be the first."""
    fields = [
        {"name": name, "type": kind, "nullable": True, "metadata": {}}
        for name, kind in (("id", "long"), ("v", "string"))
    ]
    schema = json.dumps({"type": "struct", "fields": fields})
    configuration = {
        "delta.enableDeletionVectors": "true",
        "delta.deletedFileRetentionDuration": f"interval {RETENTION_SECONDS} seconds",
    }
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["deletionVectors"]}
    metadata = {"id": "source", "format": {"provider": "parquet", "options": {}}, "schemaString": schema}
    actions = [
        {"commitInfo": {"timestamp": int(time.time() * 1000), "operation": "CREATE TABLE", "operationParameters": {}}},
        {"protocol": {**protocol, "writerFeatures": ["deletionVectors"]}},
        {"metaData": {**metadata, "partitionColumns": [], "configuration": configuration}},
    ]
    (folder / "source" / "_delta_log").mkdir(parents=True)
    commit = folder / "source" / "_delta_log" / f"{0:020}.json"
    commit.write_text("\n".join(map(json.dumps, actions)) + "\n", "utf-8")
    (folder / "feed").mkdir()


def _put(folder: Path, figures: Figures) -> None:
    """One more file of the feed, whole from the moment on that it is there."""
    rows = [{"id": figures.put + row, "v": "a"} for row in range(ROWS)]
    made = folder / f"{figures.put:09}.json"
    made.write_text("\n".join(map(json.dumps, rows)), "utf-8")
    made.rename(folder / "feed" / made.name)
    figures.put += ROWS


def _look(part: Part, chance: random.Random, figures: Figures) -> None:
    assert part.process is not None
    now = time.monotonic()
    if part.process.poll() is not None:
        figures.problems.append(f"{part.name} ended by itself: " + "\n".join(part.output()[-40:]))
    elif part.dies_at is None and part.is_ready():
        part.dies_at = now + chance.uniform(*LIFE_SECONDS[part.name])
    elif part.dies_at is None and now > part.begun + READY_SECONDS:
        figures.problems.append(f"{part.name} is not ready after {READY_SECONDS} s")
    elif part.dies_at is not None and now > part.dies_at:
        part.kill(python_first=chance.random() < 0.3)
        figures.kills[f"{part.name} killed"] += 1
        part.start()


def _finish(folder: Path, figures: Figures) -> None:
    last = Part("finish", folder)
    last.start()
    assert last.process is not None
    try:
        last.process.wait(FINISH_SECONDS)
    except subprocess.TimeoutExpired:
        figures.problems.append("the streams find no end")
    finally:
        last.kill()
    if last.output()[-1:] != ["done"]:
        figures.problems.append("the rest cannot be read: " + "\n".join(last.output()[-40:]))


def _judge(folder: Path, figures: Figures) -> None:
    rows = {name: read_by_delta_rs(str(folder / name)) for name in TABLES}
    ids = {name: Counter(table["id"].to_pylist()) for name, table in rows.items()}
    inserted = {row for row in ids["source"] if row < 0}
    expected = inserted | set(range(figures.put))
    for name in ("source", "skipped"):
        twice = [row for row, count in ids[name].items() if count > 1]
        if twice:
            figures.problems.append(f"{len(twice)} rows are more than once in {name}: {twice[:9]}")
    for name in ("skipped", "ignored"):
        lost, foreign = expected - ids[name].keys(), ids[name].keys() - expected
        # What a MERGE had deleted before the first start was never to be read by a stream of the table as it is.
        if foreign or (lost and name == "skipped"):
            figures.problems.append(f"{name}: {sorted(lost)[:9]} lost, {sorted(foreign)[:9]} from nowhere")
    changed = set(rows["skipped"]["v"].to_pylist()) - {"a"}
    if changed:
        figures.problems.append(f"rows that were changed were read: {changed}")
    if ids["source"].keys() - ids["ignored"].keys():
        figures.problems.append("rows of the source are not in ignored")
    for name in TABLES:
        figures.problems += [
            f"{name}: {problem}"
            for problem in lint(open_store(str(folder / name)), foreign={0} if name == "source" else ())
        ]
    for commit in sorted((folder / "source" / "_delta_log").glob("*.json")):
        infos = [json.loads(line) for line in commit.read_text("utf-8").splitlines() if "commitInfo" in line]
        figures.operations[infos[0]["commitInfo"]["operation"]] += 1
    figures.batches = sum(
        len(list((folder / "checkpoints" / name / "commits").glob("[0-9]*"))) for name in ("skipping", "ignoring")
    )


def main() -> None:
    seconds = float(sys.argv[1])
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else random.randrange(10**6)
    print(f"{seconds:g} seconds, seed {seed}", flush=True)
    folder = Path(tempfile.mkdtemp(prefix="soak-streams-"))
    figures = soak(folder, seconds, seed)
    print(figures)
    if figures.problems:
        print("\n".join(figures.problems), f"\neverything is in {folder}")
        sys.exit(1)
    subprocess.run(["rm", "-rf", str(folder)], check=True)


if __name__ == "__main__":
    main()
