"""Hidden rows as machine words, the form in which Spark tests them: `words[i >> 6] >> (i & 63) & 1`."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap64

from anabranch.deletion_vectors.containers import BLOCK_ROWS, Container, ContainerKind, containers, serialize_blocks

_WORD_ROWS = 64
_BLOCK_BYTES = BLOCK_ROWS // 8


def to_words(positions: BitMap64, *, num_rows: int) -> npt.NDArray[np.int64]:
    """One bit a row, lowest first, in `ceil(num_rows / 64)` words. Positions from `num_rows` on are an error.

    Takes time by 65,536 rows, not by row.
    """
    if num_rows < 0 or (len(positions) and positions.max() >= num_rows):
        raise ValueError(f"a position is outside the {num_rows} rows")
    word_count = -(-num_rows // _WORD_ROWS)
    # Whole blocks, so that every container has its full room.
    bits = np.zeros(-(-num_rows // BLOCK_ROWS) * _BLOCK_BYTES, dtype=np.uint8)
    for container in containers(positions.serialize()):
        start = container.block * _BLOCK_BYTES
        bits[start : start + _BLOCK_BYTES] = _block_bits(container)
    return bits.view("<i8")[:word_count].astype(np.int64, copy=False)


def from_words(words: npt.NDArray[np.int64]) -> BitMap64:
    """The positions whose bit is set."""
    data = np.ascontiguousarray(words, dtype="<i8").view(np.uint8)
    whole_blocks = np.zeros(-(-len(data) // _BLOCK_BYTES) * _BLOCK_BYTES, dtype=np.uint8)
    whole_blocks[: len(data)] = data
    blocks = whole_blocks.reshape(-1, _BLOCK_BYTES)
    # The roaring library takes whole blocks as they are, and a list of positions only one by one.
    positions: BitMap64 = BitMap64.deserialize(serialize_blocks(blocks))
    positions.run_optimize()
    return positions


def _block_bits(container: Container) -> npt.NDArray[np.uint8]:
    if container.kind is ContainerKind.BITSET:
        return container.content.view(np.uint8)
    if container.kind is ContainerKind.ARRAY:
        flags = np.zeros(BLOCK_ROWS, dtype=np.uint8)
        flags[container.content] = 1
    else:
        # Up where a run begins, down after its end; the running sum is 1 inside runs.
        steps = np.zeros(BLOCK_ROWS + 1, dtype=np.int8)
        firsts = container.content[:, 0].astype(np.int64)
        np.add.at(steps, firsts, 1)
        np.subtract.at(steps, firsts + container.content[:, 1] + 1, 1)
        flags = np.cumsum(steps[:-1], dtype=np.int8).view(np.uint8)
    return np.packbits(flags, bitorder="little")
