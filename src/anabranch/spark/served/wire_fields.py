"""Messages of Protocol Buffers, written field by field: no package of messages is needed for that."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping

_VARINT, _FIXED64, _BYTES = 0, 1, 2


def integer(number: int, value: int) -> bytes:
    """A whole number of 32 or 64 bits with a sign, an item of an enumeration, or true or false."""
    return _varint(number << 3 | _VARINT) + _varint(value % 2**64)


def double(number: int, value: float) -> bytes:
    """A floating-point number of 64 bits."""
    return _varint(number << 3 | _FIXED64) + struct.pack("<d", value)


def data(number: int, value: bytes) -> bytes:
    """Bytes, or a message."""
    return _varint(number << 3 | _BYTES) + _varint(len(value)) + value


def text(number: int, value: str | None) -> bytes:
    """Nothing where there is no value."""
    return b"" if value is None else data(number, value.encode())


def texts(number: int, values: Iterable[str]) -> bytes:
    """A field that there may be several of."""
    return b"".join(text(number, value) for value in values)


def texts_by_name(number: int, values: Mapping[str, str]) -> bytes:
    """A map."""
    return b"".join(data(number, text(1, name) + text(2, value)) for name, value in values.items())


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])
