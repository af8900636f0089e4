"""Texts of many rows in little memory: the statistics of files, which are long and much alike."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

BLOCK_ROWS = 4096
"""The rows that are decompressed together, also where one of them is needed."""
BATCH_BLOCKS = 8
PLAIN_BYTES_MAX = 64 << 10
"""Smaller blocks are not compressed."""
_CODEC = "zstd"
_SCHEMA = pa.schema([("text", pa.string())])


@dataclasses.dataclass(frozen=True, slots=True)
class _Block:
    """Up to `BLOCK_ROWS` texts, as a compressed message of Arrow's."""

    data: bytes
    size_bytes: int
    """Before it was compressed."""
    num_rows: int

    def texts(self) -> pa.Array:
        message = pa.decompress(self.data, self.size_bytes, codec=_CODEC, asbytes=False)
        return pa.ipc.read_record_batch(message, _SCHEMA)["text"]


class CompressedTexts:
    """A column of texts. Immutable; any number of threads may use it."""

    def __init__(self, arrays: Iterable[pa.Array | pa.ChunkedArray] = ()) -> None:
        """The texts of these arrays, one after the other. An array is compressed before the next is made."""
        self._set([block for array in arrays for block in _blocks_of(array)])

    @classmethod
    def concat(cls, columns: Iterable[CompressedTexts]) -> CompressedTexts:
        """The texts of several columns, one after the other."""
        joined = cls()
        joined._set([block for column in columns for block in column._blocks])
        return joined

    def _set(self, blocks: list[_Block | pa.Array]) -> None:
        self._blocks = blocks
        lengths = [len(block) if isinstance(block, pa.Array) else block.num_rows for block in blocks]
        self._starts: npt.NDArray[np.int64] = np.cumsum([0, *lengths])

    def __len__(self) -> int:
        return int(self._starts[-1])

    def batches(self) -> Iterator[pa.Array]:
        """All texts in order, some blocks at a time."""
        for first in range(0, len(self._blocks), BATCH_BLOCKS):
            yield pa.concat_arrays([_texts(block) for block in self._blocks[first : first + BATCH_BLOCKS]])

    def at(self, positions: npt.NDArray[np.integer]) -> pa.ChunkedArray:
        """The texts at these positions, which ascend."""
        chunks = []
        blocks, firsts = np.unique(np.searchsorted(self._starts, positions, side="right") - 1, return_index=True)
        for block, of_block in zip(blocks.tolist(), np.split(positions, firsts[1:]), strict=True):
            texts = _texts(self._blocks[block])
            whole = len(of_block) == len(texts)
            chunks.append(texts if whole else texts.take(pa.array(of_block - self._starts[block])))
        return pa.chunked_array(chunks, pa.string())


def _texts(block: _Block | pa.Array) -> pa.Array:
    return block.texts() if isinstance(block, _Block) else block


def _blocks_of(texts: pa.Array | pa.ChunkedArray) -> Iterator[_Block | pa.Array]:
    for start in range(0, len(texts), BLOCK_ROWS):
        part = texts.slice(start, BLOCK_ROWS)
        chunks = part.chunks if isinstance(part, pa.ChunkedArray) else [part]
        # This copies, so that a block does not keep the buffers of a longer array.
        block = pa.concat_arrays([chunk.cast(pa.string()) for chunk in chunks])
        if block.nbytes <= PLAIN_BYTES_MAX:
            yield block
        else:
            message = pa.RecordBatch.from_arrays([block], schema=_SCHEMA).serialize()
            # A buffer of Arrow's would keep the size that the text may have had at most.
            yield _Block(pa.compress(message, codec=_CODEC, asbytes=True), message.size, len(block))
