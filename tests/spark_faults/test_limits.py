"""Full disks, folders that cannot be written, and few file descriptors: errors that say so, and whole tables.

`make test-spark-faults` takes all statements to all limits.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from spark_faults.running import ALL, NAMESPACE, may_mount, run
from spark_faults.statements import STATEMENTS

pytestmark = [pytest.mark.spark, pytest.mark.long]

CAUSES = {
    "full disk": "No space left",
    "full scratch": "No space left",
    "read-only disk": "Read-only file system",
    "read-only folder": "not permitted|denied",
    "read-only log": "not permitted|denied",
    "descriptors of Python": "Too many open files",
}
WITHOUT_DESCRIPTORS = frozenset({"OPTIMIZE ZORDER", "REORG", "MERGE of a query", "INSERT REPLACE WHERE", "VACUUM"})
"""Not taken to the limit of Python's descriptors: PySpark's `toArrow` waits for ever in the first, the others are untried."""
SAMPLE = ["MERGE:full disk", "DELETE:read-only log"]


def trials_of(limit: str) -> list[str]:
    """The limit with all statements that have what is made read-only: some make the table, or its log."""
    return [
        f"{name}:{limit}"
        for name, statement in STATEMENTS.items()
        if ("read-only" not in limit or statement.refused)
        and not ("descriptors" in limit and name in WITHOUT_DESCRIPTORS)
    ]


PLANS = {limit: trials_of(limit) for limit in CAUSES} if ALL else {}
PLANS = {"a sample": SAMPLE, **PLANS}


@pytest.mark.parametrize("plan", PLANS)
def test_a_limit_is_told_and_harms_no_table(tmp_path: Path, plan: str) -> None:
    """Covers faults F4 and F15, and invariant I7."""
    if not may_mount(tmp_path):
        pytest.skip("this user may not mount a small disk")
    answers = run("limited", tmp_path, PLANS[plan], within=NAMESPACE)
    complaints = [complaint for answer in answers for complaint in complaints_of(answer, tmp_path)]
    assert complaints == [], "\n".join(complaints)
    assert any(answer["errors"] for answer in answers), "no statement met a limit"


def complaints_of(answer: Mapping[str, Any], folder: Path) -> Iterator[str]:
    """What is wrong with a trial."""
    limit, trial = answer["limit"], f"{answer['statement']}: {answer['limit']}"
    yield from (f"{trial}: {problem}" for problem in answer["problems"])
    if answer["left"]:
        yield f"{trial}: VACUUM leaves {answer['left']}"
    for error in answer["errors"]:
        message = error["message"]
        # The error of a stream is Spark's, with ours in it.
        is_typed = "DeltaError" in error["kinds"] or re.search(
            r"terminated with exception: \[(DELTA|ANABRANCH)_", message
        )
        if not is_typed or str(folder) not in message or not re.search(CAUSES[limit], message, re.IGNORECASE):
            yield f"{trial}: level {error['level']}: {error['kinds'][0]}: {message[:600]}"
