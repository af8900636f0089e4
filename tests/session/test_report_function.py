"""`anabranch.report(spark, table)`: by name and by path, for sessions in this process."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import anabranch
from anabranch.errors.tables import NotADeltaTableError
from anabranch.progress.progress_events import Progress

pytestmark = pytest.mark.spark


def test_tables_by_path_and_by_name(native: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    native.sql(f"CREATE TABLE reported (id LONG, word STRING) USING delta LOCATION '{path}'")
    try:
        native.sql("INSERT INTO reported SELECT id, 'w' FROM range(100)")
        native.sql("DELETE FROM reported WHERE id < 10")
        reports = [anabranch.report(native, table) for table in ("reported", path, f"delta.`{path}`")]
        named, by_path, quoted = (report.document() for report in reports)
        assert named["table"]["name"].endswith("reported")
        assert by_path["table"]["name"] is None
        assert quoted["totals"] == named["totals"] == by_path["totals"]
        assert named["totals"]["rows"] == 90
        operations = [commit["operation"] for commit in named["history"]["commits"]]
        assert operations == [row.operation for row in native.sql("DESCRIBE HISTORY reported").collect()]
        file = reports[0].save(tmp_path / "page.html")
        assert "reported</h1>" in file.read_text(encoding="utf-8")
    finally:
        native.sql("DROP TABLE reported")


def test_progress_is_shown(native: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    native.range(10).write.format("delta").save(path)
    events: list[Progress] = []
    with anabranch.on_progress(events.append):
        anabranch.report(native, path)
    assert list(dict.fromkeys(event.phase for event in events)) == ["read the log", "read commits", "measure files"]
    assert {(event.operation, event.table) for event in events} == {("report", f"delta.`{path}`")}
    assert events[-1].ended


def test_gains_are_those_of_the_commands(native: SparkSession, tmp_path: Path) -> None:
    """What the report says OPTIMIZE would rewrite, OPTIMIZE rewrites, for partitioned and for clustered tables."""
    for clause in ("PARTITIONED BY (part)", "CLUSTER BY (id)"):
        path = str(tmp_path / clause.split()[0].lower())
        native.sql(f"CREATE TABLE delta.`{path}` (id LONG, part INT) USING delta {clause}")
        for _ in range(4):
            native.sql(f"INSERT INTO delta.`{path}` SELECT id, CAST(id % 3 AS INT) FROM range(0, 300, 1, 2)")
        gain = anabranch.report(native, path).data.maintenance.optimize
        metrics = native.sql(f"OPTIMIZE delta.`{path}`").first().metrics
        assert (gain.files_rewritten, gain.files_written) == (metrics.numFilesRemoved, metrics.numFilesAdded)
        assert anabranch.report(native, path).data.maintenance.optimize.files_rewritten == 0


def test_what_is_no_table(native: SparkSession, tmp_path: Path) -> None:
    for table in (str(tmp_path), "no_such_table"):
        with pytest.raises(NotADeltaTableError):
            anabranch.report(native, table)
