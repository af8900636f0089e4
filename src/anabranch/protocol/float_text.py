"""Floating-point numbers as Java prints them, which is how Spark turns them to text."""

from __future__ import annotations

import math
from typing import Any

import numpy as np


def java_float_text(value: float, *, single: bool = False) -> str:
    """`1.0`, `1.0E10`, `-0.0`, `NaN`, `Infinity`; the fewest digits that read back as the same number.

    `single` is for 32-bit floats.
    """
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    number: np.floating[Any] = np.float32(value) if single else np.float64(value)
    if number == 0 or 1e-3 <= abs(float(number)) < 1e7:
        return np.format_float_positional(number, unique=True, trim="0")
    mantissa, _, exponent = np.format_float_scientific(number, unique=True, trim="0").partition("e")
    return f"{mantissa}E{int(exponent)}"
