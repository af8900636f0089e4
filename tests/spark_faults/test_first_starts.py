"""Processes that are all the first on their machine: nothing is kept yet of what later ones find."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from anabranch.spark.extension.kept_jars import CACHE_VARIABLE
from spark_faults.first_start import ROWS_EACH
from spark_faults.judging import problems_of
from spark_faults.running import ALL

pytestmark = [
    pytest.mark.spark,
    pytest.mark.long,
    pytest.mark.skipif(not ALL, reason="six JVMs at once: a part of make test-spark-faults"),
]

PROCESSES = 6


def test_first_starts_at_once(tmp_path: Path) -> None:
    """They compile the classes, keep the jar and make the table beside one another: none fails, none loses a row."""
    cache = tmp_path / "cache"
    # Not with the options of the tests either: a JVM that has some keeps no classes.
    others = {key: value for key, value in os.environ.items() if not key.startswith(("SPARK_", "PYSPARK_"))}
    environment = {
        **others,
        CACHE_VARIABLE: str(cache),
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    }
    program = str(Path(__file__).with_name("first_start.py"))
    processes = [
        subprocess.Popen(
            [sys.executable, program, str(tmp_path), str(number)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=environment,
        )
        for number in range(PROCESSES)
    ]
    said = [process.communicate(timeout=600)[0] for process in processes]
    assert [process.returncode for process in processes] == [0] * PROCESSES, said
    assert {text.splitlines()[-1] for text in said} == {"done"}
    assert problems_of(tmp_path / "table", {row: row for row in range(PROCESSES * ROWS_EACH)}) == []
    assert list(cache.glob("delta-*.jar")), "the cache was not empty before, or is not used"
