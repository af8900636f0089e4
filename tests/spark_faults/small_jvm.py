"""Statements in a JVM that has too little: memory for a value of theirs, or file descriptors.

    small_jvm.py FOLDER STATEMENT:LIMIT ...

Prints a line of JSON for each. A limit may end the JVM, so that the table is judged by the process that started this one.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

from spark_faults.limited import few_descriptors
from spark_faults.running import answer, described, pid_of_jvm, session
from spark_faults.statements import STATEMENTS, Statement, make_originals

LARGE = 1_500_000_000
"""The bytes of a value, more than the JVM's memory."""
CONDITIONS = {
    # Spark computes a constant while it plans.
    "memory of the driver": rf"\1 >= 0 AND length(repeat('x', {LARGE})) > 0",
    "memory of a task": rf"length(repeat(CAST(\1 AS STRING), {LARGE})) > 0",
    "descriptors of the JVM": r"\1 >= 0",
}
"""The condition in the place of `reached` for each limit."""
DEADLINE_S = 90


class Trials:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.spark = session("local[2]", folder, {"spark.driver.memory": "512m", "spark.local.dir": f"{folder}/local"})
        self.jvm = pid_of_jvm(self.spark)
        make_originals(self.spark, folder / "originals")

    def run(self, name: str, limit: str) -> dict[str, Any]:
        statement = STATEMENTS[name].with_condition(CONDITIONS[limit])
        path = self.folder / f"{name} {limit}"
        statement.prepare(self.folder / "originals", path)
        few = limit == "descriptors of the JVM"
        with few_descriptors(self.jvm, 0) if few else contextlib.nullcontext():
            ended, error = self.attempt(statement, path)
        return {
            "statement": name,
            "limit": limit,
            "ended": ended,
            "error": None if error is None else described(error),
            "lives": self.lives(),
        }

    def attempt(self, statement: Statement, path: Path) -> tuple[bool, BaseException | None]:
        """Whether it ended in time, and its error."""
        errors: list[BaseException] = []

        def run() -> None:
            try:
                statement.run(self.spark, path)
            except Exception as error:
                errors.append(error)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        thread.join(DEADLINE_S)
        return not thread.is_alive(), next(iter(errors), None)

    def lives(self) -> bool:
        """Whether the JVM does; one that ends does so soon."""
        for _ in range(20):
            with contextlib.suppress(OSError):
                if Path(f"/proc/{self.jvm}/stat").read_text("ascii").rsplit(") ", 1)[1][0] not in "ZX":
                    time.sleep(0.1)
                    continue
            return False
        return True


def main(folder: Path, trials: list[str]) -> None:
    answer(trials, Trials(folder).run)
    sys.stdout.flush()
    # A JVM that has ended, or waits, keeps Python from ending in its own way.
    os._exit(0)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
