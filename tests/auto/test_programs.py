"""Programs for delta-spark, unchanged, with Spark: each in a process of its own."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]
PROGRAMS = Path(__file__).parent / "programs"

pytestmark = [pytest.mark.spark, pytest.mark.long]

CATALOG = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
EXTENSION = "io.delta.sql.DeltaSparkSessionExtension"
QUIET = {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}

connect = pytest.mark.skipif(importlib.util.find_spec("grpc") is None, reason="Spark Connect needs grpc")
REMOTES = [pytest.param({}, id="classic"), pytest.param({"SPARK_REMOTE": "local[2]"}, id="connect", marks=connect)]

QUICKSTART_SAYS = [
    "merged: [0, 1, 2, 5, 6, 7, 103, 104]",
    "changed: [5, 7, 103, 1000, 1002, 1006, 1104]",
    "first: 5",
    "named: 0 True",
]


@pytest.mark.usefixtures("connect_port")
@pytest.mark.parametrize("remote", REMOTES)
def test_the_quickstart_by_anabranch_run(anabranch_run: Run, tmp_path: Path, remote: dict[str, str]) -> None:
    """Builder with package, extension and catalog, `delta.tables`, MERGE, SQL, time travel, exceptions, exit code."""
    done = anabranch_run(PROGRAMS / "quickstart.py", tmp_path, **QUIET, **remote)
    assert done.stdout.splitlines() == QUICKSTART_SAYS, done.stderr
    assert done.returncode == 3
    (warning,) = [line for line in done.stderr.splitlines() if line.startswith("anabranch")]
    assert "spark.jars.packages=io.delta:delta-spark_2.13:4.0.0" in warning
    assert f"spark.sql.extensions={EXTENSION}" in warning
    assert f"spark.sql.catalog.spark_catalog={CATALOG}" in warning


@pytest.mark.usefixtures("connect_port")
@pytest.mark.parametrize("remote", REMOTES)
def test_every_session_knows_delta(anabranch_run: Run, tmp_path: Path, remote: dict[str, str]) -> None:
    """Sessions of threads, by `newSession`, `cloneSession` or the class, after a stop; submit arguments are cleaned."""
    done = anabranch_run(
        "-m",
        "many_sessions",
        tmp_path,
        PYTHONPATH=str(PROGRAMS),
        PYSPARK_SUBMIT_ARGS="--packages io.delta:delta-spark_2.13:4.0.0 --conf spark.sql.shuffle.partitions=2 pyspark-shell",
        **QUIET,
        **remote,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "done"
    assert "spark.jars.packages=io.delta:delta-spark_2.13:4.0.0" in done.stderr


def test_spark_submit_in_an_environment_that_is_switched_on(python: Run, environment: Any, tmp_path: Path) -> None:
    """The JVM is there first, with settings of the command line and of spark-defaults.conf."""
    import pyspark

    settings = tmp_path / "conf"
    settings.mkdir()
    (settings / "spark-defaults.conf").write_text(f"spark.sql.extensions {EXTENSION}\nspark.ui.enabled false\n")
    assert python("-m", "anabranch", "auto", "on", executable=environment.python).returncode == 0
    done = python(
        "--conf",
        f"spark.sql.catalog.spark_catalog={CATALOG}",
        PROGRAMS / "quickstart.py",
        tmp_path,
        executable=Path(pyspark.__file__).parent / "bin" / "spark-submit",
        **{**QUIET, "PYSPARK_PYTHON": str(environment.python), "SPARK_CONF_DIR": str(settings)},
    )
    # spark-submit makes one stream of the two that its program writes.
    warning, *answers = [line for line in done.stdout.splitlines() if ":" in line]
    assert f"spark.sql.extensions={EXTENSION}" in warning
    assert answers == QUICKSTART_SAYS, done.stderr
    assert done.returncode == 3


def test_the_shell_has_a_session(python: Run, tmp_path: Path) -> None:
    typed = (
        f"spark.range(4).write.format('delta').save({str(tmp_path / 'table')!r})\n"
        "from delta.tables import DeltaTable as Theirs\n"
        f"print('rows', Theirs.forPath(spark, {str(tmp_path / 'table')!r}).toDF().count(), Theirs is DeltaTable)\n"
    )
    done = python("-m", "anabranch", "shell", "--plain", "--conf", "spark.ui.enabled=false", typed=typed, **QUIET)
    assert done.returncode == 0, done.stderr
    assert "rows 4 True" in done.stdout
    assert "`spark` is a session that knows Delta" in done.stderr
