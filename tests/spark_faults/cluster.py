"""Statements on two executors, whose processes are killed while a job of theirs runs.

    cluster.py FOLDER STATEMENT:FAULT ...

Prints a line of JSON for each. With the fault `driver` nothing is printed: the process is killed.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyspark
from pyspark.sql import SparkSession

from spark_faults.judging import problems_of
from spark_faults.running import answer, described, pid_of_jvm, session
from spark_faults.statements import ROWS, STATEMENTS, Statement, make_originals

FAULTS = ("executors once", "executors each time", "memory", "driver")
TOO_LARGE = r"length(repeat(CAST(\1 AS STRING), 500000000)) > 0"
"""A condition for which a task needs more memory than an executor has."""
DEADLINE_S = 240


def started(folder: Path) -> SparkSession:
    # Workers write into Spark's home: one of our own, of links to what is installed.
    home = folder / "home"
    home.mkdir()
    for entry in Path(next(iter(pyspark.__path__))).iterdir():
        (home / entry.name).symlink_to(entry)
    os.environ["SPARK_HOME"] = str(home)
    settings = {
        "spark.driver.memory": "1g",
        "spark.executor.memory": "512m",
        "spark.default.parallelism": "4",
        # A task may lose one executor.
        "spark.task.maxFailures": "2",
    }
    return session("local-cluster[2,1,1024]", folder, settings)


def reached_in_tasks(folder: Path) -> Callable[[int], bool]:
    """A condition whose computation kills, where the file `fault` says so: each task reaches the id that does it late."""
    late = ROWS - 50
    plan = folder / "fault"

    def reached(number: int) -> bool:
        if number % 1000 != late or not plan.exists():
            return True
        fault, journal, *drivers = plan.read_text("utf-8").splitlines()
        pids = [int(pid) for pid in drivers]
        if fault == "executors once":
            try:
                os.close(os.open(f"{journal}-once", os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                return True
            # The parent of this process is a daemon, and its parent is the executor.
            pids = [int(fields_of(os.getppid())[1])]
        elif fault == "executors each time":
            pids = children_of(pids[-1])
        with open(journal, "a") as kills:
            kills.write(f"{pids}\n")
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(60)
        return True

    return reached


def fields_of(pid: int) -> list[str]:
    """State, parent and what else the system says of a process, behind its name."""
    return Path(f"/proc/{pid}/stat").read_text("ascii").rsplit(") ", 1)[1].split()


def children_of(driver: int) -> list[int]:
    """The executors of a driver."""
    pids = []
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            with contextlib.suppress(OSError):
                parent = int(fields_of(int(process.name))[1])
                if parent == driver and b"ExecutorBackend" in process.joinpath("cmdline").read_bytes():
                    pids.append(int(process.name))
    return pids


class Cluster:
    """The session, and the processes of its executors."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.spark = started(folder)
        self.driver = pid_of_jvm(self.spark)
        self.tracker = self.spark.sparkContext.statusTracker()
        self.spark.udf.register("reached", reached_in_tasks(folder), "boolean")
        make_originals(self.spark, folder / "originals")

    def tasks(self) -> int:
        """How many run."""
        stages = [self.tracker.getStageInfo(stage) for stage in self.tracker.getActiveStageIds()]
        return sum(stage.numActiveTasks for stage in stages if stage is not None)

    @contextlib.contextmanager
    def failing(self, statement: Statement, fault: str, journal: Path) -> Iterator[None]:
        """A block in which the statement's tasks have the fault."""
        if fault == "memory":
            yield
        elif statement.reaches:
            plan = self.folder / "fault"
            plan.write_text("\n".join([fault, str(journal), str(os.getpid()), str(self.driver)]), "utf-8")
            yield
            plan.unlink()
        else:
            killer = Killer(self, fault, journal)
            yield
            killer.end()

    def run(self, name: str, fault: str) -> dict[str, Any]:
        statement = STATEMENTS[name]
        path = self.folder / f"{name} {fault}"
        journal = self.folder / f"{name} {fault}.kills"
        statement.prepare(self.folder / "originals", path)
        error: BaseException | None = None
        with self.failing(statement, fault, journal):
            try:
                (statement.with_condition(TOO_LARGE) if fault == "memory" else statement).run(self.spark, path)
            except Exception as raised:
                error = raised
        kills = len(journal.read_text().splitlines()) if journal.exists() else 0
        again, problems = "", []
        if error is not None:
            problems = problems_of(path, statement.refused)
            statement.clear(path)
            try:
                statement.run(self.spark, path)
            except Exception as raised:
                again = f"{type(raised).__name__}: {raised}"
        outcome = {
            "kills": kills,
            "problems": problems,
            "again": again,
            "error": None if error is None else described(error),
        }
        return {"statement": name, "fault": fault, **outcome}


class Killer(threading.Thread):
    """Kills all executors once they have a task. They are stopped before, so that no task ends earlier."""

    def __init__(self, cluster: Cluster, fault: str, journal: Path) -> None:
        super().__init__(daemon=True)
        self.cluster, self.fault, self.journal = cluster, fault, journal
        self.ended = threading.Event()
        self.stopped = children_of(cluster.driver)
        send(signal.SIGSTOP, self.stopped)
        self.start()

    def run(self) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while not self.ended.wait(0.01) and time.monotonic() < deadline:
            if self.cluster.tasks():
                self.kill()
                break

    def kill(self) -> None:
        pids = children_of(self.cluster.driver)
        if self.fault == "driver":
            pids = [self.cluster.driver, os.getpid()]
        with self.journal.open("a") as kills:
            kills.write(f"{pids}\n")
        send(signal.SIGKILL, pids)

    def end(self) -> None:
        self.ended.set()
        self.join()
        send(signal.SIGCONT, self.stopped)


def send(number: signal.Signals, pids: list[int]) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def main(folder: Path, trials: list[str]) -> None:
    cluster = Cluster(folder)
    answer(trials, cluster.run)
    cluster.spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
