"""The numbers of a report, beside those of delta-rs and of the engine's own commands."""

from __future__ import annotations

import datetime
import json
import tarfile
from pathlib import Path

import deltalake
import duckdb
import msgspec
import pyarrow as pa
import pytest

from anabranch.clock import SystemClock
from anabranch.errors.base import DeltaError
from anabranch.snapshot.snapshot_cache import SnapshotCache
from anabranch.storage.local.local_store import LocalStore
from anabranch.table_report.report_file import TableReport
from anabranch.table_report.report_values import Level, ReportData
from cli.tables_in_folders import TableInFolder
from table_report.conftest import Report

CORPUS = Path(__file__).parents[3] / "shared" / "corpus"
DAY_MS = 86_400_000


def now_ms() -> int:
    return SystemClock().now_ms()


@pytest.fixture(scope="module")
def sales(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A partitioned table by delta-rs: appends, a delete that rewrites, a column that was added."""
    path = tmp_path_factory.mktemp("sales") / "t"
    for number in range(12):
        rows = pa.table(
            {
                "id": range(number * 100, number * 100 + 50 + number),
                "day": [datetime.date(2026, 3, 1 + number % 3)] * (50 + number),
                "word": [None if row % 7 == 0 else f"w{row}" for row in range(50 + number)],
            }
        )
        deltalake.write_deltalake(path, rows, mode="append", partition_by=["day"])
    table = deltalake.DeltaTable(path)
    table.delete("id % 100 < 3 AND day = '2026-03-01'")
    table.alter.add_columns([deltalake.Field("note", "string")])
    return path


def live(path: Path) -> duckdb.DuckDBPyRelation:
    actions = pa.table(deltalake.DeltaTable(path).get_add_actions(flatten=True))
    return duckdb.from_arrow(actions)


def test_totals_and_distributions_are_those_of_delta_rs(sales: Path, report: Report) -> None:
    data = report(sales)
    files, size_bytes, rows = live(sales).aggregate("count(*), sum(size_bytes), sum(num_records)").fetchone() or ()
    assert (data.totals.files, data.totals.bytes, data.totals.rows) == (files, size_bytes, rows)
    assert data.totals.rows == deltalake.DeltaTable(sales).to_pyarrow_table().num_rows
    for bins in (data.files.sizes, data.files.ages):
        assert (sum(entry.files for entry in bins), sum(entry.bytes for entry in bins)) == (files, size_bytes)
    assert data.files.sizes[0].files == files
    assert data.files.ages[0].files == files
    assert data.files.hidden_shares == ()


def test_partitions_are_those_of_duckdb(sales: Path, report: Report) -> None:
    partitions = report(sales).files.partitions
    assert partitions is not None
    groups = 'CAST("partition.day" AS VARCHAR) AS day, count(*), sum(size_bytes), sum(num_records)'
    expected = live(sales).aggregate(groups, '"partition.day"').order("3 DESC").fetchall()
    assert [(entry.values["day"], entry.files, entry.bytes, entry.rows) for entry in partitions.largest] == expected
    counts = [count for _, count, _, _ in expected]
    assert (partitions.count, partitions.files_least, partitions.files_most) == (3, min(counts), max(counts))


def test_commits_are_those_of_the_history(sales: Path, report: Report) -> None:
    data = report(sales)
    theirs = deltalake.DeltaTable(sales).history()
    ours = SnapshotCache(LocalStore(str(sales)), SystemClock()).history()
    assert [(c.version, c.operation) for c in data.history.commits] == [(c["version"], c["operation"]) for c in theirs]
    assert [(c.version, c.timestamp_ms) for c in data.history.commits] == [(c.version, c.timestamp_ms) for c in ours]
    assert data.history.commits_in_log == len(theirs)
    for commit, entry in zip(data.history.commits, theirs, strict=True):
        if entry["operation"] == "WRITE":
            assert commit.files.added_rows == int(entry["operationMetrics"]["num_added_rows"])
            assert commit.files.added == int(entry["operationMetrics"]["num_added_files"])
        if entry["operation"] == "DELETE":
            assert commit.files.removed == int(entry["operationMetrics"]["num_removed_files"])
    replayed = sum(c.files.added_bytes - (c.files.removed_bytes or 0) for c in data.history.commits)
    assert replayed == data.totals.bytes


def test_schema_in_time(sales: Path, report: Report) -> None:
    schema = report(sales).schema
    assert [column.name for column in schema.columns] == ["id", "day", "word", "note"]
    newest, first = schema.changes
    assert newest.changes == ("schema: note is new (string)",)
    assert first.version == 0
    assert "schema: 3 columns: id bigint, day date, word string" in first.changes


def test_fewer_commits_are_read_on_request(sales: Path, report: Report) -> None:
    data = report(sales, limit=3)
    assert [commit.version for commit in data.history.commits] == [13, 12, 11]
    assert data.history.commits_in_log == 14
    assert data.totals == report(sales).totals


def test_optimize_gains_what_delta_rs_compacts(sales: Path, report: Report, tmp_path: Path) -> None:
    gain = report(sales).maintenance.optimize
    metrics = deltalake.DeltaTable(sales).optimize.compact()
    after = report(sales)
    deltalake.DeltaTable(sales).restore(13)
    assert (gain.files_rewritten, gain.files_written) == (metrics["numFilesRemoved"], metrics["numFilesAdded"])
    assert after.maintenance.optimize.files_rewritten == 0


def test_vacuum_gains_what_delta_rs_deletes(tmp_path: Path, report: Report) -> None:
    path = tmp_path / "t"
    for _ in range(3):
        deltalake.write_deltalake(path, pa.table({"a": [1, 2]}), mode="overwrite")
    soon = report(path).maintenance.vacuum
    assert (soon.files, soon.files_later, soon.retention_ms) == (0, 2, 7 * DAY_MS)
    later = report(path, now_ms=now_ms() + 8 * DAY_MS).maintenance.vacuum
    table = deltalake.DeltaTable(path)
    names = table.vacuum(retention_hours=0, dry_run=True, enforce_retention_duration=False)
    assert (later.files, later.files_later) == (len(names), 0)
    assert later.bytes == soon.bytes_later == sum((path / name).stat().st_size for name in names)
    table.vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)
    gone = report(path, now_ms=now_ms() + 8 * DAY_MS).maintenance.vacuum
    assert (gone.files, gone.files_later) == (0, 0)
    assert gone.last_vacuum_ms is not None


def test_a_file_that_was_restored_is_not_for_vacuum(tmp_path: Path, report: Report) -> None:
    path = tmp_path / "t"
    for _ in range(2):
        deltalake.write_deltalake(path, pa.table({"a": [1, 2]}), mode="overwrite")
    deltalake.DeltaTable(path).restore(0)
    gain = report(path, now_ms=now_ms() + 8 * DAY_MS).maintenance.vacuum
    assert gain.files == 1


def test_hidden_rows(table: TableInFolder, report: Report) -> None:
    data = report(table.path)
    assert (data.totals.rows, data.totals.hidden_rows, data.totals.files_with_hidden_rows) == (18, 2, 1)
    assert [entry.label for entry in data.files.hidden_shares if entry.files] == ["none", "20 to 50 %"]
    assert data.maintenance.purge.hidden_rows == 2
    assert data.maintenance.purge.files_rewritten == 1
    size_bytes = (table.path / "b.parquet").stat().st_size
    assert data.maintenance.purge.bytes_freed == size_bytes * 2 // 10
    delete = data.history.commits[0]
    assert (delete.files.rows_hidden, delete.files.with_new_vector, delete.files.removed) == (2, 1, 0)
    # The file was removed and added again with a vector: it is live, and VACUUM keeps it.
    assert data.maintenance.vacuum.files == 0


def test_a_table_without_files(tmp_path: Path, report: Report) -> None:
    data = report(TableInFolder.empty(tmp_path / "t").path)
    assert (data.totals.files, data.totals.rows) == (0, 0)
    assert all(column.average_files is None for column in data.layout.columns)
    assert data.maintenance.optimize.files_rewritten == 0
    assert data.advice == ()


def test_the_log(table: TableInFolder, report: Report) -> None:
    for version in range(4, 130):
        table.commit_file(version).write_text('{"commitInfo":{"operation":"WRITE"}}')
    (overdue,) = [advice for advice in report(table.path).advice if advice.level is Level.WARNING]
    assert "Checkpoint" in overdue.text
    checkpoint = table.checkpoint()
    checksum = table.checksum()
    data = report(table.path)
    version = data.table.version
    assert (data.log.checkpoint_version, data.log.commits_since_checkpoint) == (version, 0)
    assert data.log.checkpoint_ms == pytest.approx(checkpoint.stat().st_mtime * 1000, abs=1)
    assert data.log.checksum == "agrees"
    assert data.log.log_bytes == sum(f.stat().st_size for f in (table.path / "_delta_log").rglob("*") if f.is_file())
    fields = json.loads(checksum.read_text())
    checksum.write_text(json.dumps({**fields, "numFiles": 1}))
    assert report(table.path).log.checksum == "differs"
    checksum.unlink()
    assert report(table.path).log.checksum == "missing"


def test_the_document_is_json(sales: Path, report: Report) -> None:
    data = report(sales)
    document = TableReport(data).document()
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    assert document["totals"]["hiddenRows"] == 0
    assert document["history"]["commits"][-1]["files"]["addedRows"] == 50


def test_column_mapping_shows_logical_names(tmp_path: Path, report: Report) -> None:
    """Statistics and partition values are by physical name."""
    made = TableInFolder.empty(tmp_path / "t")
    current = made.table.snapshots.latest()
    fields = [
        {
            "name": name,
            "type": kind,
            "nullable": True,
            "metadata": {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": f"col-{number}"},
        }
        for number, (name, kind) in enumerate([("Größe in cm", "long"), ("city", "string")], start=1)
    ]
    metadata = msgspec.structs.replace(
        current.metadata,
        schema_string=json.dumps({"type": "struct", "fields": fields}),
        partition_columns=["city"],
        configuration={"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "2"},
    )
    features = [*(current.protocol.reader_features or ()), "columnMapping"]
    protocol = msgspec.structs.replace(current.protocol, reader_features=features, writer_features=features)
    adds = [
        msgspec.structs.replace(
            made.file(f"{number}.parquet", range(1)),
            partition_values={"col-2": "Oslo" if number else "Nürnberg"},
            stats=json.dumps(
                {
                    "numRecords": 1,
                    "minValues": {"col-1": number},
                    "maxValues": {"col-1": number},
                    "nullCount": {"col-1": 0},
                }
            ),
        )
        for number in range(4)
    ]
    actions = [protocol, metadata, *adds]
    log_file = made.log_file(f"{1:020d}.json")
    names = {type(protocol): "protocol", type(metadata): "metaData", type(adds[0]): "add"}
    log_file.write_text("\n".join(json.dumps({names[type(a)]: msgspec.to_builtins(a)}) for a in actions))
    data = report(made.path)
    size, city = data.layout.columns
    assert (size.name, size.average_files) == ("`Größe in cm`", 1)
    assert (city.name, city.average_files) == ("city", 2.5)
    assert data.files.partitions is not None
    assert [entry.values for entry in data.files.partitions.largest] == [{"city": "Oslo"}, {"city": "Nürnberg"}]


def corpus_tables() -> list[str]:
    path = CORPUS / "golden.tar.gz"
    if not path.is_file():
        return []
    with tarfile.open(path) as archive:
        return sorted({name.split("/")[1] for name in archive.getnames() if "/delta/_delta_log" in name})


@pytest.fixture(scope="module")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("golden")
    with tarfile.open(CORPUS / "golden.tar.gz") as archive:
        archive.extractall(folder, filter="data")
    return folder / "golden"


@pytest.mark.parametrize("name", corpus_tables())
def test_tables_of_other_engines(golden: Path, report: Report, name: str) -> None:
    """A report is made of each table that opens, with the files that delta-rs has."""
    path = golden / name / "delta"
    try:
        SnapshotCache(LocalStore(str(path)), SystemClock()).latest()
    except DeltaError:
        pytest.skip("it is refused, as the tests of snapshots say")
    data: ReportData = report(path)
    try:
        theirs = deltalake.DeltaTable(path)
    except Exception:
        pytest.skip("delta-rs does not open it")
    assert data.totals.files == len(theirs.file_uris())
    assert data.table.version == theirs.version()
    assert data.maintenance.optimize.files_rewritten <= data.totals.files
    for column in data.layout.columns:
        assert column.files_with_bounds + column.files_without_bounds + column.files_only_null == data.totals.files
