"""A program that serves, handed to PySpark's own spark-submit, with executors in processes of their own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

import anabranch
from new_processes import outside_this_session
from serve.served import Served, client

pytest.importorskip("grpc")
pytest.importorskip("pyhive")
pytestmark = [pytest.mark.spark, pytest.mark.long]

PROGRAM = Path(__file__).parent / "submitted_program.py"
SUBMIT = Path(pyspark.__file__).parent / "bin" / "spark-submit"
SETTINGS = {
    "spark.sql.catalogImplementation": "in-memory",
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    "spark.executor.memory": "512m",
}


def test_a_driver_of_spark_submit(tmp_path: Path) -> None:
    settings = {**SETTINGS, "spark.sql.warehouse.dir": str(tmp_path / "warehouse")}
    command = [str(SUBMIT), "--master", "local-cluster[1,2,512]"]
    command += [part for key, value in settings.items() for part in ("--conf", f"{key}={value}")]
    source = str(Path(anabranch.__file__).parents[1])
    environment = outside_this_session("PYSPARK_")
    environment |= {"PYSPARK_PYTHON": sys.executable, "PYTHONPATH": source, "SPARK_HOME": str(SUBMIT.parents[1])}
    log = tmp_path / "log"
    with log.open("w") as errors:
        process = subprocess.Popen(
            [*command, str(PROGRAM)], stdout=subprocess.PIPE, stderr=errors, text=True, env=environment, cwd=tmp_path
        )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, log.read_text()[-4000:]
        server = Served(process, json.loads(line))
        with client(server, "connect") as by:
            by.rows("CREATE TABLE submitted USING delta AS SELECT id, 'x' AS v FROM range(0, 100, 1, 4)")
            assert by.rows("DELETE FROM submitted WHERE id >= 90") == [(10,)]
        with client(server, "jdbc") as by:
            assert by.rows("SELECT count(*), sum(id) FROM submitted") == [(90, 4005)]
    finally:
        process.terminate()
        process.communicate(timeout=120)
