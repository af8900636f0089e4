"""Z-ordering: the key interleaves the bits of the numbers of ranges."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from anabranch.spark.layout.range_numbers import Numbers, any_of_bits, bit_of


class ZOrder:
    """A `Curve` for any number of columns. The first decides before the others; one column alone keeps its order."""

    def keys(self, numbers: Sequence[Numbers], bits: int) -> Numbers:
        """See `Curve`."""
        keys = np.zeros(len(numbers[0]), dtype=np.int64)
        for bit in range(bits):
            for dimension, coordinate in enumerate(reversed(numbers)):
                keys |= ((coordinate >> bit) & 1) << (bit * len(numbers) + dimension)
        return keys

    def with_key(self, frame: DataFrame, numbers: Sequence[str], bits: int, name: str) -> DataFrame:
        """See `Curve`."""
        parts = [
            bit_of(F.col(number), bit, to=bit * len(numbers) + dimension)
            for bit in range(bits)
            for dimension, number in enumerate(reversed(numbers))
        ]
        return frame.withColumn(name, any_of_bits(parts))
