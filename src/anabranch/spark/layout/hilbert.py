"""The Hilbert curve through a space of two and more dimensions: places that are near on it are near in space.

Other than with Z-ordering, the next place on the curve is always one step away. The rule is that of C. Hamilton,
"Compact Hilbert Indices" (2006): in each step one bit of every coordinate says in which corner of a cube the place
lies; where the curve enters that corner, and in which direction it leaves it, is the state for the next step.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from anabranch.spark.layout.range_numbers import Numbers, any_of_bits, bit_of, constant_array


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HilbertSteps:
    """One step for each state and corner, as numbers that say how the next step goes.

    A step is `next state << dimensions | place of the corner`, at `state << dimensions | corner`. The first state is 0.
    """

    dimensions: int
    steps: npt.NDArray[np.int64]

    def positions(self, coordinates: Sequence[npt.NDArray[np.int64]], bits: int) -> npt.NDArray[np.int64]:
        """Where on the curve these points lie; an array a dimension, of numbers of `bits` bits."""
        corner_bits = (1 << self.dimensions) - 1
        step = np.zeros(len(coordinates[0]), dtype=np.int64)
        found = np.zeros(len(coordinates[0]), dtype=np.int64)
        for bit in reversed(range(bits)):
            corner = np.zeros(len(step), dtype=np.int64)
            for each in coordinates:
                corner = (corner << 1) | ((each >> bit) & 1)
            step = self.steps[(step & ~corner_bits) | corner]
            found = (found << self.dimensions) | (step & corner_bits)
        return found


@functools.cache
def hilbert_steps(dimensions: int) -> HilbertSteps:
    """The steps of the curve through that many dimensions, two at least."""
    assert dimensions > 1, "a curve through one dimension is a line"
    places = [_place_in_cube(corner, dimensions) for corner in range(1 << dimensions)]
    numbers = {(0, 0): 0}
    waiting, steps = [(0, 0)], []
    for entry, direction in waiting:
        for corner in range(1 << dimensions):
            place = places[_rotated_right(corner ^ entry, direction + 1, dimensions)]
            following = (
                entry ^ _rotated_left(_entry(place), direction + 1, dimensions),
                (direction + _direction(place, dimensions) + 1) % dimensions,
            )
            if following not in numbers:
                numbers[following] = len(numbers)
                waiting.append(following)
            steps.append(numbers[following] << dimensions | place)
    return HilbertSteps(dimensions=dimensions, steps=np.array(steps, dtype=np.int64))


def _gray_code(number: int) -> int:
    """Of two numbers that follow each other, the codes differ in one bit."""
    return number ^ (number >> 1)


def _place_in_cube(code: int, dimensions: int) -> int:
    """The number whose Gray code this is."""
    place = code
    for shift in range(1, dimensions):
        place ^= code >> shift
    return place


def _entry(place: int) -> int:
    """The corner at which the curve enters the small cube at that place of the large one."""
    return _gray_code(2 * ((place - 1) // 2)) if place else 0


def _direction(place: int, dimensions: int) -> int:
    """The dimension in which the curve crosses the small cube at that place."""
    if not place:
        return 0
    odd = place if place % 2 else place - 1
    trailing_ones = (~odd & (odd + 1)).bit_length() - 1
    return trailing_ones % dimensions


def _rotated_left(corner: int, by: int, dimensions: int) -> int:
    shift = by % dimensions
    return ((corner << shift) | (corner >> (dimensions - shift))) & ((1 << dimensions) - 1)


def _rotated_right(corner: int, by: int, dimensions: int) -> int:
    return _rotated_left(corner, dimensions - by % dimensions, dimensions)


# The place of a row on the Hilbert curve, computed by Spark's own functions.


_STEP = "__anabranch_hilbert_{}"


class HilbertOrder:
    """A `Curve` for two columns and more."""

    def keys(self, numbers: Sequence[Numbers], bits: int) -> Numbers:
        """See `Curve`."""
        return hilbert_steps(len(numbers)).positions(numbers, bits)

    def with_key(self, frame: DataFrame, numbers: Sequence[str], bits: int, name: str) -> DataFrame:
        """See `Curve`.

        Each step is a column of its own, which the next one and the key read: so that none is computed twice.
        """
        dimensions = len(numbers)
        steps = constant_array(hilbert_steps(dimensions).steps.tolist())
        place_bits = (1 << dimensions) - 1
        names = [_STEP.format(bit) for bit in range(bits)]
        before = F.lit(0).cast("bigint")
        for bit in reversed(range(bits)):
            corner = any_of_bits(
                [bit_of(F.col(number), bit, to=dimension) for dimension, number in enumerate(reversed(numbers))]
            )
            at = before.bitwiseAND(F.lit(~place_bits).cast("bigint")).bitwiseOR(corner)
            frame = frame.withColumn(names[bit], F.get(steps, at.cast("int")))
            before = F.col(names[bit])
        places = [
            F.shiftleft(F.col(each).bitwiseAND(F.lit(place_bits).cast("bigint")), bit * dimensions)
            for bit, each in enumerate(names)
        ]
        return frame.withColumn(name, any_of_bits(places)).drop(*names)
