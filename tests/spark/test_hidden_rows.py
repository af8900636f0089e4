"""Hidden rows in the forms that executors look them up in."""

from __future__ import annotations

import functools
import struct

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap64

from anabranch.deletion_vectors.vector_descriptors import inline_descriptor
from anabranch.deletion_vectors.vector_reading import load_vectors
from anabranch.errors.log import DeletionVectorRowIndexError, DeletionVectorSizeError
from anabranch.log.file_columns import table_of_adds
from anabranch.protocol.actions import AddFile
from anabranch.spark.rows.hidden_rows import CHUNK_ROWS, chunk_table, encode, load_hidden
from anabranch.storage.memory_store import MemoryStore


def is_hidden(encoded: bytes, row: int) -> bool:
    """What the native scan computes with Spark's own functions."""

    def read_int(position: int) -> int:
        (word,) = struct.unpack_from(">i", encoded, position)
        return word

    chunk = min(row >> 12, read_int(0))
    word = read_int(read_int(4 + 4 * chunk) + ((row & 4095) >> 5) * 4)
    return bool(word >> (row & 31) & 1)


@given(st.sets(st.integers(0, 30_000)))
def test_the_table_has_the_right_bit_for_every_row(hidden: set[int]) -> None:
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
    hidden_by_file: list[set[int]] = [set() for _ in vectors]
    for row in table.to_pylist():
        assert len(row["words"]) == CHUNK_ROWS // 64
        for word, bits in enumerate(row["words"]):
            hidden = {row["chunk"] * CHUNK_ROWS + word * 64 + bit for bit in range(64) if bits >> bit & 1}
            hidden_by_file[row["file_id"]] |= hidden
    assert hidden_by_file == vectors


def files_hiding(*positions: int, rows: int | None) -> pa.Table:
    """Two files, each with a vector that hides those rows; `rows` is what the log says that they have."""
    stats = None if rows is None else f'{{"numRecords":{rows}}}'
    vector = inline_descriptor(BitMap64(positions))
    return table_of_adds(
        [
            AddFile(
                path=name,
                partition_values={},
                size=1,
                modification_time=0,
                data_change=True,
                stats=stats,
                deletion_vector=vector,
            )
            for name in "ab"
        ]
    )


def test_a_vector_that_hides_a_row_beyond_its_file_is_an_error() -> None:
    """It is another file's, or damaged; to pass it over would show rows that are gone."""
    load = functools.partial(load_vectors, MemoryStore())
    assert load_hidden(files_hiding(9, rows=10), load) == [BitMap64([9])] * 2
    assert load_hidden(files_hiding(50, rows=None), load) == [BitMap64([50])] * 2
    with pytest.raises(DeletionVectorRowIndexError, match="it hides row 50 of a file with 10 rows"):
        load_hidden(files_hiding(50, rows=10), load)


def test_a_vector_that_claims_more_than_its_file_needs_is_not_read() -> None:
    """Covers attack A9."""
    claimed = msgspec.structs.replace(inline_descriptor(BitMap64([1])), size_in_bytes=512 << 20)
    file = AddFile(
        path="f",
        partition_values={},
        size=1,
        modification_time=0,
        data_change=True,
        stats='{"numRecords": 1000}',
        deletion_vector=claimed,
    )
    with pytest.raises(DeletionVectorSizeError, match="too many for a file with 1000 rows"):
        load_hidden(table_of_adds([file]), functools.partial(load_vectors, MemoryStore()))
