"""`count(*)`, `min` and `max` of all rows of a table, where its log has them exactly.

Statistics may be imprecise and still let a file be skipped; here they are the result. So only those that every writer
records exactly are used: numbers of rows, and the bounds of whole numbers and dates while no row is hidden. See
"Per-file Statistics" of PROTOCOL.md for `tightBounds`.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import DateType, IntegralType

from anabranch.data_skipping.column_bounds import ColumnBounds
from anabranch.data_skipping.file_skipping import SkippingColumns


class InexactStatisticsError(Exception):
    """The log does not have the value exactly, so that the rows must be read."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Extremes:
    """The least and the greatest value of a column; None where all are NULL."""

    least: int | None
    greatest: int | None


def count_rows(columns: SkippingColumns) -> int:
    """The number of rows that are not hidden. Raises `InexactStatisticsError` where a file lacks its number of rows."""
    counts = columns.num_records()
    if counts.null_count:
        raise InexactStatisticsError
    return int(pc.sum(counts).as_py() or 0) - int(columns.hidden_rows().sum())


def find_extremes(columns: SkippingColumns, physical_name: str) -> Extremes:
    """The extremes of a column of whole numbers or dates, these in days since 1970-01-01.

    Raises `InexactStatisticsError`. Values of partition columns are exact, but only those of files with rows count.
    """
    path = (physical_name,)
    counts = columns.num_records()
    if counts.null_count or not columns.is_exact(path):
        raise InexactStatisticsError
    bounds = columns.bounds([path])[path]
    if not isinstance(bounds.data_type, IntegralType | DateType):
        raise InexactStatisticsError
    has_rows: npt.NDArray[np.bool_] = counts.to_numpy() - columns.hidden_rows() > 0
    return _extremes_of(bounds, has_rows & ~bounds.all_null)


def _extremes_of(bounds: ColumnBounds, counted: npt.NDArray[np.bool_]) -> Extremes:
    """The extremes over the files that hold a value."""
    mask = pa.array(counted)
    lower, upper = bounds.lower.filter(mask), bounds.upper.filter(mask)
    if lower.null_count or upper.null_count:
        raise InexactStatisticsError
    if not len(lower):
        return Extremes(least=None, greatest=None)
    return Extremes(least=pc.min(lower).as_py(), greatest=pc.max(upper).as_py())
