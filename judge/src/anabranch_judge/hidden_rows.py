"""Deletion vectors: the positions of the rows that one hides. PROTOCOL.md, "Deletion Vector Format".

It decodes the 64-bit variant of the standard format of Roaring bitmaps in plain Python: vectors of histories are small.
"""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from anabranch_judge.errors import JudgeError

MAGIC = 1681511377
WITHOUT_RUNS, WITH_RUNS = 12346, 12347
ARRAY_MAX = 4096
NO_OFFSET_BLOCKS = 4
Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
B85 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
FROM_Z85 = str.maketrans(Z85, B85)


def hidden_positions(vector: Mapping[str, Any], read: Callable[[str], bytes]) -> frozenset[int]:
    """The positions that a descriptor of the log hides; `read` returns the bytes of a file of the table by its path.

    Raises `JudgeError` where descriptor and bytes do not agree.
    """
    size, stored = vector["sizeInBytes"], vector["pathOrInlineDv"]
    if vector["storageType"] == "i":
        data = _base85(stored)[:size]
    else:
        path = _relative_path(stored) if vector["storageType"] == "u" else stored
        data = _of_file(read(path), vector.get("offset", 0), size, path)
    try:
        positions = frozenset(_positions(data))
    except (struct.error, IndexError) as error:
        raise JudgeError(f"the deletion vector {stored} is damaged: {error}") from None
    if len(positions) != vector["cardinality"]:
        raise JudgeError(f"the vector {stored} hides {len(positions)} rows, and the log says {vector['cardinality']}")
    return positions


def _base85(text: str) -> bytes:
    return base64.b85decode(text.translate(FROM_Z85))


def _relative_path(text: str) -> str:
    """The path of a file whose name follows from an id, behind an optional prefix."""
    prefix, encoded = text[:-20], text[-20:]
    digits = _base85(encoded).hex()
    name = "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
    return f"{prefix}/deletion_vector_{name}.bin" if prefix else f"deletion_vector_{name}.bin"


def _of_file(data: bytes, offset: int, size: int, path: str) -> bytes:
    (size_in_file,) = struct.unpack_from(">I", data, offset)
    content = data[offset + 4 : offset + 4 + size]
    (checksum,) = struct.unpack_from(">I", data, offset + 4 + size)
    if size_in_file != size or zlib.crc32(content) != checksum:
        raise JudgeError(
            f"the deletion vector at {offset} of {path} does not have the size or the checksum of its file"
        )
    return content


def _positions(data: bytes) -> Iterator[int]:
    magic, count = struct.unpack_from("<IQ", data)
    if magic != MAGIC:
        raise JudgeError(f"a deletion vector begins with {magic}, not {MAGIC}")
    offset = 12
    for _ in range(count):
        (high,) = struct.unpack_from("<I", data, offset)
        low, offset = _bitmap(data, offset + 4)
        yield from (high << 32 | position for position in low)


def _bitmap(data: bytes, offset: int) -> tuple[list[int], int]:
    """The positions of one bitmap of 32 bits, and where it ends."""
    (cookie,) = struct.unpack_from("<I", data, offset)
    if cookie & 0xFFFF == WITH_RUNS:
        blocks = (cookie >> 16) + 1
        flags = data[offset + 4 : offset + 4 + (blocks + 7) // 8]
        offset += 4 + len(flags)
        has_offsets = blocks >= NO_OFFSET_BLOCKS
    elif cookie == WITHOUT_RUNS:
        (blocks,) = struct.unpack_from("<I", data, offset + 4)
        flags, offset, has_offsets = b"", offset + 8, True
    else:
        raise JudgeError(f"a bitmap of a deletion vector begins with {cookie}")
    described = [struct.unpack_from("<HH", data, offset + 4 * block) for block in range(blocks)]
    offset += 4 * blocks + (4 * blocks if has_offsets else 0)
    positions: list[int] = []
    for block, (high, size) in enumerate(described):
        is_run = bool(flags and flags[block // 8] >> block % 8 & 1)
        low, offset = _container(data, offset, size + 1, is_run=is_run)
        positions += (high << 16 | position for position in low)
    return positions, offset


def _container(data: bytes, offset: int, size: int, *, is_run: bool) -> tuple[list[int], int]:
    if is_run:
        (runs,) = struct.unpack_from("<H", data, offset)
        pairs = [struct.unpack_from("<HH", data, offset + 2 + 4 * run) for run in range(runs)]
        return [first + step for first, length in pairs for step in range(length + 1)], offset + 2 + 4 * runs
    if size <= ARRAY_MAX:
        return list(struct.unpack_from(f"<{size}H", data, offset)), offset + 2 * size
    words = int.from_bytes(data[offset : offset + 8192], "little")
    return [bit for bit in range(65536) if words >> bit & 1], offset + 8192
