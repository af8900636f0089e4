"""UUIDs from the random source that was handed in."""

from __future__ import annotations

import random


def random_uuid(source: random.Random) -> str:
    """A UUID of version 4, in lower case with dashes, as other writers of Delta spell theirs."""
    bits = source.getrandbits(128)
    versioned = bits & ~(0xF << 76) | (0x4 << 76)
    digits = f"{versioned & ~(0x3 << 62) | (0x2 << 62):032x}"
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
