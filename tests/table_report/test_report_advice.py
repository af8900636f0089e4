"""What a report advises, by the numbers."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from anabranch.table_report.advice import advice_for
from anabranch.table_report.report_values import Advice, ColumnLayout, ColumnRole, ReportData
from cli.tables_in_folders import TableInFolder
from table_report.conftest import Report


@pytest.fixture
def data(table: TableInFolder, report: Report) -> ReportData:
    """The report on a small table, about which there is nothing to do."""
    return report(table.path)


def changed(value: Any, **fields: Any) -> Any:
    return msgspec.structs.replace(value, **fields)


def advice_on(data: ReportData) -> tuple[Advice, ...]:
    return advice_for(data.table, data.totals, data.files, data.maintenance, data.layout, data.log)


def test_a_small_table_needs_nothing(data: ReportData) -> None:
    assert advice_on(data) == data.advice == ()


def test_many_small_files(data: ReportData) -> None:
    optimize = changed(data.maintenance.optimize, files_rewritten=1000, files_written=4, bytes_rewritten=2_000_000_000)
    (advice,) = advice_on(changed(data, maintenance=changed(data.maintenance, optimize=optimize)))
    assert advice.text == "OPTIMIZE compacts 1,000 files (2.0 GB) into about 4."
    assert advice.command == f"OPTIMIZE delta.`{data.table.location}`"


def test_a_table_with_a_name_is_called_by_it(data: ReportData) -> None:
    vacuum = changed(data.maintenance.vacuum, files=3, bytes=5_000)
    named = changed(data, table=changed(data.table, name="sales"), maintenance=changed(data.maintenance, vacuum=vacuum))
    (advice,) = advice_on(named)
    assert advice.command == "VACUUM sales"
    (advice,) = advice_on(changed(named, table=changed(data.table, name="a`; DROP TABLE t; --")))
    assert advice.command == f"VACUUM delta.`{data.table.location}`"


def test_deleted_rows(data: ReportData) -> None:
    purge = changed(data.maintenance.purge, bytes_freed=3_000_000)
    (advice,) = advice_on(changed(data, maintenance=changed(data.maintenance, purge=purge)))
    assert "2 deleted rows are still in 1 file; rewriting it frees about 3.0 MB." in advice.text
    assert "APPLY (PURGE)" in (advice.command or "")


def test_files_without_statistics(data: ReportData) -> None:
    (advice,) = advice_on(changed(data, totals=changed(data.totals, files=10, files_without_row_count=5)))
    assert advice.text == "5 of 10 files have no statistics, so queries cannot skip them."


def test_clustering_that_does_not_separate(data: ReportData) -> None:
    column = ColumnLayout(
        name="id",
        type="bigint",
        role=ColumnRole.CLUSTERING,
        files_with_bounds=20,
        files_only_null=0,
        files_without_bounds=0,
        average_files=18,
        fraction=0.9,
    )
    layout = changed(data.layout, columns=(column,))
    (advice,) = advice_on(changed(data, totals=changed(data.totals, files=20), layout=layout))
    assert "clustered by id" in advice.text
    assert "90%" in advice.text
