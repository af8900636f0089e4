"""Hidden rows in the formats in which executors look them up, and rows of a query as bitmaps.

Both formats cut a file into chunks of 4,096 rows and leave out chunks without hidden rows, so that a few hidden rows
in a large file take little space.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from anabranch.deletion_vectors.bitmap_format import bitmap_of
from anabranch.deletion_vectors.vector_reading import LoadVectors, to_words
from anabranch.protocol.actions import DeletionVectorDescriptor, row_count
from anabranch.spark.engine import FILE_ID_COLUMN, ROW_INDEX_COLUMN
from anabranch.spark.rows.cached_rows import aggregated, numbers_if_small, size_of

CHUNK_BITS = 12
CHUNK_ROWS = 1 << CHUNK_BITS
_CHUNK_BYTES = CHUNK_ROWS // 8
_CHUNK_WORDS = CHUNK_ROWS // 64


def encode(positions: BitMap64) -> bytes:
    """A lookup table for `hidden_bit` of the native scan: big-endian 32-bit words.

    The first is the number n of chunks. The next n + 1 are byte offsets of chunks; the last of them, and those of
    chunks without hidden rows, are of a chunk of zeros. Then follow the chunks: row i is bit i & 31 of word i >> 5.
    """
    chunks = _chunks(positions)
    wanted = chunks.any(axis=1)
    table_bytes = 4 * (len(chunks) + 2)
    offsets = np.full(len(chunks) + 1, table_bytes, dtype=">u4")
    offsets[:-1][wanted] = table_bytes + _CHUNK_BYTES * np.arange(1, int(wanted.sum()) + 1)
    zeros = bytes(_CHUNK_BYTES)
    content = chunks[wanted].view("<u4").astype(">u4")
    return b"".join((np.array([len(chunks)], ">u4").tobytes(), offsets.tobytes(), zeros, content.tobytes()))


def chunk_table(vectors: Sequence[tuple[int, BitMap64]]) -> pa.Table:
    """`file_id`, `chunk` and `words` (64 longs) of every chunk that hides rows, for a broadcast join."""
    ids: list[npt.NDArray[np.int32]] = []
    numbers: list[npt.NDArray[np.int32]] = []
    words: list[npt.NDArray[np.int64]] = []
    for file_id, positions in vectors:
        chunks = _chunks(positions)
        wanted = np.flatnonzero(chunks.any(axis=1)).astype(np.int32)
        ids.append(np.full(len(wanted), file_id, dtype=np.int32))
        numbers.append(wanted)
        words.append(chunks[wanted].view("<i8").ravel())
    flat = pa.array(np.concatenate(words) if words else np.zeros(0, np.int64), pa.int64())
    return pa.table(
        {
            "file_id": pa.array(np.concatenate(ids) if ids else [], pa.int32()),
            "chunk": pa.array(np.concatenate(numbers) if numbers else [], pa.int32()),
            "words": pa.ListArray.from_arrays(pa.array(np.arange(0, len(flat) + 1, _CHUNK_WORDS), pa.int32()), flat),
        }
    )


def load_hidden(files: pa.Table, load_vectors: LoadVectors) -> Sequence[BitMap64]:
    """The hidden rows of these files, each of which has a vector. Raises the errors of `load_vectors`."""
    descriptors = [DeletionVectorDescriptor(**fields) for fields in files["deletion_vector"].to_pylist()]
    return load_vectors(descriptors, num_rows=[row_count(stats) for stats in files["stats"].to_pylist()])


def _chunks(positions: BitMap64) -> npt.NDArray[np.uint8]:
    """An array with one row of bytes for each chunk: bit i & 7 of byte i >> 3 is row i."""
    rows = int(positions.max()) + 1 if len(positions) else 0
    chunk_count = -(-rows // CHUNK_ROWS)
    words = to_words(positions, num_rows=chunk_count * CHUNK_ROWS)
    return words.astype("<i8", copy=False).view(np.uint8).reshape(chunk_count, _CHUNK_BYTES)


_BLOCK = "__anabranch_block"
_COUNT = "__anabranch_count"
_BLOCK_BITS = 9
"""A block has 2^9 positions."""
_WORDS = tuple(f"__anabranch_word_{number}" for number in range((1 << _BLOCK_BITS) // 64))
"""The columns with the bits of 64 positions each."""
_NO_NUMBER = -1
"""Instead of NULL."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MarkedRows:
    """The rows of one file in the result of a query, for one of its groups."""

    file_id: int | None
    """Row number of the file in the request's table of files; None for rows that are in no file yet."""
    group: tuple[int, ...]
    """The values of the columns that the rows were grouped by."""
    positions: BitMap64
    count: int
    """The number of rows in the result; a row may be there several times."""


