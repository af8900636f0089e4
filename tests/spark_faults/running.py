"""The programs of this folder, as processes of their own."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import anabranch
from new_processes import outside_this_session

ALL = "ANABRANCH_SPARK_FAULTS" in os.environ
"""Whether all statements have all faults; otherwise some have some."""
NAMESPACE = ["unshare", "-m"] if os.geteuid() == 0 else ["unshare", "-Urm"]
"""A process that mounts for itself alone."""


def run(program: str, folder: Path, trials: Sequence[str], *, within: Sequence[str] = ()) -> list[dict[str, Any]]:
    """What the program says of each trial; of one that kills it, nothing."""
    errors, answers = folder / "errors", folder / "answers"
    environment = {
        **outside_this_session(),
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "PYSPARK_PYTHON": sys.executable,
    }
    command = [*within, sys.executable, str(Path(__file__).with_name(f"{program}.py")), str(folder), *trials]
    with errors.open("wb") as said, answers.open("wb") as answered:
        process = subprocess.Popen(
            command, stdout=answered, stderr=said, env=environment, cwd=folder, start_new_session=True
        )
        try:
            process.wait(timeout=1500)
        finally:
            # Executors of a driver that was killed are in its group.
            ended(process.pid)
    killed = trials[-1].endswith(":driver")
    assert process.returncode == (-signal.SIGKILL if killed else 0), errors.read_text(errors="replace")[-3000:]
    reports = [json.loads(line) for line in answers.read_text().splitlines()]
    assert len(reports) == len(trials) - killed
    return reports


def ended(group: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


def session(master: str, folder: Path, settings: Mapping[str, str]) -> SparkSession:
    """The session of a program."""
    builder = SparkSession.builder.master(master)
    for key, value in {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": f"{folder}/warehouse",
        "spark.databricks.delta.retentionDurationCheck.enabled": "false",
        **settings,
    }.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return anabranch.enable(spark)


def pid_of_jvm(spark: SparkSession) -> int:
    """The process of a session's driver."""
    jvm: Any = spark._jvm
    return int(jvm.java.lang.ProcessHandle.current().pid())


def answer(trials: Sequence[str], run: Callable[[str, str], dict[str, Any]]) -> None:
    """Print what `run` says of the statement and the fault of each trial, a line of JSON each."""
    for trial in trials:
        print(json.dumps(run(*trial.split(":"))), flush=True)


def described(error: BaseException) -> dict[str, Any]:
    """An error, as a line of JSON has it."""
    condition = error.getCondition() if isinstance(error, PySparkException) else None
    return {"kinds": [kind.__name__ for kind in type(error).__mro__], "condition": condition, "message": str(error)}


def may_mount(folder: Path) -> bool:
    """Whether this user may mount a disk for a process, and make a folder immutable."""
    mount = f"mount -t tmpfs tmpfs '{folder}' && chattr +i '{folder}' && chattr -i '{folder}'"
    return subprocess.run([*NAMESPACE, "sh", "-c", mount], capture_output=True, check=False).returncode == 0
