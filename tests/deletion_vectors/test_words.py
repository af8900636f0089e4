"""Hidden rows as machine words say the same as the bitmap."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyroaring import BitMap64

from anabranch.deletion_vectors.vector_reading import to_words


@settings(deadline=None)
@given(
    st.one_of(
        st.sets(st.integers(0, 200_000)),
        st.tuples(st.integers(0, 100_000), st.integers(0, 100_000)).map(lambda span: set(range(span[0], sum(span)))),
        st.integers(2, 9).map(lambda step: set(range(0, 200_000, step))),
    ),
    st.integers(0, 200),
)
def test_words_have_a_bit_per_row(positions: set[int], further: int) -> None:
    num_rows = max(positions, default=-1) + 1 + further
    words = to_words(BitMap64(sorted(positions)), num_rows=num_rows)

    assert words.dtype == np.int64
    assert len(words) == -(-num_rows // 64)
    assert np.flatnonzero(np.unpackbits(words.view(np.uint8), bitorder="little")).tolist() == sorted(positions)


def test_positions_beyond_the_file_are_refused() -> None:
    with pytest.raises(ValueError, match="outside"):
        to_words(BitMap64([64]), num_rows=64)


def test_no_words_for_no_rows() -> None:
    assert to_words(BitMap64(), num_rows=0).tolist() == []


@pytest.mark.parametrize("density", [0.0001, 0.01, 0.5, 0.9999])
def test_twenty_million_rows_take_no_time(density: float) -> None:
    """A loop over rows would take seconds."""
    mask = np.random.default_rng(7).random(20_000_000) < density
    positions = BitMap64(np.flatnonzero(mask))
    start = time.perf_counter()
    words = to_words(positions, num_rows=len(mask))
    assert time.perf_counter() - start < 0.5
    assert (words.view(np.uint8) == np.packbits(mask, bitorder="little")).all()
