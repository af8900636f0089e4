"""The work on a table with many files is done by columns: the number of Python calls does not grow with the files."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

import pytest

from anabranch.table_report.report_page import page_of
from table_report.conftest import Report

OPEN_TABLE = Path(__file__).parents[2] / "benchmarks" / "open_table.py"
CALLS_MAX = 20_000


@pytest.fixture(scope="module")
def open_table() -> ModuleType:
    """The benchmark that makes logs of many files."""
    spec = importlib.util.spec_from_file_location("open_table", OPEN_TABLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def calls_of(work: Any) -> int:
    """The number of Python functions that `work` calls in this thread."""
    calls = 0

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(before)
    return calls


def test_calls_do_not_grow_with_the_files(tmp_path: Path, open_table: ModuleType, report: Report) -> None:
    counts = {}
    for files in (1_000, 100_000):
        path = tmp_path / str(files)
        open_table.make_log(path, files=files, commits=5)
        report(path)  # what is imported and compiled at first use
        counts[files] = calls_of(lambda path=path: report(path))
    # OPTIMIZE's own plan makes an object for each file that it writes, and has more of these.
    bins = report(tmp_path / "100000").maintenance.optimize.files_written
    assert counts[100_000] - counts[1_000] < CALLS_MAX + 4 * bins
    data = report(tmp_path / "100000")
    assert data.totals.files == 100_005
    assert len(page_of(data)) < 400_000
