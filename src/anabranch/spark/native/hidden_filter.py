"""Leaving hidden rows out of a scan, with nothing on executors but Spark's own classes."""

from __future__ import annotations

from collections.abc import Sequence

from pyroaring import BitMap64
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention
from pyspark.sql.types import IntegerType

from anabranch.spark.hidden_rows import CHUNK_BITS, CHUNK_ROWS, chunk_table
from anabranch.spark.native.jvm_values import JvmValues

_WORD_BITS = 5
_LONG_BITS = 6


def is_live(values: JvmValues, hidden_rows: Column, row_index: Column, *, shown: bool = False) -> Column:
    """Whether the row is not among `hidden_rows`, a column as `hidden_rows.encode` makes it; null hides nothing.

    With `shown`, whether it is among them.

    The column is a constant of the file, so that each row costs two reads from an array that is in the cache
    already. `WritableComparator.readInt` is Hadoop's, in every Spark, and checks its bounds.
    """

    def read_int(position: Column) -> Column:
        return values.static_call("BytesReader", "readInt", IntegerType(), hidden_rows, position.cast("int"))

    chunk = F.shiftright(row_index, CHUNK_BITS).cast("int")
    chunk_count = read_int(F.lit(0))
    # Rows behind the last chunk fall on the entry behind the table's last, which says that nothing is hidden.
    start = read_int(F.least(chunk, chunk_count) * 4 + 4)
    word = read_int(start + F.shiftright(_within_chunk(row_index), _WORD_BITS) * 4)
    bit = F.call_function("shiftright", word, row_index.bitwiseAND(31).cast("int")).bitwiseAND(1)
    if shown:
        # Without `coalesce` Spark infers that the column is not null, and asks that of files before it is filled in.
        return F.coalesce(bit, F.lit(0)) == 1
    return hidden_rows.isNull() | (bit == 0)


def without_hidden_rows(
    spark: SparkSession,
    frame: DataFrame,
    vectors: Sequence[tuple[int, BitMap64]],
    file_id: Column,
    row_index: Column,
    *,
    shown: bool = False,
) -> DataFrame:
    """`frame` less the rows that `vectors`, by file id, hide: by a broadcast join, for scans that are not columnar.

    With `shown`, those rows alone.

    Such a scan copies the constants of the file into every row, which must therefore be small.
    """
    # Names that no table has: a name that stands on both sides of a join is ambiguous to Spark.
    names = [f"__anabranch_hidden_{name}" for name in ("file", "chunk", "words")]
    chunks = spark.createDataFrame(chunk_table(vectors).rename_columns(names))
    chunk_file, chunk, words = (chunks[name] for name in names)
    on = (file_id == chunk_file) & (F.shiftright(row_index, CHUNK_BITS).cast("int") == chunk)
    word = F.get(words, F.shiftright(_within_chunk(row_index), _LONG_BITS))
    bit = F.call_function("shiftright", word, row_index.bitwiseAND(63).cast("int")).bitwiseAND(F.lit(1))
    if shown:
        return frame.join(F.broadcast(chunks), on).where(bit == 1)
    return frame.join(F.broadcast(chunks), on, "left").where(words.isNull() | (bit == 0))


def _within_chunk(row_index: Column) -> Column:
    return row_index.bitwiseAND(CHUNK_ROWS - 1).cast("int")
