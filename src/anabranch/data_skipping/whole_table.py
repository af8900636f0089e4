"""`count(*)`, `min` and `max` of all rows of a table, where its log tells them exactly.

Statistics that spare a file may be off by a little; here they are the answer. So only what every writer notes exactly
is used: numbers of rows, and the bounds of whole numbers and dates while no row is hidden. See "Per-file Statistics"
of PROTOCOL.md for `tightBounds`.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import DateType, IntegralType

from anabranch.data_skipping.column_bounds import ColumnBounds
from anabranch.data_skipping.skipping_columns import SkippingColumns


class NotToldError(Exception):
    """The log does not tell it exactly; the rows do."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Extremes:
    """The least and the greatest value of a column; None where all are NULL."""

    least: int | None
    greatest: int | None


def count_rows(columns: SkippingColumns) -> int:
    """How many rows the files show. Raises `NotToldError` where one of them does not say how many it has."""
    counts = columns.num_records()
    if counts.null_count:
        raise NotToldError
    return int(pc.sum(counts).as_py() or 0) - int(columns.hidden_rows().sum())


def find_extremes(columns: SkippingColumns, physical_name: str) -> Extremes:
    """Of a column of whole numbers or dates, these in days since 1970-01-01.

    Raises `NotToldError`. Values of partition columns stand in the log themselves, but need rows that have them.
    """
    path = (physical_name,)
    counts = columns.num_records()
    if counts.null_count or not columns.is_exact(path):
        raise NotToldError
    bounds = columns.bounds([path])[path]
    if not isinstance(bounds.data_type, IntegralType | DateType):
        raise NotToldError
    has_rows: npt.NDArray[np.bool_] = counts.to_numpy() - columns.hidden_rows() > 0
    return _over(bounds, has_rows & ~bounds.all_null)


def _over(bounds: ColumnBounds, counted: npt.NDArray[np.bool_]) -> Extremes:
    """Over the files that hold a value."""
    mask = pa.array(counted)
    lower, upper = bounds.lower.filter(mask), bounds.upper.filter(mask)
    if lower.null_count or upper.null_count:
        raise NotToldError
    if not len(lower):
        return Extremes(least=None, greatest=None)
    return Extremes(least=pc.min(lower).as_py(), greatest=pc.max(upper).as_py())
