"""`make judge`: writers of several engines on one table, and the judgement of what they recorded.

An engine that cannot run here is "not run", with the reason. The environments are in variables that `scripts/judge.sh` sets.
"""

from __future__ import annotations

import collections
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import write_deltalake

from anabranch_judge.__main__ import text_of_judgement
from anabranch_judge.errors import JudgeError
from anabranch_judge.judgement import judge
from anabranch_judge.recorded_history import read_history
from anabranch_judge.table_log import TableLog

PROGRAM = Path(__file__).with_name("engine_writers.py")
PYTHONS = {
    "deltalake": sys.executable,
    "duckdb": sys.executable,
    "anabranch": sys.executable,
    "jar": os.environ.get("JUDGE_JAR_PYTHON", ""),
    "sail": os.environ.get("JUDGE_SAIL_PYTHON", ""),
}
KINDS: dict[str, dict[str, str | None]] = {
    "plain": {},
    "feed": {"delta.enableChangeDataFeed": "true"},
    "vectors": {"delta.enableDeletionVectors": "true"},
}
RUNS: list[dict[str, int]] = [
    {"deltalake": 3},
    {"anabranch": 3},
    {"jar": 3},
    {"sail": 3},
    {"deltalake": 2, "duckdb": 2},
    {"anabranch": 2, "deltalake": 2, "duckdb": 1},
    {"anabranch": 2, "jar": 2},
    {"anabranch": 2, "sail": 2},
    {"deltalake": 2, "sail": 2},
    {"deltalake": 2, "jar": 2},
]
"""For each run the number of writers of each engine."""
SECONDS_MAX = 600


class NotRunError(Exception):
    """Why an engine does not run here."""


class Process:
    """The writers of one engine."""

    def __init__(self, engine: str, table: Path, folder: Path, seed: int, statements: int, writers: int) -> None:
        if not PYTHONS[engine]:
            raise NotRunError(os.environ.get(f"JUDGE_NO_{engine.upper()}", "no environment of it"))
        arguments = [str(table), str(folder), str(seed), str(statements), str(writers)]
        self.log = (folder / f"{engine}{seed}.log").open("w+", encoding="utf-8")
        self.process = subprocess.Popen(
            [PYTHONS[engine], str(PROGRAM), engine, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            text=True,
        )
        self.name = ""

    def wait_for(self, mark: str) -> str:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith(mark):
                return line.removeprefix(mark).strip()
        self.log.seek(0)
        raise NotRunError(f"the process ended: {self.log.read()[-600:]}")

    def go_on(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()


def run(engines: dict[str, int], kind: str, *, statements: int, seed: int, folder: Path) -> int:
    """One table, its writers, and the judgement, printed; returns the number of faults."""
    table, histories = folder / "table", folder / "histories"
    histories.mkdir(parents=True)
    rows = pa.table({name: pa.array(range(1, 13), pa.int64()) for name in ("k", "v")})
    write_deltalake(str(table), rows, configuration=KINDS[kind])
    programs = [(engine, seed + index, count) for index, (engine, count) in enumerate(engines.items())]
    if "deltalake" in engines:
        # One process for each writer, as its users have them.
        programs = [program for program in programs if program[0] != "deltalake"]
        programs += [("deltalake", seed + 4 + index, 1) for index in range(engines["deltalake"])]
    processes = list[Process]()
    try:
        for engine, own_seed, count in programs:
            processes.append(Process(engine, table, histories, own_seed, statements, count))
        names = sorted({process.wait_for("@ready") for process in processes})
        print(f"\n{kind}: {', '.join(names)}", flush=True)
        for mark in ("@done", "@end"):
            for process in processes:
                process.go_on()
            for process in processes:
                process.wait_for(mark)
    except NotRunError as error:
        print(f"\n{kind}: {', '.join(engines)}: not run: {error}", flush=True)
        return 0
    finally:
        for process in processes:
            process.process.kill()
            process.process.wait()
    try:
        history = read_history(sorted(histories.glob("*.jsonl")))
        judgement = judge(TableLog(str(table)), history, key=["k"], first=0)
    except JudgeError as error:
        print(f"cannot be judged: {error}", flush=True)
        return 1
    print(text_of_judgement(judgement), flush=True)
    print_errors(histories)
    return len(judgement.faults)


def print_errors(histories: Path) -> None:
    """What the engines said, with the number of times; numbers and names of files differ from one to the next."""
    errors: collections.Counter[tuple[Any, ...]] = collections.Counter()
    for path in sorted(histories.glob("*.errors")):
        for line in path.read_text("utf-8").splitlines():
            error = json.loads(line)
            errors[error["engine"], error["operation"], error["error"][:120]] += 1
    for (engine, operation, text), count in errors.most_common(12):
        print(f"  {count} times {engine}, {operation}: {text}")


def main() -> None:
    statements, seed = int(os.environ.get("STATEMENTS") or 30), int(os.environ.get("SEED") or 1)
    chosen = os.environ.get("ENGINES", "").split()
    kinds = os.environ.get("KINDS", " ".join(KINDS)).split()
    folder = Path(os.environ.get("FOLDER") or tempfile.mkdtemp())
    faults = 0
    for number, engines in enumerate(RUNS):
        if not chosen or set(engines) <= set(chosen):
            for kind in kinds:
                own = folder / f"{'-'.join(engines)}-{kind}"
                faults += run(engines, kind, statements=statements, seed=seed + 10 * number, folder=own)
    print(f"\n{faults} faults. Tables and histories: {folder}")


if __name__ == "__main__":
    main()
