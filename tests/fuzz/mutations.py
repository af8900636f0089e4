"""Random changes of bytes: flips, cuts, repeats, and the tokens of the formats that are parsed."""

from __future__ import annotations

import random
from collections.abc import Sequence

TOKENS = [
    *(
        b"null",
        b"true",
        b"-1",
        b"0",
        b"1e999",
        b"-0.0",
        b"NaN",
        b"9223372036854775808",
        b'""',
        b"[]",
        b"{}",
        b"[[",
        b'{"a":',
    ),
    *(
        b"\x00",
        b"\xff\xff\xff\xff",
        b"\x7f",
        b"\xed\xa0\x80",
        b"\\ud800",
        b"\\u0000",
        b"%2e%2e/",
        b"../",
        b"file:///",
        b"\n",
    ),
    *(
        b"'",
        b'"',
        b"`",
        b"/*",
        b"--",
        b"(",
        b")",
        b"CAST(",
        b" AND ",
        b" IN (",
        b"CASE WHEN ",
        b"INTERVAL '1' ",
        b"decimal(99,1)",
    ),
    *(
        b"9999-12-31",
        b"-290308-12-21",
        b"1970-01-01 00:00:00.000000+19:00",
        b"interval 1 month",
        b"delta.",
        b"__proto__",
    ),
]


def mutated(data: bytes, others: Sequence[bytes], rng: random.Random) -> bytes:
    """The bytes with one to four random changes."""
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 4))):
        start = rng.randrange(len(changed) + 1)
        end = min(len(changed), start + rng.choice((0, 1, 1, 2, 4, 16, 64)))
        match rng.randrange(7):
            case 0 if changed:
                changed[min(start, len(changed) - 1)] ^= 1 << rng.randrange(8)
            case 1:
                del changed[start:end]
            case 2:
                changed[start:end] = rng.choice(TOKENS)
            case 3:
                changed[start:start] = bytes(changed[start:end]) * rng.choice((1, 2, 50))
            case 4:
                other = rng.choice(others)
                first = rng.randrange(len(other) + 1)
                changed[start:end] = other[first : first + rng.choice((1, 4, 16, 64))]
            case 5:
                del changed[start:]
            case _:
                changed[start:end] = rng.randbytes(rng.choice((1, 1, 2, 4, 8)))
    return bytes(changed)


def shrunk(data: bytes, fails: object) -> bytes:
    """A shorter input that fails, too: parts are left out, largest first."""
    assert callable(fails)
    size = len(data) // 2
    while size:
        start = 0
        while start < len(data):
            shorter = data[:start] + data[start + size :]
            if fails(shorter):
                data = shorter
            else:
                start += size
        size //= 2
    return data
