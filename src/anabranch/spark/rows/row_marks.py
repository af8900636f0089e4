"""Marks rows while a job computes them for another purpose, so that they need not be read once more to be marked."""

from __future__ import annotations

import struct
from typing import Any

from pyroaring import BitMap64
from pyspark.sql import DataFrame

from anabranch.spark.engine import FILE_ID_COLUMN, ROW_INDEX_COLUMN
from anabranch.spark.rows.hidden_rows import MarkedRows

_NULL_GROUP = -2
_HEADER = struct.Struct("<qqqqq")
_BITMAP64 = struct.Struct("<QI")
"""The number of bitmaps of 32 bits, which is 1, and the higher bits of its positions."""


class RowMarks:
    """The marks of rows of a frame that is computed once."""

    def __init__(self, frame: DataFrame, *, group_by: str, condition: str) -> None:
        """`frame` has the position columns of `ScanRequest`, NULL for rows that are in no file.

        `group_by` and the condition are SQL, the first of whole numbers from -1 to 60,000. All rows are marked, also
        those for which the condition is not true.
        """
        jvm: Any = frame.sparkSession._jvm
        self._made = jvm.anabranch.RowMarks(frame._jdf, FILE_ID_COLUMN, group_by, ROW_INDEX_COLUMN, condition)
        self.rows = DataFrame(self._made.rows(), frame.sparkSession)
        """The rows for which the condition is true."""

    @staticmethod
    def can_mark(frame: DataFrame) -> bool:
        """Whether executors can mark rows of the frame, as far as its columns say. They may still turn out not to."""
        jvm: Any = frame.sparkSession._jvm
        return bool(jvm.anabranch.RowMarks.canMark(frame._jdf))

    def marks(self) -> list[MarkedRows] | None:
        """The marks of all rows, once a job has computed them. `group` is empty where the number is NULL.

        None where executors could not mark them: Spark generates no code for rows of very many columns, and executors
        have no other code of ours.
        """
        marks = self._made.marks()
        return None if marks is None else _decoded(bytes(marks))


def _decoded(marks: bytes) -> list[MarkedRows]:
    """The marks as `RowMarks.java` encodes them."""
    rows: list[MarkedRows] = []
    offset = 0
    while offset < len(marks):
        file_id, group, high, count, size = _HEADER.unpack_from(marks, offset)
        offset += _HEADER.size
        bitmap = marks[offset : offset + size]
        offset += size
        rows.append(
            MarkedRows(
                file_id=None if file_id < 0 else file_id,
                group=() if group == _NULL_GROUP else (group,),
                positions=BitMap64.deserialize(_BITMAP64.pack(1, high) + bitmap),
                count=count,
            )
        )
    return rows
