"""Bytes as text by Z85, the Base85 of vector descriptors. See "Deletion Vector Descriptor Schema" of PROTOCOL.md."""

from __future__ import annotations

import numpy as np

_ALPHABET = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_CHARACTERS = np.frombuffer(_ALPHABET, dtype=np.uint8)
_INVALID = 255
_DIGITS = np.full(256, _INVALID, dtype=np.uint8)
_DIGITS[_CHARACTERS] = np.arange(85, dtype=np.uint8)
_POWERS = np.array([85**4, 85**3, 85**2, 85, 1], dtype=np.int64)


def encode(data: bytes) -> str:
    """Five characters for each four bytes; zero bytes fill up the last four."""
    padded = data + bytes(-len(data) % 4)
    numbers = np.frombuffer(padded, dtype=">u4").astype(np.int64)
    digits = numbers[:, None] // _POWERS % 85
    characters: bytes = _CHARACTERS[digits].tobytes()
    return characters.decode("ascii")


def decode(text: str) -> bytes:
    """The bytes, with any that filled up the last four. Raises `ValueError`, whose message is a clause."""
    if len(text) % 5:
        raise ValueError(f"its Base85 text has {len(text)} characters, no multiple of 5")
    if not text.isascii():
        raise ValueError("its Base85 text has characters outside the alphabet")
    digits = _DIGITS[np.frombuffer(text.encode("ascii"), dtype=np.uint8)]
    if (digits == _INVALID).any():
        raise ValueError("its Base85 text has characters outside the alphabet")
    numbers = digits.reshape(-1, 5).astype(np.int64) @ _POWERS
    # Five digits reach a little beyond 32 bits.
    if (numbers >> 32).any():
        raise ValueError("its Base85 text has a group above 2^32")
    return numbers.astype(">u4").tobytes()
