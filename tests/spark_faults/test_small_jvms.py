"""JVMs with too little memory or too few file descriptors: an error in bounded time, a whole table, and a way to go on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark_faults.judging import problems_afterwards, problems_of
from spark_faults.running import run
from spark_faults.small_jvm import DEADLINE_S
from spark_faults.statements import STATEMENTS

pytestmark = [pytest.mark.spark, pytest.mark.long]

PLANNED, TASK, DESCRIPTORS = "memory of the driver", "memory of a task", "descriptors of the JVM"
PLANS = {
    # A task that has no memory left ends the JVM, so it is the last one.
    "memory": [f"DELETE:{PLANNED}", f"UPDATE:{TASK}"],
    "descriptors": [f"UPDATE:{DESCRIPTORS}"],
}


@pytest.mark.parametrize("plan", PLANS)
def test_a_jvm_with_too_little_harms_no_table(other: SparkSession, tmp_path: Path, plan: str) -> None:
    """Covers fault F60, and invariant I7."""
    (tmp_path / "checkpoints").mkdir()
    answers = run("small_jvm", tmp_path, PLANS[plan])
    complaints = [
        f"{answer['statement']}: {answer['limit']}: {it}"
        for answer in answers
        for it in complaints_of(answer, tmp_path, other)
    ]
    assert complaints == [], "\n".join(complaints)


def complaints_of(answer: Mapping[str, Any], folder: Path, other: SparkSession) -> Iterator[str]:
    """What is wrong with a trial."""
    name, limit, error = answer["statement"], answer["limit"], answer["error"]
    statement, path = STATEMENTS[name], folder / f"{name} {limit}"
    if not answer["ended"]:
        yield f"it has not ended after {DEADLINE_S} seconds"
    elif error is None:
        yield "it succeeds"
    elif answer["lives"]:
        yield from complaints_of_error(error, name, limit, str(path))
    elif limit != TASK:
        yield f"the JVM has ended: {error['message'][:600]}"
    yield from problems_of(path, statement.refused)
    statement.run(other, path)
    yield from problems_afterwards(other, path, statement.after)


def complaints_of_error(error: Mapping[str, Any], name: str, limit: str, path: str) -> Iterator[str]:
    """What is wrong with the error of a session that goes on."""
    message = error["message"]
    is_memory = limit != DESCRIPTORS
    cause, way_out = ("OutOfMemoryError", "spark.driver.memory") if is_memory else ("Too many open files", "ulimit -n")
    if "DeltaError" not in error["kinds"] or path not in message or cause not in message or way_out not in message:
        yield f"{error['kinds'][0]}: {message[:600]}"
