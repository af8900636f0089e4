"""The place of a row on the Hilbert curve, computed by Spark's own functions."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from anabranch.spark.hilbert_curve import hilbert_steps
from anabranch.spark.range_numbers import Numbers, any_of_bits, bit_of, constant_array

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
