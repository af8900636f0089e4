"""Executors and drivers that are killed while a statement's job runs, on a cluster of two executors.

`make test-spark-faults` takes all statements through all faults.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark_faults.cluster import FAULTS
from spark_faults.judging import problems_afterwards, problems_of
from spark_faults.running import ALL, run
from spark_faults.statements import STATEMENTS

pytestmark = [pytest.mark.spark, pytest.mark.long]

WITHOUT_JOBS = frozenset({"VACUUM"})
SAMPLE = ["UPDATE:executors once", "DELETE:executors each time", "OPTIMIZE:executors once", "MERGE:driver"]


def trials_of(name: str) -> list[str]:
    """All faults of a statement; the driver's ends the process. Two need an expression in which tasks fail each time."""
    return [f"{name}:{fault}" for fault in FAULTS if STATEMENTS[name].reaches or fault in ("executors once", "driver")]


PLANS = {name: trials_of(name) for name in STATEMENTS if name not in WITHOUT_JOBS} if ALL else {}
PLANS = {"a sample": SAMPLE, **PLANS}


@pytest.mark.parametrize("plan", PLANS)
def test_a_statement_lands_once_or_not_at_all(other: SparkSession, tmp_path: Path, plan: str) -> None:
    """Covers faults F10 and F59, and invariant I7."""
    answers = {f"{answer['statement']}:{answer['fault']}": answer for answer in run("cluster", tmp_path, PLANS[plan])}
    complaints = [
        f"{trial}: {it}" for trial in PLANS[plan] for it in complaints_of(trial, answers.get(trial), tmp_path, other)
    ]
    assert complaints == [], "\n".join(complaints)


def complaints_of(trial: str, answer: Mapping[str, Any] | None, folder: Path, other: SparkSession) -> Iterator[str]:
    """What is wrong with a trial; without an answer its process was killed."""
    name, fault = trial.split(":")
    statement, path = STATEMENTS[name], folder / f"{name} {fault}"
    if answer is not None:
        yield from complaints_of_answer(answer)
    else:
        if not path.with_name(f"{path.name}.kills").exists():
            yield "nothing was killed"
        yield from problems_of(path, statement.refused, statement.after)
        statement.clear(path)
        statement.run(other, path)
    yield from problems_afterwards(other, path, statement.after)


def complaints_of_answer(answer: Mapping[str, Any]) -> Iterator[str]:
    """What the statement's own process says of it."""
    error, kills = answer["error"], answer["kills"]
    yield from answer["problems"]
    if answer["again"]:
        yield f"its repetition fails: {answer['again'][:600]}"
    if answer["fault"] == "executors once":
        if error is not None or kills != 1:
            yield f"{kills} kills, {error}"
    elif error is None or not (kills or answer["fault"] == "memory"):
        yield f"it succeeds, with {kills} kills"
    elif "JobFailedError" not in error["kinds"] and "StreamingQueryException" not in error["kinds"]:
        yield f"{error['kinds'][0]}: {error['message'][:600]}"
