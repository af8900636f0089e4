"""Numbers that stand for strings in a first comparison."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

SAMPLES = 4
"""Eight bytes each, spread evenly; the random part of a file name is longer than the gaps between them."""
_FACTOR = np.uint64(0x9E3779B97F4A7C15)


def fingerprints(strings: pa.ChunkedArray | pa.Array) -> np.ndarray:
    """One `uint64` a string: equal for equal strings, and nearly always different for different ones.

    Only samples of each string are looked at, so a hit must be confirmed. A million paths take some
    50 ms, where hashing them whole in Python would take seconds.
    """
    chunks = strings.chunks if isinstance(strings, pa.ChunkedArray) else [strings]
    parts = [_of_chunk(chunk.cast(pa.large_string())) for chunk in chunks if len(chunk)]
    return np.concatenate(parts) if parts else np.empty(0, dtype=np.uint64)


def _of_chunk(chunk: pa.Array) -> np.ndarray:
    _, offset_buffer, data_buffer = chunk.buffers()
    offsets = np.frombuffer(offset_buffer, dtype=np.int64)[chunk.offset : chunk.offset + len(chunk) + 1]
    starts, lengths = offsets[:-1], np.diff(offsets)
    sums = lengths.astype(np.uint64)
    words = _words_at_every_byte(data_buffer)
    # A sample must lie within its string, or equal strings would differ by what follows them.
    rooms = np.maximum(lengths - 8, 0)
    short = np.flatnonzero(lengths < 8)
    for sample in range(SAMPLES):
        places = starts + (rooms * sample) // (SAMPLES - 1)
        if len(short):
            places[short] = 0
        sampled = words[places]
        if len(short):
            sampled[short] = 0
        sums *= _FACTOR
        sums ^= sampled
    return sums


def _words_at_every_byte(buffer: pa.Buffer | None) -> np.ndarray:
    """The eight bytes that begin at each byte, as a number. Of a buffer too short for one, a single zero."""
    if buffer is None or buffer.size < 8:
        return np.zeros(1, dtype="<u8")
    return np.ndarray(shape=(buffer.size - 7,), dtype="<u8", buffer=buffer, strides=(1,))
