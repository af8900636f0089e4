"""Which Python runs the tasks of a session that the user has made himself."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.spark

PROGRAM = """
import sys
import anabranch
from pyspark.sql import SparkSession
from pyspark.sql.functions import udf

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
anabranch.enable(spark)
spark.range(1).write.format("delta").save(sys.argv[1])
python = udf(lambda _: __import__("sys").executable)
print("ran by", spark.read.format("delta").load(sys.argv[1]).select(python("id")).first()[0])
"""


@pytest.mark.long
def test_tasks_of_a_local_session_run_the_python_that_enabled_it(tmp_path: Path) -> None:
    """Another `python3` comes first on the path, and cannot run anything."""
    (tmp_path / "bin").mkdir()
    other = tmp_path / "bin" / "python3"
    other.write_text("#!/bin/sh\nexit 3\n")
    other.chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"}
    environment |= {"SPARK_LOCAL_IP": "127.0.0.1", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    environment.pop("PYSPARK_PYTHON", None)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "t")],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert f"ran by {sys.executable}" in done.stdout, done.stderr[-3000:]
    assert "pandas" not in done.stderr
    assert "Warning:" not in done.stderr, "of Python, which PySpark gives for versions that it does not know"
