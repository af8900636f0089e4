"""Processes with Spark that are killed in a transaction: the table is as before, or has all of its changes.

Covers fault F59.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from anabranch.storage.local.local_store import LocalStore
from anabranch.tables import DeltaTable
from new_processes import outside_this_session
from processes.changing import seen_by_all
from transactions.log_linter import lint
from turns import turn

pytestmark = [pytest.mark.spark, pytest.mark.long]

PROGRAM = Path(__file__).with_name("killed_transaction.py")
KILLS = int(os.environ.get("ANABRANCH_KILLS", "1"))
"""How many calls are chosen, others in each turn, beside the put of the commit; 0 for each of them. Each takes a process."""
ROWS = 10
BEFORE = {row: row * 10 for row in range(ROWS)}
AFTER = {
    **{row: value for row, value in BEFORE.items() if row != 2},
    **{100 + row: row for row in range(10) if row != 2},
    1: -1,
    101: -1,
    3: -3,
    103: -3,
    203: 0,
}


def test_a_process_that_is_killed_in_a_transaction_leaves_all_of_it_or_nothing(
    native: SparkSession, tmp_path: Path
) -> None:
    """With the files and jobs of Spark."""
    original = tmp_path / "original"
    table = f"delta.`{original}`"
    native.sql(f"CREATE TABLE {table} (id BIGINT, n BIGINT) USING delta")
    native.range(0, ROWS, 1, 1).selectExpr("id", "id * 10 AS n").write.insertInto(table)
    native.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    try:
        calls = killed(tmp_path, "after")
        assert left(native, tmp_path / "after") == AFTER
        assert killed(tmp_path, "before") == calls
        assert left(native, tmp_path / "before") == BEFORE
        assert calls > 10, "too few calls were seen to be counted"
        number = KILLS or calls - 1
        chosen = [1 + (turn() + (calls - 1) * part // number) % (calls - 1) for part in range(number)]
        for call in map(str, chosen):
            killed(tmp_path, call)
            assert left(native, tmp_path / call) == BEFORE, f"killed at call {call} of {calls}"
    finally:
        native.conf.unset("spark.databricks.delta.retentionDurationCheck.enabled")


def killed(folder: Path, at: str) -> int:
    """A copy of the table, on which a process was killed; the number of the call."""
    table, scratch = folder / at, folder / f"process-{at}"
    shutil.copytree(folder / "original", table)
    scratch.mkdir()
    environment = {**outside_this_session(), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with (folder / f"errors-{at}").open("wb") as errors:
        process = subprocess.run(
            [sys.executable, str(PROGRAM), str(scratch), str(table), at],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env=environment,
            start_new_session=True,
            check=False,
        )
    assert process.returncode == -signal.SIGKILL, (folder / f"errors-{at}").read_text(errors="replace")[-3000:]
    return int(process.stdout)


def left(native: SparkSession, table: Path) -> dict[int, int]:
    """The rows that other readers see, too. Then a writer goes on, and VACUUM removes what is in no version."""
    rows = seen_by_all(str(table))
    native.sql(f"INSERT INTO delta.`{table}` VALUES (1000, 0)")
    native.sql(f"DELETE FROM delta.`{table}` WHERE id = 4")
    expected = {**rows, 1000: 0}
    del expected[4]
    assert seen_by_all(str(table)) == expected
    assert lint(LocalStore(str(table))) == []
    DeltaTable.forPath(native, str(table)).vacuum(0)
    data = {file.name for file in table.glob("*.parquet")}
    live = native.read.format("delta").load(str(table)).inputFiles()
    assert data == {file.rpartition("/")[2] for file in live}
    return rows
