"""How many files a lookup reads, compared with a count file by file."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import deltalake
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.table_report.column_layout import POINTS, average_files
from anabranch.table_report.report_values import ColumnRole
from table_report.conftest import Report

ranges = st.lists(st.tuples(st.integers(-50, 50), st.integers(0, 30)), min_size=1, max_size=30)


@given(ranges)
def test_average_is_that_of_a_count_by_hand(pairs: list[tuple[int, int]]) -> None:
    lower = np.array([start for start, _ in pairs], dtype=np.float64)
    upper = np.array([start + width for start, width in pairs], dtype=np.float64)
    counts = []
    for low, high in zip(lower, upper, strict=True):
        for share in POINTS:
            value = min(max((1 - share) * low + share * high, low), high)
            counts.append(sum(one <= value <= other for one, other in zip(lower, upper, strict=True)))
    assert average_files(lower, upper) == pytest.approx(np.mean(counts))


def test_disjoint_files_are_read_alone_and_equal_files_together() -> None:
    starts = np.arange(0.0, 1000.0, 10)
    assert average_files(starts, starts + 9) == 1
    assert average_files(np.zeros(100), np.full(100, 9.0)) == 100


def test_the_largest_doubles_have_a_range() -> None:
    assert average_files(np.array([-1.7e308, 0.0]), np.array([1.7e308, 0.0])) == pytest.approx(1.6)


def test_columns_of_a_table(tmp_path: Path, report: Report) -> None:
    """Ascending ids and texts are apart; a column of the same values in all files is read as a whole."""
    for number in range(8):
        rows = pa.table(
            {
                "id": range(number * 10, number * 10 + 10),
                "word": [f"word-{number:04d}-{row}" for row in range(10)],
                "same": [0, 1] * 5,
                "empty": pa.nulls(10, pa.string()),
                "part": [number % 2] * 10,
                "nested": [{"deep": number}] * 10,
                "listed": [[number]] * 10,
            }
        )
        deltalake.write_deltalake(tmp_path / "t", rows, mode="append", partition_by=["part"])
    layout = report(tmp_path / "t").layout
    columns = {column.name: column for column in layout.columns}
    assert {name: column.average_files for name, column in columns.items()} == {
        "id": 1,
        "word": 1,
        "same": 8,
        "empty": None,
        "part": 4,
        "nested.deep": 1,
    }
    assert columns["empty"].files_only_null == 8
    assert columns["part"].role is ColumnRole.PARTITION
    assert columns["same"].fraction == 1
    assert layout.columns_left_out == 0


@pytest.mark.parametrize(
    "values", [[b"\x00", b"\xff"], [True, False], [Decimal("1.5"), Decimal("2.25")], [1.5, float("nan")], ["", "a"]]
)
def test_partition_columns_of_any_type(tmp_path: Path, report: Report, values: list[object]) -> None:
    rows = pa.table({"part": values, "id": [1, 2]})
    deltalake.write_deltalake(tmp_path / "t", rows, partition_by=["part"])
    data = report(tmp_path / "t")
    part, _ = data.layout.columns
    assert part.files_with_bounds + part.files_without_bounds + part.files_only_null == 2
    assert part.average_files in {1, 2}
    assert data.files.partitions is not None
    assert data.files.partitions.count == 2


def test_files_without_statistics_are_always_read(tmp_path: Path, report: Report) -> None:
    properties = {"delta.dataSkippingStatsColumns": "a"}
    for number in range(3):
        rows = pa.table({"a": [number], "b": [number]})
        deltalake.write_deltalake(tmp_path / "t", rows, mode="append", configuration=None if number else properties)
    columns = {column.name: column for column in report(tmp_path / "t").layout.columns}
    assert (columns["a"].average_files, columns["a"].files_with_bounds) == (1, 3)
    assert (columns["b"].average_files, columns["b"].files_without_bounds) == (None, 3)


@pytest.mark.parametrize("words", [["a", "ab", "abc"], ["", "x", "y"], ["zebra", "ä", "日本"], ["a" * 40, "b" * 40]])
def test_texts_are_ordered_by_their_bytes(tmp_path: Path, report: Report, words: list[str]) -> None:
    for word in words:
        deltalake.write_deltalake(tmp_path / "t", pa.table({"word": [word]}), mode="append")
    (column,) = report(tmp_path / "t").layout.columns
    assert column.average_files == 1
