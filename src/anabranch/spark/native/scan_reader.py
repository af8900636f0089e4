"""Callbacks of Spark's planner for a scan: the files to read and their hidden rows."""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap64
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from anabranch.deletion_vectors.vector_reading import LoadVectors
from anabranch.errors.base import DeltaError
from anabranch.log.file_columns import FileMask
from anabranch.predicates.catalyst import from_catalyst
from anabranch.predicates.expressions import Predicate, conjunction
from anabranch.spark.gateway.jvm_time_zones import zones_of
from anabranch.spark.gateway.python_errors import throwable
from anabranch.spark.rows.hidden_rows import (
    CHUNK_BITS,
    CHUNK_ROWS,
    chunk_table,
    encode,
    load_hidden,
)

logger = logging.getLogger("anabranch.spark")


class ScanReader:
    """Receives the calls of `ListedFiles`, the Java side of a scan, on any thread.

    The JVM keeps this object alive while a plan refers to it.
    """

    def __init__(
        self,
        *,
        rows: Callable[[npt.NDArray[np.integer]], pa.Table],
        jvm: Any,
        prune: Callable[[Predicate], FileMask] | None,
        load_vectors: LoadVectors,
    ) -> None:
        self._rows = rows
        self._jvm = jvm
        self._prune = prune
        self._load_vectors = load_vectors

    def apply(self, method: str, argument: str | bytes | bytearray) -> Any:
        """The method of `java.util.function.BiFunction`. An error is returned as a Throwable."""
        try:
            if method == "prune":
                return self.files_to_read(str(argument))
            assert isinstance(argument, bytes | bytearray), method
            return self.hidden_rows(np.frombuffer(argument, dtype="<i4"))
        except BaseException as error:
            # The thread of the JVM waits for a result, and must get one for any exception.
            return throwable(self._jvm.delta, error)

    def files_to_read(self, filters: str) -> bytes | None:
        """A byte for each file, 1 for those to read; None for all files.

        `filters` are JSON texts, each with NUL at its end; a filter that Spark cannot write as JSON is an empty text.
        """
        assert self._prune is not None, "a scan of all files has nothing to ask"
        conditions = filters.split("\0")[:-1]
        try:
            zones = zones_of(self._jvm.anabranch)
            predicate = conjunction(from_catalyst(text, zones=zones) for text in conditions)
            return self._prune(predicate).astype(np.uint8).tobytes()
        except DeltaError:
            raise
        except Exception:
            # Skipping only saves work. A mistake in it must neither lose rows nor stop a query.
            logger.exception("Data skipping failed; all files are read")
            return None

    def hidden_rows(self, file_ids: npt.NDArray[np.int32]) -> bytes:
        """The hidden rows of those files: all lengths, then all tables of `hidden_rows.encode`."""
        loaded = load_hidden(self._rows(file_ids), self._load_vectors)
        encoded = [encode(vector) for vector in loaded]
        return b"".join((struct.pack(f"<{len(encoded)}i", *map(len, encoded)), *encoded))

    class Java:
        implements = ("java.util.function.BiFunction",)


_LONG_BITS = 6
HIDDEN_TABLE_COLUMNS = tuple(f"__anabranch_hidden_{name}" for name in ("file", "chunk", "words"))
"""Names that no table has: a name on both sides of a join is ambiguous to Spark."""


def without_hidden_rows(
    spark: SparkSession,
    frame: DataFrame,
    vectors: Sequence[tuple[int, BitMap64]],
    file_id: Column,
    row_index: Column,
    *,
    shown: bool = False,
) -> DataFrame:
    """`frame` without the rows that `vectors`, by file id, hide; with `shown`, only those rows.

    It is a broadcast join, for scans that are not columnar. Such a scan copies constants of the file into every row, so
    a vector cannot be one of them.
    """
    # A list: pyarrow 17 takes no tuple.
    chunks = spark.createDataFrame(chunk_table(vectors).rename_columns(list(HIDDEN_TABLE_COLUMNS)))
    chunk_file, chunk, words = (chunks[name] for name in HIDDEN_TABLE_COLUMNS)
    on = (file_id == chunk_file) & (F.shiftright(row_index, CHUNK_BITS).cast("int") == chunk)
    word = F.get(words, F.shiftright(_within_chunk(row_index), _LONG_BITS))
    bit = F.call_function("shiftright", word, row_index.bitwiseAND(63).cast("int")).bitwiseAND(F.lit(1))
    if shown:
        return frame.join(F.broadcast(chunks), on).where(bit == 1)
    return frame.join(F.broadcast(chunks), on, "left").where(words.isNull() | (bit == 0))


def _within_chunk(row_index: Column) -> Column:
    return row_index.bitwiseAND(CHUNK_ROWS - 1).cast("int")
