"""Programs that are clients of a server, in a separate process, so that a client's imports and patches stay there.

A module of programs has functions marked `program`. Run as a program it reads their names, one a line, and says of each
"ok" or where it failed. So each function is a test of its own, and the process starts once.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from new_processes import outside_this_session

ANSWER = "answer: "
Program = Callable[..., None]


def answer_lines(programs: Mapping[str, Program], folder: str, *arguments: Any) -> None:
    """Run the programs that standard input names, each with the arguments and a folder of its own."""
    for line in sys.stdin:
        name = line.strip()
        own = Path(folder, name)
        own.mkdir()
        try:
            programs[name](*arguments, str(own))
            answer = "ok"
        except Exception:
            answer = traceback.format_exc().partition("JVM stacktrace:")[0]
        print(ANSWER + json.dumps(answer), flush=True)


@contextlib.contextmanager
def refused(condition: str, sqlstate: str) -> Iterator[None]:
    """The block must raise an error of that condition."""
    try:
        yield
    except Exception as error:
        outcome: Any = error
        if not hasattr(outcome, "getCondition"):
            raise
        condition_and_sqlstate = (outcome.getCondition(), outcome.getSqlState())
        assert condition_and_sqlstate == (condition, sqlstate), f"{condition_and_sqlstate}: {error}"
        return
    raise AssertionError(f"not refused: {condition}")


def rows_of(frame: Any) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in frame.collect()]


def merge_by_every_clause(spark: Any, table: Any) -> None:
    """Check the result of a MERGE into rows (0, 'v0') to (9, 'v9') of a `DeltaTable` called t, and the rows after it."""
    from pyspark.sql.connect import functions as F

    source = spark.sql("SELECT explode(array(1, 2, 50, 51)) AS id, 'm' AS v").alias("s")
    result = (
        table.merge(source, (F.col("t.id") == source.id) & (F.col("t.id") < 100))
        .whenMatchedUpdate("t.id = 1", {"v": "concat(t.v, s.v)"})
        .whenMatchedDelete()
        .whenNotMatchedInsert(F.col("s.id") == 50, {"t.id": "s.id", "v": source.v})
        .whenNotMatchedBySourceUpdate("t.id = 9", {"v": F.lit("alone")})
        .whenNotMatchedBySourceDelete("t.id > 3")
        .execute()
    )
    assert result.columns == ["num_affected_rows", "num_updated_rows", "num_deleted_rows", "num_inserted_rows"]
    assert rows_of(result) == [(9, 2, 6, 1)]
    expected = [(0, "v0"), (1, "v1m"), (3, "v3"), (9, "alone"), (50, "m")]
    assert rows_of(table.toDF().orderBy("id")) == expected


class ClientProcess:
    """Runs a module of programs in a folder. `paths` come first in Python's search path."""

    def __init__(self, module: Any, url: str, folder: Path, *paths: str, **variables: str) -> None:
        self._log = folder / "stderr"
        environment = {**outside_this_session("PYSPARK_"), **variables}
        self._process = subprocess.Popen(
            [sys.executable, str(module.__file__), url, str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log.open("w"),
            text=True,
            cwd=folder,
            env={**environment, "PYTHONPATH": os.pathsep.join(filter(None, [*paths, *sys.path]))},
        )

    def run(self, name: str) -> str:
        """The answer of the program."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{name}\n")
        self._process.stdin.flush()
        for line in self._process.stdout:
            if line.startswith(ANSWER):
                return str(json.loads(line.removeprefix(ANSWER)))
        raise AssertionError(f"the process ended: {self._log.read_text()[-4000:]}")

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=60)