def mark_rows(frame: DataFrame, *, group_by: Sequence[str] = ()) -> list[MarkedRows]:
    """Runs the frame, which has the position columns of `ScanRequest`, and returns its rows as bitmaps.

    Spark's own aggregates build them, for each block of 512 positions with a row among them eight numbers of bits: for
    aggregates of numbers Spark generates code, for those of its bitmaps it does not. So executors need no Python, and
    the driver receives little data, for any number of rows. Few rows of a small frame are sent as they are. The columns
    of `group_by` have whole numbers.
    """
    rows = numbers_if_small(frame, (FILE_ID_COLUMN, *group_by, ROW_INDEX_COLUMN))
    if rows is not None:
        return _marks_of_rows(rows)
    keys = (FILE_ID_COLUMN, *group_by, f"{ROW_INDEX_COLUMN} >> {_BLOCK_BITS} AS {_BLOCK}")
    bit = f"shiftleft(1L, CAST({ROW_INDEX_COLUMN} & 63 AS INT))"
    word = f"({ROW_INDEX_COLUMN} >> 6) & {len(_WORDS) - 1}"
    words = [f"bit_or(CASE WHEN {word} = {i} THEN {bit} ELSE 0L END) AS {name}" for i, name in enumerate(_WORDS)]
    marked = aggregated(frame, size_of(frame), keys=keys, aggregates=[*words, f"count(1) AS {_COUNT}"]).toArrow()
    return _marks_of_blocks(marked, group_by)


def _marks_of_rows(rows: npt.NDArray[np.int64]) -> list[MarkedRows]:
    """The marks of rows with file id, the values that they are grouped by, and position."""
    if not len(rows):
        return []
    ordered = rows[np.lexsort(rows.T[::-1])]
    return [
        _marks(key, positions[positions >= 0].astype(np.uint64), len(positions))
        for key, of_key in _runs(ordered[:, :-1])
        for positions in [ordered[of_key, -1]]
    ]


def _marks_of_blocks(marked: pa.Table, group_by: Sequence[str]) -> list[MarkedRows]:
    """The marks of the aggregates by block, which are in any order."""
    if not len(marked):
        return []
    keys = np.stack([_numbers(marked, name) for name in (FILE_ID_COLUMN, *group_by, _BLOCK)], axis=1)
    order = np.lexsort(keys.T[::-1])
    keys, counts = keys[order], _numbers(marked, _COUNT)[order]
    words = np.stack([_numbers(marked, name) for name in _WORDS], axis=1)[order].astype("<i8", copy=False)
    return [
        _marks(key, _positions(keys[of_key, -1], words[of_key]), int(counts[of_key].sum()))
        for key, of_key in _runs(keys[:, :-1])
    ]


def _numbers(table: pa.Table, name: str) -> npt.NDArray[np.int64]:
    numbers: npt.NDArray[np.int64] = pc.fill_null(table[name].cast(pa.int64()), _NO_NUMBER).to_numpy()
    return numbers


def _runs(keys: npt.NDArray[np.int64]) -> Iterator[tuple[list[int], slice]]:
    """Each of the keys, which are rows of the array and in order, and where its rows are."""
    starts = np.flatnonzero(np.any(keys[1:] != keys[:-1], axis=1)) + 1
    for start, end in itertools.pairwise([0, *starts.tolist(), len(keys)]):
        yield keys[start].tolist(), slice(start, end)


def _marks(key: Sequence[int], positions: npt.NDArray[np.uint64], count: int) -> MarkedRows:
    file_id, *group = key
    return MarkedRows(
        file_id=None if file_id == _NO_NUMBER else file_id,
        group=tuple(group),
        positions=bitmap_of(positions),
        count=count,
    )


def marked_positions(frame: DataFrame) -> dict[int, BitMap64]:
    """The positions of the frame's rows by file; files without such rows are left out."""
    return {marks.file_id: marks.positions for marks in mark_rows(frame) if marks.file_id is not None}


def _positions(blocks: npt.NDArray[np.int64], words: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]:
    """The positions of the set bits, in order, of blocks in order: bit i & 63 of word i >> 6 is row i of its block."""
    # As truth values, of which numpy finds the true ones several times as fast as numbers that are not zero.
    bits = np.unpackbits(words.view(np.uint8), bitorder="little").view(np.bool_)
    marked = np.flatnonzero(bits)
    positions: npt.NDArray[np.int64] = blocks[marked >> _BLOCK_BITS] << _BLOCK_BITS
    positions += marked & ((1 << _BLOCK_BITS) - 1)
    return positions.astype(np.uint64)


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
