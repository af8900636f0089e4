"""Statements on a full disk, in folders that cannot be written, and with few file descriptors.

    limited.py FOLDER STATEMENT:LIMIT ...

in a mount namespace of its own. Prints a line of JSON for each. A limit has levels: at each the statement fails or
succeeds. The table is judged behind each, and the next level gives more, until the statement succeeds.
"""

from __future__ import annotations

import contextlib
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from spark_faults.judging import left_by_vacuum, problems_of
from spark_faults.running import answer, described, session
from spark_faults.statements import STATEMENTS, Statement, make_originals

PAGE = 4096
TRUE = r"\1 >= 0"
LEVELS_MAX = 200


class Limits:
    """Imposes each limit at a level, for a while."""

    def __init__(self, folder: Path) -> None:
        self.disk, self.scratch = folder / "disk", folder / "scratch"

    @contextlib.contextmanager
    def full_disk(self, path: Path, level: int) -> Iterator[None]:
        """The table's disk has room for so many pages."""
        with filled(self.disk, level):
            yield

    @contextlib.contextmanager
    def full_scratch(self, path: Path, level: int) -> Iterator[None]:
        """The disk of temporary files, Spark's and Python's."""
        with filled(self.scratch, level):
            yield

    @contextlib.contextmanager
    def read_only_disk(self, path: Path, level: int) -> Iterator[None]:
        with changed(
            ["mount", "-o", "remount,ro", str(self.disk)], ["mount", "-o", "remount,rw", str(self.disk)], level
        ):
            yield

    @contextlib.contextmanager
    def read_only_folder(self, path: Path, level: int) -> Iterator[None]:
        """The table's folder: the log can be written, no data file can."""
        with changed(["chattr", "+i", str(path)], ["chattr", "-i", str(path)], level):
            yield

    @contextlib.contextmanager
    def read_only_log(self, path: Path, level: int) -> Iterator[None]:
        """Data files can be written, and no commit."""
        log = str(path / "_delta_log")
        with changed(["chattr", "+i", log], ["chattr", "-i", log], level):
            yield

    @contextlib.contextmanager
    def descriptors_of_python(self, path: Path, level: int) -> Iterator[None]:
        with few_descriptors(os.getpid(), level):
            yield


LIMITS: dict[str, Callable[[Limits, Path, int], contextlib.AbstractContextManager[None]]] = {
    "full disk": Limits.full_disk,
    "full scratch": Limits.full_scratch,
    "read-only disk": Limits.read_only_disk,
    "read-only folder": Limits.read_only_folder,
    "read-only log": Limits.read_only_log,
    "descriptors of Python": Limits.descriptors_of_python,
}


@contextlib.contextmanager
def filled(disk: Path, level: int) -> Iterator[None]:
    ballast = disk / "ballast"
    free = os.statvfs(disk)
    with ballast.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, free.f_bavail * free.f_frsize - level * PAGE)
    try:
        yield
    finally:
        ballast.unlink()


@contextlib.contextmanager
def changed(begin: list[str], end: list[str], level: int) -> Iterator[None]:
    """In force at level 0 alone."""
    if level == 0:
        subprocess.run(begin, check=True)
    try:
        yield
    finally:
        if level == 0:
            subprocess.run(end, check=True)


@contextlib.contextmanager
def few_descriptors(pid: int, level: int) -> Iterator[None]:
    """The process may open so many more than it has open."""
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    opened = len(os.listdir(f"/proc/{pid}/fd"))
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (opened + level, before[1]))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)


class Trials:
    """The session, its limits, and what statements begin with."""

    def __init__(self, folder: Path) -> None:
        (folder / "checkpoints").mkdir()
        for name in ("disk", "scratch"):
            (folder / name).mkdir()
            subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(folder / name)], check=True)
        os.environ["TMPDIR"] = str(folder / "scratch")
        # Python chooses its folder once, and not one that is full.
        assert tempfile.gettempdir() == str(folder / "scratch")
        self.folder = folder / "disk"
        self.spark = session("local[2]", folder, {"spark.local.dir": f"{folder}/scratch"})
        self.limits = Limits(folder)
        # What a stream keeps is on another disk: Spark itself cannot read what is left there of files that it began.
        (self.folder / "checkpoints").symlink_to(folder / "checkpoints")
        make_originals(self.spark, self.folder / "originals")

    def run(self, name: str, limit: str) -> dict[str, Any]:
        """Each level until the statement succeeds."""
        statement = STATEMENTS[name].with_condition(TRUE)
        warm = self.folder / f"{name} {limit} before"
        # What Python imports at a statement's first run is there.
        statement.prepare(self.folder / "originals", warm)
        statement.run(self.spark, warm)
        path = self.folder / f"{name} {limit}"
        statement.prepare(self.folder / "originals", path)
        errors, problems = [], []
        for level in range(LEVELS_MAX):
            error = self.attempt(statement, limit, path, level)
            problems += [f"level {level}: {it}" for it in self.judged(statement, path, failed=error is not None)]
            if error is None:
                break
            errors.append({"level": level, **described(error)})
            statement.clear(path)
        else:
            problems.append("it never succeeds")
        left = left_by_vacuum(self.spark, path)
        return {"statement": name, "limit": limit, "errors": errors, "problems": problems, "left": sorted(left)}

    def attempt(self, statement: Statement, limit: str, path: Path, level: int) -> BaseException | None:
        with LIMITS[limit](self.limits, path, level):
            try:
                statement.run(self.spark, path)
            except Exception as error:
                return error
        return None

    def judged(self, statement: Statement, path: Path, *, failed: bool) -> list[str]:
        return problems_of(path, statement.refused if failed else statement.after)


def main(folder: Path, trials: list[str]) -> None:
    limited = Trials(folder)
    answer(trials, limited.run)
    limited.spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
