"""The Hilbert curve through a space of two and more dimensions: points that are near on it are near in space.

Unlike with Z-ordering, the next point on the curve is always one step away in space. The algorithm is that of
C. Hamilton, "Compact Hilbert Indices" (2006): in each step one bit of every coordinate says in which corner of a cube
the point is; where the curve enters that corner, and in which direction it leaves it, is the state for the next step.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from anabranch.spark.layout.range_numbers import Numbers, any_of_bits, constant_array


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HilbertSteps:
    """The table of steps, one for each state and corner.

    The step `next state << dimensions | rank of the corner on the curve` is at `state << dimensions | corner`.
    The first state is 0.
    """

    dimensions: int
    steps: npt.NDArray[np.int64]

    def positions(self, coordinates: Sequence[npt.NDArray[np.int64]], bits: int) -> npt.NDArray[np.int64]:
        """The positions of points on the curve; `coordinates` has an array a dimension, of numbers of `bits` bits."""
        return self.walk(np.zeros(len(coordinates[0]), dtype=np.int64), coordinates, bits)[1]

    def walk(
        self, states: npt.NDArray[np.int64], coordinates: Sequence[npt.NDArray[np.int64]], bits: int
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """The states behind `bits` steps from these ones, and the positions that the steps add."""
        corner_bits = (1 << self.dimensions) - 1
        positions = np.zeros(len(states), dtype=np.int64)
        for bit in reversed(range(bits)):
            corner = np.zeros(len(states), dtype=np.int64)
            for coordinate in coordinates:
                corner = (corner << 1) | ((coordinate >> bit) & 1)
            step = self.steps[(states << self.dimensions) | corner]
            states, positions = step >> self.dimensions, (positions << self.dimensions) | (step & corner_bits)
        return states, positions


@functools.cache
def hilbert_steps(dimensions: int) -> HilbertSteps:
    """The steps of the curve through that many dimensions, two at least."""
    assert dimensions > 1, "a curve through one dimension is a line"
    ranks = [_gray_rank(corner, dimensions) for corner in range(1 << dimensions)]
    numbers = {(0, 0): 0}
    waiting, steps = [(0, 0)], []
    for entry, direction in waiting:
        for corner in range(1 << dimensions):
            rank = ranks[_rotated_right(corner ^ entry, direction + 1, dimensions)]
            following = (
                entry ^ _rotated_left(_entry(rank), direction + 1, dimensions),
                (direction + _direction(rank, dimensions) + 1) % dimensions,
            )
            if following not in numbers:
                numbers[following] = len(numbers)
                waiting.append(following)
            steps.append(numbers[following] << dimensions | rank)
    return HilbertSteps(dimensions=dimensions, steps=np.array(steps, dtype=np.int64))


def _gray_code(number: int) -> int:
    """The Gray code of a number: the codes of consecutive numbers differ in one bit."""
    return number ^ (number >> 1)


def _gray_rank(code: int, dimensions: int) -> int:
    """The number that has this Gray code."""
    rank = code
    for shift in range(1, dimensions):
        rank ^= code >> shift
    return rank


def _entry(rank: int) -> int:
    """The corner at which the curve enters the small cube of that rank in the large one."""
    return _gray_code(2 * ((rank - 1) // 2)) if rank else 0


def _direction(rank: int, dimensions: int) -> int:
    """The dimension in which the curve crosses the small cube of that rank."""
    if not rank:
        return 0
    odd = rank if rank % 2 else rank - 1
    trailing_ones = (~odd & (odd + 1)).bit_length() - 1
    return trailing_ones % dimensions


def _rotated_left(corner: int, by: int, dimensions: int) -> int:
    shift = by % dimensions
    return ((corner << shift) | (corner >> (dimensions - shift))) & ((1 << dimensions) - 1)


def _rotated_right(corner: int, by: int, dimensions: int) -> int:
    return _rotated_left(corner, dimensions - by % dimensions, dimensions)


_STEP = "__anabranch_hilbert_{}"
_INDEX_BITS_MAX = 6
"""A step takes as many bits of each coordinate as fit: Java does not compile a method with a step for each bit."""


@functools.cache
def long_steps(dimensions: int, levels: int) -> tuple[int, ...]:
    """Steps of `levels` bits of each coordinate.

    The step `next state | position that it adds` is at `state | bits of the first coordinate | bits of the second | …`,
    where a state is shifted by all these bits.
    """
    single = hilbert_steps(dimensions)
    bits = dimensions * levels
    index = np.arange(len(single.steps) >> dimensions << bits, dtype=np.int64)
    coordinates = [index >> (levels * dimension) for dimension in reversed(range(dimensions))]
    states, positions = single.walk(index >> bits, coordinates, levels)
    steps: list[int] = (states << bits | positions).tolist()
    return tuple(steps)


class HilbertOrder:
    """A `Curve` for two columns and more, computed by Spark's own functions."""

    def keys(self, numbers: Sequence[Numbers], bits: int) -> Numbers:
        """See `Curve`."""
        return hilbert_steps(len(numbers)).positions(numbers, bits)

    def with_key(self, frame: DataFrame, numbers: Sequence[str], bits: int, name: str) -> DataFrame:
        """See `Curve`.

        Each step is a column of its own, which the next step and the key read, so that none is computed twice.
        """
        dimensions = len(numbers)
        levels_max = max(1, _INDEX_BITS_MAX // dimensions)
        ranks, names = [], []
        state = F.lit(0).cast("bigint")
        left = bits
        while left:
            levels = left % levels_max or levels_max
            left -= levels
            names.append(_STEP.format(left))
            chunks = [
                F.shiftleft(
                    F.shiftright(F.col(number), left).bitwiseAND(F.lit((1 << levels) - 1)).cast("bigint"),
                    levels * dimension,
                )
                for dimension, number in enumerate(reversed(numbers))
            ]
            index = F.shiftleft(state, dimensions * levels).bitwiseOR(any_of_bits(chunks))
            steps = constant_array(long_steps(dimensions, levels))
            frame = frame.withColumn(names[-1], F.get(steps, index.cast("int")))
            step, rank_bits = F.col(names[-1]), dimensions * levels
            state = F.shiftright(step, rank_bits)
            ranks.append(F.shiftleft(step.bitwiseAND(F.lit((1 << rank_bits) - 1).cast("bigint")), left * dimensions))
        return frame.withColumn(name, any_of_bits(ranks)).drop(*names)
