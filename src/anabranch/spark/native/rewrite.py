"""Rewriting files in a known order by Spark's own reader and writer: one task, without a shuffle or a sort.

Spark puts files into one task, longest first and otherwise as they are listed, if no limit stops it; a task reads one
file after the other, front to back, and writes rows as they come. That this is so is checked on every row.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from anabranch.errors.optimize import RowOrderError
from anabranch.spark.engine import FILE_ID_COLUMN, RewriteRequest, RewrittenFile
from anabranch.spark.native.jvm_values import JvmValues
from anabranch.spark.native.scan import NativeScan, row_index
from anabranch.spark.native.write import NativeWrite
from anabranch.spark.rewriting import checked, first_rows, stored_columns, write_request
from anabranch.spark.row_checks import refuse_when, typed_violations
from anabranch.spark.row_tracking import stable
from anabranch.spark.void_columns import quoted_name

_ONE_TASK = {
    "spark.sql.files.minPartitionNum": "1",
    "spark.sql.files.maxPartitionBytes": str(2**62),
}


class NativeRewrite:
    """Rewrites of one session."""

    def __init__(self, values: JvmValues, scan: NativeScan, write: NativeWrite) -> None:
        self._values = values
        self._scan = scan
        self._write = write

    def file(self, request: RewriteRequest) -> RewrittenFile:
        """See `Engine.rewrite`."""
        order = _order_of_reading(request)
        everything = np.ones(len(order), dtype=np.bool_)
        scan = dataclasses.replace(
            request.scan,
            with_positions=True,
            # Rows that somebody has cached come in another order.
            tracked=True,
            prune=lambda _: everything,
        )

        def in_order(frame: DataFrame) -> DataFrame:
            return frame if request.row_counts is None else frame.where(_stands_where_due(request, order, frame))

        frame = self._scan.frame(scan, reader_session=self._reader_session(), passing=in_order)
        frame = stable(frame, request.scan.files, request.row_tracking)
        stored = frame.select(*(frame[quoted_name(field.name)] for field in stored_columns(request)))
        with typed_violations():
            written = self._write.files(write_request(request, stored))
        return RewrittenFile(written=checked(request, written), order=order)

    def _reader_session(self) -> Any:
        session = self._values.session.cloneSession()
        for key, value in _ONE_TASK.items():
            session.conf().set(key, value)
        return session


def _order_of_reading(request: RewriteRequest) -> tuple[int, ...]:
    sizes = np.asarray(pc.fill_null(request.scan.files["size"], 0).to_numpy(), dtype=np.int64)
    return tuple(np.argsort(-sizes, kind="stable").tolist())


def _stands_where_due(request: RewriteRequest, order: tuple[int, ...], frame: DataFrame) -> Column:
    """True, or the job fails: the number of a row in its task is that of its file's first row plus its position."""
    assert request.row_counts is not None
    starts = ",".join(map(str, first_rows(request.row_counts, order).tolist()))
    # Constants are folded, so this is one array, however many files there are.
    start = F.get(F.split(F.lit(starts), ",").cast("array<bigint>"), frame[FILE_ID_COLUMN])
    astray = F.monotonically_increasing_id() != start + row_index(frame)
    facts = {"table": request.scan.table_root, "problem": "a row came that was due elsewhere"}
    return refuse_when(astray, F.lit(True), RowOrderError, facts, shown={"file": frame[FILE_ID_COLUMN]})
