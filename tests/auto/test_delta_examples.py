"""delta-spark's own example programs, unchanged, by `anabranch run`. `make test-examples` fetches them."""

from __future__ import annotations

import fcntl
import importlib.util
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = "ANABRANCH_EXAMPLES"
"""The folder of the programs; `scripts/test_examples.sh` fetches them and sets it."""

pytestmark = [
    pytest.mark.spark,
    pytest.mark.long,
    pytest.mark.skipif(EXAMPLES not in os.environ, reason="needs delta-spark's examples: run `make test-examples`"),
]

SAYS = {
    "quickstart": ["Reading the table", "Upsert new data", "Delete every even value", "|106|", "| 19|"],
    "quickstart_sql": ["Delete every even value", "Read old data using time travel"],
    "quickstart_sql_on_paths": ["Overwrite the table", "Delete every even value"],
    "utilities": ["Generating manifest", "SQL Describe History", "operation='CONVERT'", "operation='VACUUM END'"],
    "table_exists": ["Verifying table exists at"],
    "using_with_pip": ["Read table with DeltaTable", "All import submodules work"],
    "change_data_feed": ["(v5) Merged with a source table", "update_postimage", "Streaming by table name"],
    "streaming": ["DeltaTable after streaming upsert", "After streaming write"],
}
"""What each prints when it gets through, besides returning 0."""
NOT_RUN = {
    "image_storage": "fetches pictures from a server that tests should not lean on",
    "missing_delta_storage_jar": "expects the error of a missing jar, and there is none to miss",
    "delta_connect": "has a test of its own, for it wants a server",
}
QUIET = {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}

Run = Callable[..., Any]


@pytest.fixture(autouse=True)
def alone() -> Iterator[None]:
    """The programs write to places under /tmp that are always the same."""
    with Path(tempfile.gettempdir(), "anabranch-delta-examples.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def program(name: str) -> Path:
    return Path(os.environ[EXAMPLES], f"{name}.py")


def test_every_example_is_listed() -> None:
    """One that is new is either run or left out for a reason."""
    assert {file.stem for file in Path(os.environ[EXAMPLES]).glob("*.py")} == {*SAYS, *NOT_RUN}


@pytest.mark.parametrize("name", SAYS)
def test_an_example_runs_unchanged(anabranch_run: Run, name: str) -> None:
    done = anabranch_run(program(name), **QUIET)
    assert done.returncode == 0, done.stderr[-6000:]
    assert [word for word in SAYS[name] if word not in done.stdout] == [], done.stdout[-6000:]


@pytest.mark.skipif(importlib.util.find_spec("grpc") is None, reason="Spark Connect needs grpc")
def test_the_example_for_connect_runs_unchanged(anabranch_run: Run) -> None:
    done = anabranch_run(program("delta_connect"), SPARK_REMOTE="local[2]", **QUIET)
    assert done.returncode == 0, done.stderr[-6000:]
