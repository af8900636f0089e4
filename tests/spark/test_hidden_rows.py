"""Hidden rows in the forms that executors look them up in."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap64

from anabranch.spark.hidden_rows import CHUNK_ROWS, chunk_table, encode, load_all


def is_hidden(encoded: bytes, row: int) -> bool:
    """What the native scan computes with Spark's own functions."""

    def read_int(position: int) -> int:
        (word,) = struct.unpack_from(">i", encoded, position)
        return word

    chunk = min(row >> 12, read_int(0))
    word = read_int(read_int(4 + 4 * chunk) + ((row & 4095) >> 5) * 4)
    return bool(word >> (row & 31) & 1)


@given(st.sets(st.integers(0, 30_000)))
def test_every_row_is_told_right(hidden: set[int]) -> None:
    encoded = encode(BitMap64(hidden))
    around = {row + step for row in hidden for step in (-1, 0, 1)} | {0, 1, 4095, 4096, 29_999, 40_000, 10_000_000}
    assert {row for row in around if row >= 0 and is_hidden(encoded, row)} == hidden


def test_few_hidden_rows_of_a_large_file_stay_small() -> None:
    """A file of ten million rows takes 1.2 MB as plain bits."""
    assert len(encode(BitMap64([5, 9_999_999]))) < 12_000
    assert len(encode(BitMap64())) < 1000


@given(st.lists(st.sets(st.integers(0, 20_000)), max_size=3))
def test_chunks_hold_the_same_rows(vectors: list[set[int]]) -> None:
    table = chunk_table(list(enumerate(map(BitMap64, vectors))))
    found: list[set[int]] = [set() for _ in vectors]
    for row in table.to_pylist():
        assert len(row["words"]) == CHUNK_ROWS // 64
        for word, bits in enumerate(row["words"]):
            hidden = {row["chunk"] * CHUNK_ROWS + word * 64 + bit for bit in range(64) if bits >> bit & 1}
            found[row["file_id"]] |= hidden
    assert found == vectors


def test_an_error_of_one_vector_is_raised() -> None:
    def load(descriptor: object) -> BitMap64:
        raise OSError(str(descriptor))

    with pytest.raises(OSError, match="b"):
        load_all(["b", "b"], load, None)  # type: ignore[list-item]
