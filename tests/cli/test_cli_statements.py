"""`sql`, `optimize`, `vacuum` and `restore`, and the completion of names in shells."""

from __future__ import annotations

import logging
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import ArithmeticException
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

Run = Callable[..., Any]


@pytest.fixture
def people(delta: SparkSession, tmp_path: Path) -> Path:
    """Two versions: Ada; then Ada and Grace in two files."""
    path = tmp_path / "people"
    for row in ((1, "Ada"), (2, "Grace")):
        frame = delta.createDataFrame([row], "id long, name string").coalesce(1)
        frame.write.format("delta").mode("append").save(str(path))
    return path


@pytest.mark.spark
def test_sql_shows_the_rows_of_a_query(run: Run, people: Path) -> None:
    query = f"SELECT id, name, DATE'2026-03-01' AS day FROM delta.`{people}` ORDER BY id"
    document = run("sql", query, "--json").document
    assert document["rows"] == [
        {"id": 1, "name": "Ada", "day": "2026-03-01"},
        {"id": 2, "name": "Grace", "day": "2026-03-01"},
    ]
    assert [column["type"] for column in document["columns"]] == ["bigint", "string", "date"]
    limited = run("sql", query, "--limit", 1)
    assert "Ada" in limited.out
    assert "Grace" not in limited.out
    assert "The first 1 row; --limit shows more." in limited.out


@pytest.mark.spark
def test_sql_executes_a_statement_that_writes_once(run: Run, people: Path) -> None:
    assert run("sql", f"INSERT INTO delta.`{people}` VALUES (3, 'Edsger')").exit_code == 0
    assert run("sql", f"DELETE FROM delta.`{people}` WHERE id = 1", "--json").document["rows"] == [
        {"num_affected_rows": 1}
    ]
    assert [row["id"] for row in run("show", people, "--json").document["rows"]] == [2, 3]


@pytest.mark.spark
@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("SELECT * FRM t", "[PARSE_SYNTAX_ERROR]"),
        ("SELECT * FROM no_such_table", "[TABLE_OR_VIEW_NOT_FOUND]"),
        ("SELECT 1 / 0", "[DIVIDE_BY_ZERO]"),
    ],
)
def test_spark_s_errors_are_messages(run: Run, delta: SparkSession, statement: str, message: str) -> None:
    outcome = run("sql", statement)
    assert outcome.exit_code == 1
    assert outcome.err.startswith(message)
    for noise in ("should not have happened", "JVM stacktrace", "Project [", "\tat "):
        assert noise not in outcome.err


@pytest.mark.spark
def test_only_the_command_s_own_errors_are_kept_from_pyspark_s_log(run: Run, delta: SparkSession) -> None:
    lines: list[logging.LogRecord] = []
    logger = PySparkLogger.getLogger("SQLQueryContextLogger")

    def keep(record: logging.LogRecord) -> bool:
        lines.append(record)
        return True

    logger.addFilter(keep)
    try:
        assert run("sql", "SELECT 1 / 0").exit_code == 1
        assert lines == []
        with pytest.raises(ArithmeticException):
            delta.sql("SELECT 1 / 0").collect()
    finally:
        logger.removeFilter(keep)
    assert len(lines) == 1


@pytest.mark.spark
def test_a_relative_path_in_a_statement_is_named(
    run: Run, people: Path, monkeypatch: pytest.MonkeyPatch, delta: SparkSession
) -> None:
    monkeypatch.chdir(people.parent)
    outcome = run("sql", "SELECT * FROM delta.`people`")
    assert outcome.exit_code == 1
    # The line is broken at spaces and inside of a long path.
    assert f"thewholepathofafolderisneeded:delta.`{people}`" in re.sub(r"\s", "", outcome.err)


@pytest.mark.spark
def test_optimize_then_restore(run: Run, people: Path) -> None:
    optimized = run("optimize", people, "--json").document
    assert optimized["version"] == 2
    assert (optimized["metrics"]["numFilesAdded"], optimized["metrics"]["numFilesRemoved"]) == (1, 2)
    restored = run("restore", people, "--version", 0, "--json").document
    assert restored["version"] == 3
    assert restored["metrics"]["num_restored_files"] == 1
    assert [row["name"] for row in run("show", people, "--json").document["rows"]] == ["Ada"]
    assert "numFilesRemoved" in run("optimize", people, "--full").out + run("optimize", people, "--zorder", "id").out


@pytest.mark.spark
def test_optimize_orders_rows_by_columns(run: Run, people: Path) -> None:
    document = run("optimize", people, "--zorder", "id, name", "--json").document
    assert document["metrics"]["zOrderStats"]["numOutputCubes"] == 1
    refused = run("optimize", people, "--zorder", "no_such_column")
    assert refused.exit_code == 1
    assert "no_such_column" in refused.err


@pytest.mark.spark
def test_vacuum_lists_then_deletes_when_it_is_confirmed(
    run: Run, people: Path, delta: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("optimize", people)
    old = [file for file in people.glob("*.parquet") if os.utime(file, (0, 0)) is None]
    delta.sql(
        f"ALTER TABLE delta.`{people}` SET TBLPROPERTIES ('delta.deletedFileRetentionDuration' = 'interval 0 hours')"
    )
    planned = run("vacuum", people, "--dry-run", "--json").document
    assert (planned["files"], planned["dryRun"], len(planned["paths"])) == (2, True, 2)
    assert "2 files would be deleted" in run("vacuum", people, "--dry-run").out
    assert all(file.exists() for file in old)
    deleted = run("vacuum", people, "--yes", "--json").document
    assert (deleted["files"], deleted["dryRun"]) == (2, False)
    assert sum(file.exists() for file in old) == 1


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["vacuum", "t"], "--yes"),
        (["restore", "t"], "--timestamp"),
        (["restore", "t", "--version", "1", "--timestamp", "2026-03-01"], "--timestamp"),
    ],
)
def test_what_a_command_lacks_is_said(run: Run, arguments: list[str], problem: str) -> None:
    outcome = run(*arguments)
    assert outcome.exit_code == 2
    assert problem in outcome.err


@pytest.mark.parametrize("command", [["optimize"], ["vacuum", "--dry-run"], ["restore", "--version", "0"]])
def test_a_wrong_path_is_reported_before_java_is_needed(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    outcome = run(command[0], tmp_path / "absent", *command[1:])
    assert outcome.exit_code == 1
    assert "is not a Delta table" in outcome.err


@pytest.mark.parametrize(("shell", "words"), [("bash", "COMP_WORDS"), ("zsh", "_TYPER_COMPLETE_ARGS")])
def test_shells_complete_names_of_commands(shell: str, words: str, tmp_path: Path) -> None:
    environment = {**os.environ, "_ANABRANCH_COMPLETE": f"complete_{shell}", words: "anabranch res", "COMP_CWORD": "1"}
    program = "import sys; sys.argv[0] = 'anabranch'; from anabranch.cli.main import run; run()"
    ended = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert "restore" in ended.stdout
    assert "history" not in ended.stdout
