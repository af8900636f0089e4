"""The Hilbert curve: what makes it one, without Spark."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.spark.layout.hilbert import hilbert_steps
from anabranch.spark.layout.zorder_keys import ZOrder

FOUR_BY_FOUR = [
    *[(0, 0), (0, 1), (1, 1), (1, 0), (2, 0), (3, 0), (3, 1), (2, 1)],
    *[(2, 2), (3, 2), (3, 3), (2, 3), (1, 3), (1, 2), (0, 2), (0, 3)],
]
"""As drawn in every textbook, the first coordinate going right."""


def points(dimensions: int, bits: int) -> np.ndarray:
    """All there are: a row a dimension."""
    return np.array(list(itertools.product(range(1 << bits), repeat=dimensions)), dtype=np.int64).T


def test_the_curve_through_sixteen_places() -> None:
    positions = hilbert_steps(2).positions(
        [np.array(axis, dtype=np.int64) for axis in zip(*FOUR_BY_FOUR, strict=True)], 2
    )
    assert positions.tolist() == list(range(16))


@pytest.mark.parametrize(("dimensions", "bits"), [(2, 1), (2, 6), (3, 4), (4, 3), (5, 2), (6, 2)])
def test_every_point_comes_once_and_is_one_step_from_the_next(dimensions: int, bits: int) -> None:
    everything = points(dimensions, bits)
    keys = hilbert_steps(dimensions).positions(list(everything), bits)
    assert sorted(keys.tolist()) == list(range(1 << (dimensions * bits)))
    along = everything[:, np.argsort(keys)]
    steps = np.abs(np.diff(along, axis=1)).sum(axis=0)
    assert set(steps.tolist()) == {1}
    assert along[:, 0].tolist() == [0] * dimensions


@given(dimensions=st.integers(2, 4), data=st.data())
def test_the_curve_enters_each_cube_once(dimensions: int, data: st.DataObject) -> None:
    """Points that differ in fewer bits keep their order with more bits: files hold whole stretches."""
    point = st.lists(st.integers(0, 1023), min_size=dimensions, max_size=dimensions)
    pair = np.array([data.draw(point), data.draw(point)], dtype=np.int64).T
    curve = hilbert_steps(dimensions)
    fine = curve.positions(list(pair), 10)
    for bits in range(1, 10):
        coarse = curve.positions(list(pair >> (10 - bits)), bits)
        assert (coarse == fine >> ((10 - bits) * dimensions)).all()


@pytest.mark.parametrize("dimensions", [2, 3, 4])
def test_a_stretch_of_the_curve_is_smaller_than_one_of_z_order(dimensions: int) -> None:
    """The surface of all files: how many pairs of neighbours are cut apart."""
    everything = points(dimensions, 4)

    def cuts(keys: np.ndarray) -> int:
        side = 16
        # A number of stretches that is no power of two, as files are.
        stretch = (keys * 11 // len(keys)).reshape([side] * dimensions)
        return sum(int((np.diff(stretch, axis=axis) != 0).sum()) for axis in range(dimensions))

    assert cuts(hilbert_steps(dimensions).positions(list(everything), 4)) < cuts(ZOrder().keys(list(everything), 4))
