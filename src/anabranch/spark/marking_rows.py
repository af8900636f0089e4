"""Which rows of which files a query finds, as bitmaps: positions never travel one by one.

Spark's own aggregates build them, 4 KB for each stretch of 32,768 rows in which there is one, so executors need no
Python and the driver receives little, however many rows are meant.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap64
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from anabranch.spark.engine import FILE_ID_COLUMN, ROW_INDEX_COLUMN

_BUCKET = "__anabranch_bucket"
_BITS = "__anabranch_bits"
_COUNT = "__anabranch_count"
_BUCKET_ROWS = 32_768


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Marks:
    """Rows of one file that a query gave, in one of its groups."""

    file_id: int | None
    """Row of the file in the request's table of files; None for rows that stand in no file yet."""
    group: tuple[Any, ...]
    """Values of the columns that the rows were grouped by."""
    positions: BitMap64
    count: int
    """Rows given, the same row as often as it came."""


def mark_rows(frame: DataFrame, *, group_by: Sequence[str] = ()) -> list[Marks]:
    """Run the frame, which has the position columns of `ScanRequest`, and say which rows it gave."""
    # The aggregates count positions from one.
    position = F.col(ROW_INDEX_COLUMN) + 1
    marked = (
        frame.groupBy(FILE_ID_COLUMN, *group_by, F.bitmap_bucket_number(position).alias(_BUCKET))
        .agg(F.bitmap_construct_agg(F.bitmap_bit_position(position)).alias(_BITS), F.count(F.lit(1)).alias(_COUNT))
        .toArrow()
    )
    return _gathered(marked, group_by)


def marked_positions(frame: DataFrame) -> dict[int, BitMap64]:
    """The rows that the frame gives, by file; files of which it gives none are left out."""
    return {marks.file_id: marks.positions for marks in mark_rows(frame) if marks.file_id is not None}


def _gathered(marked: pa.Table, group_by: Sequence[str]) -> list[Marks]:
    keys = zip(*(marked[name].to_pylist() for name in (FILE_ID_COLUMN, *group_by)), strict=True)
    buckets, bits, counts = (marked[name].to_pylist() for name in (_BUCKET, _BITS, _COUNT))
    found: dict[tuple[Any, ...], list[int]] = {}
    for row, key in enumerate(keys):
        found.setdefault(key, []).append(row)
    return [
        Marks(
            file_id=file_id,
            group=tuple(group),
            positions=_united([(buckets[row], bits[row]) for row in rows if buckets[row] is not None]),
            count=sum(counts[row] for row in rows),
        )
        for (file_id, *group), rows in found.items()
    ]


def _united(parts: Sequence[tuple[int, bytes]]) -> BitMap64:
    if not parts:
        return BitMap64()
    return BitMap64(np.concatenate([_positions(bucket, bits) for bucket, bits in sorted(parts)]))


def _positions(bucket: int, bits: bytes) -> npt.NDArray[np.uint64]:
    """Bit i & 7 of byte i >> 3 stands for row i of the bucket; buckets count from one."""
    marked = np.flatnonzero(np.unpackbits(np.frombuffer(bits, np.uint8), bitorder="little"))
    return marked.astype(np.uint64) + np.uint64((bucket - 1) * _BUCKET_ROWS)
