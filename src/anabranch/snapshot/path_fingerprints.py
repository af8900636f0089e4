"""Fingerprints of strings, for a first comparison of many."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

SAMPLES = 4
"""Samples of eight bytes per string, spread evenly; the random part of a file name is longer than the gaps."""
_FACTOR = np.uint64(0x9E3779B97F4A7C15)


def fingerprints(strings: pa.ChunkedArray | pa.Array) -> np.ndarray:
    """One `uint64` per string: equal for equal strings, and nearly always different for different ones.

    Only samples of a string are read, so a match must be confirmed. A million paths take about 50 ms;
    hashing them completely in Python would take seconds.
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
    # A sample must be within its string; otherwise equal strings could have different fingerprints.
    last_starts = np.maximum(lengths - 8, 0)
    short = np.flatnonzero(lengths < 8)
    for sample in range(SAMPLES):
        positions = starts + (last_starts * sample) // (SAMPLES - 1)
        if len(short):
            positions[short] = 0
        sampled = words[positions]
        if len(short):
            sampled[short] = 0
        sums *= _FACTOR
        sums ^= sampled
    return sums


def _words_at_every_byte(buffer: pa.Buffer | None) -> np.ndarray:
    """The numbers in the eight bytes from each byte on; a single zero if the buffer has fewer."""
    if buffer is None or buffer.size < 8:
        return np.zeros(1, dtype="<u8")
    return np.ndarray(shape=(buffer.size - 7,), dtype="<u8", buffer=buffer, strides=(1,))
