"""Hidden rows in the forms in which executors look them up.

Both forms cut a file into chunks of 4,096 rows and leave out chunks that hide nothing, so that a few hidden rows in a
large file stay small.
"""

from __future__ import annotations

import concurrent.futures
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap64

from anabranch.deletion_vectors.reading import check_rows
from anabranch.deletion_vectors.words import to_words
from anabranch.protocol.actions import DeletionVectorDescriptor
from anabranch.transaction.row_ids import row_count

CHUNK_BITS = 12
CHUNK_ROWS = 1 << CHUNK_BITS
_CHUNK_BYTES = CHUNK_ROWS // 8
_CHUNK_WORDS = CHUNK_ROWS // 64
_LOADS_AT_ONCE = 16

LoadVector = Callable[[DeletionVectorDescriptor], BitMap64]
LoadVectors = Callable[[Sequence[DeletionVectorDescriptor]], Sequence[BitMap64]]


def encode(positions: BitMap64) -> bytes:
    """A lookup table for `hidden_bit` of the native scan: big-endian 32-bit words.

    The first is the number n of chunks. The next n + 1 are byte offsets of chunks; the last of them, and those of
    chunks without hidden rows, lead to a chunk of zeros. Then the chunks: row i is bit i & 31 of word i >> 5.
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


def load_hidden(
    files: pa.Table,
    rows: npt.NDArray[np.integer],
    load_vector: LoadVector,
    load_vectors: LoadVectors | None,
    *,
    table: str,
) -> list[BitMap64]:
    """The vectors of the files in those rows of `files`, each of which has one.

    All at once where the caller offers that, else on threads. Raises `DeletionVectorRowIndexError` for one that names
    a row which its file has not, as far as the log says how many it has.
    """
    chosen = files.select(["deletion_vector", "stats"]).take(pa.array(rows))
    descriptors = [DeletionVectorDescriptor(**fields) for fields in chosen["deletion_vector"].to_pylist()]
    loaded = _loaded(descriptors, load_vector, load_vectors)
    for vector, descriptor, stats in zip(loaded, descriptors, chosen["stats"].to_pylist(), strict=True):
        check_rows(vector, descriptor, num_rows=row_count(stats), table=table)
    return loaded


def _loaded(
    descriptors: Sequence[DeletionVectorDescriptor], load_vector: LoadVector, load_vectors: LoadVectors | None
) -> list[BitMap64]:
    if load_vectors is not None:
        return list(load_vectors(descriptors))
    if len(descriptors) < 2:
        return [load_vector(descriptor) for descriptor in descriptors]
    with concurrent.futures.ThreadPoolExecutor(_LOADS_AT_ONCE, thread_name_prefix="deletion-vectors") as pool:
        return list(pool.map(load_vector, descriptors))


def _chunks(positions: BitMap64) -> npt.NDArray[np.uint8]:
    """One line of bytes a chunk, bit i & 7 of byte i >> 3 for row i."""
    rows = int(positions.max()) + 1 if len(positions) else 0
    chunk_count = -(-rows // CHUNK_ROWS)
    words = to_words(positions, num_rows=chunk_count * CHUNK_ROWS)
    return words.astype("<i8", copy=False).view(np.uint8).reshape(chunk_count, _CHUNK_BYTES)
