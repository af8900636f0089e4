"""What needs a process of its own: Ctrl-C, and programs that end while streams run."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.long]

PROGRAMS = Path(__file__).parent / "programs"
END_SECONDS = 30
"""A program that waits for a stream would wait for ever."""


def started(program: str, folder: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(PROGRAMS / f"{program}.py"), str(folder), *arguments],
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=(folder / "stderr").open("w"),
        text=True,
    )


def test_ctrl_c_leaves_tables_and_session_whole(tmp_path: Path) -> None:
    process = started("interrupted", tmp_path)
    output, _ = process.communicate(timeout=400)
    stderr = (tmp_path / "stderr").read_text()
    assert (process.returncode, output.splitlines()[-1:]) == (0, ["done"]), output + stderr
    assert "KeyboardInterrupt while sending command" not in stderr
    assert "reentrant" not in stderr


@pytest.mark.parametrize("how", ["end", "stop"])
def test_programs_end_while_streams_run(native: SparkSession, tmp_path: Path, how: str) -> None:
    """At once, without a word, and with tables that hold each row once."""
    process = started("ending", tmp_path, how)
    assert process.stdout is not None
    said = process.stdout.readline()
    begun = time.monotonic()
    assert process.wait(timeout=END_SECONDS + 30) == 0
    stderr = (tmp_path / "stderr").read_text()
    assert said == "done\n", stderr
    assert time.monotonic() - begun < END_SECONDS
    assert "Traceback" not in stderr
    for name in ("sink", "function"):
        ids = sorted(row.id for row in native.read.format("delta").load(str(tmp_path / name)).collect())
        assert ids == list(range(len(ids)))
        assert ids


def test_spark_is_stopped_while_rows_are_kept(tmp_path: Path) -> None:
    """There is nothing to release any more, and nothing to complain about."""
    process = started("stopped_meanwhile", tmp_path)
    output, _ = process.communicate(timeout=100)
    stderr = (tmp_path / "stderr").read_text()
    assert (process.returncode, output) == (0, "done\n"), stderr
    assert "not released" not in stderr
