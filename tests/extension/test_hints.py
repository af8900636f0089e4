"""Mistakes of the first hour, with the way out in the message."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import anabranch
from anabranch.errors.arguments import InvalidArgumentError
from anabranch.errors.tables import NotADeltaTableError
from anabranch.tables import DeltaTable
from session_kinds import classic

pytestmark = pytest.mark.spark


@classic
def test_a_name_a_path_or_other_files_for_a_table(delta: SparkSession, path: str, name: str) -> None:
    """Covers bug B98: the other call is named, or CONVERT."""
    delta.range(1).write.format("delta").save(path)
    delta.range(1).write.parquet(f"{path}-parquet")
    delta.sql(f"CREATE TABLE {name} (id INT) USING delta")
    convert = f"CONVERT TO DELTA parquet.`{path}-parquet`"
    calls: list[tuple[Callable[[], Any], str]] = [
        (lambda: DeltaTable.forPath(delta, name), "use DeltaTable.forName"),
        (lambda: DeltaTable.forPath(delta, f"default.{name}"), "use DeltaTable.forName"),
        (lambda: DeltaTable.forName(delta, path), f"use DeltaTable.forPath, or delta.`{path}`"),
        (lambda: DeltaTable.forPath(delta, f"{path}-parquet"), convert),
        (lambda: delta.read.format("delta").load(f"{path}-parquet").collect(), convert),
        (lambda: delta.sql(f"SELECT * FROM delta.`{path}-parquet`").collect(), convert),
        (lambda: delta.sql(f"DELETE FROM delta.`{path}-parquet`"), convert),
        (lambda: delta.sql(f"OPTIMIZE delta.`{path}-parquet`"), convert),
    ]
    texts = []
    for call, _ in calls:
        with pytest.raises(NotADeltaTableError) as raised:
            call()
        texts.append(str(raised.value))
    assert [text for text, (_, hint) in zip(texts, calls, strict=True) if hint not in text] == []


def test_what_is_no_session() -> None:
    """Covers bug B93."""
    with pytest.raises(InvalidArgumentError, match=r"must be a SparkSession; anabranch\.session\(\)"):
        anabranch.enable(None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "program",
    [
        "-c 'import anabranch; anabranch.session()'",
        "-m anabranch run -c 'from pyspark.sql import SparkSession; SparkSession.builder.getOrCreate()'",
        "-m anabranch serve --warehouse warehouse",
    ],
)
def test_without_java(tmp_path: Path, program: str) -> None:
    """Covers bug B93: which Java is missing, and how to get it."""
    nothing = {key: value for key, value in os.environ.items() if key not in {"JAVA_HOME", "PYSPARK_GATEWAY_PORT"}}
    ended = subprocess.run(
        f"{sys.executable} {program}",
        shell=True,
        env={**nothing, "PATH": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    said = ended.stdout + ended.stderr
    assert ended.returncode != 0
    assert "Spark needs Java 17 or newer, and no java was found" in " ".join(said.split())
    assert "should not have happened" not in said
    assert "JAVA_GATEWAY_EXITED" not in said
