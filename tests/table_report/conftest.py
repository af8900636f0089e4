"""Reports on tables on disk, without Spark."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest

from anabranch.clock import SystemClock
from anabranch.snapshot.snapshot_cache import SnapshotCache
from anabranch.storage.local.local_store import LocalStore
from anabranch.table_report.report_of_table import report_on
from anabranch.table_report.report_values import ReportData
from cli.tables_in_folders import TableInFolder

Report = Callable[..., ReportData]


@dataclasses.dataclass
class ClockAt:
    """A clock that is always at one time."""

    at_ms: int

    def now_ms(self) -> int:
        return self.at_ms

    def elapsed_ms(self) -> int:
        return 0

    def sleep_ms(self, duration_ms: float) -> None:
        raise AssertionError("a report waits for nothing")


@pytest.fixture
def report() -> Report:
    """Makes the report on a table in a folder, now or at another time."""

    def make(path: Path, *, now_ms: int | None = None, limit: int | None = None) -> ReportData:
        clock = SystemClock() if now_ms is None else ClockAt(now_ms)
        return report_on(SnapshotCache(LocalStore(str(path)), clock), clock, limit=limit)

    return make


@pytest.fixture
def table(tmp_path: Path) -> TableInFolder:
    """A table that anabranch wrote: rows 0 to 9 and 10 to 19 in two files, two rows of the second hidden."""
    return TableInFolder.with_hidden_rows(tmp_path / "table")
