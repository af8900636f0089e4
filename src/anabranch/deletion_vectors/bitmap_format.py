"""A deletion vector as bytes: a magic number and a 64-bit roaring bitmap.

Implements "Deletion Vector Format" of PROTOCOL.md. Positions are row indexes in a data file, from zero; in memory they
are a bitmap or an array.
"""

from __future__ import annotations

import array
import dataclasses
import enum
import operator
import struct
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap64

# The blocks of a 64-bit roaring bitmap in its portable form, checked one by one.
#
# Implements the extension for 64-bit implementations of the RoaringFormatSpec, to which "Deletion Vector Format" of
# PROTOCOL.md refers. The roaring library does not check its input: values out of order or blocks that overlap result
# in a set with wrong answers. So bytes from a table are checked here first.


CONTAINERS_MAX = 1 << 18
"""The most blocks of 65,536 rows in one vector, 17 billion rows. More would take too long to read."""

BLOCK_ROWS = 1 << 16
_BUCKET_KEY_MAX = (1 << 31) - 1
_COOKIE_WITHOUT_RUNS = 12346
_COOKIE_WITH_RUNS = 12347
_ARRAY_VALUES_MAX = 4096
_BITSET_BYTES = BLOCK_ROWS // 8
_OFFSETS_FROM_CONTAINERS = 4
"""With runs, fewer containers than this have no table of offsets."""

Positions = npt.NDArray[np.uint64]
"""Ascending."""


class MalformedBitmapError(Exception):
    """The bytes are not in the format; the message is a clause that says why. Only this package catches it."""


class ContainerKind(enum.Enum):
    """How the rows of a block are stored."""

    ARRAY = "array"
    """Positions in the block, ascending, uint16."""
    BITSET = "bitset"
    """8,192 bytes, lowest bit first, uint8."""
    RUNS = "runs"
    """Pairs of first position and count - 1, ascending and apart, uint16."""


@dataclasses.dataclass(frozen=True, slots=True)
class Container:
    """The rows of one block of 65,536 that are in the bitmap; at least one."""

    block: int
    """The position of its first row, divided by 65,536."""
    kind: ContainerKind
    content: npt.NDArray[np.uint16] | npt.NDArray[np.uint8]


def containers(data: bytes) -> Iterator[Container]:
    """The blocks by ascending position. Raises `MalformedBitmapError` unless all of `data` is one bitmap."""
    cursor = _Cursor(data)
    (buckets,) = cursor.unpack("<Q")
    if buckets > CONTAINERS_MAX:
        raise MalformedBitmapError(f"it claims {buckets} buckets, more than {CONTAINERS_MAX}")
    remaining, last_key = CONTAINERS_MAX, -1
    for _ in range(buckets):
        (key,) = cursor.unpack("<I")
        if key > _BUCKET_KEY_MAX:
            raise MalformedBitmapError(f"the bucket key {key} has its sign bit set")
        if key <= last_key:
            raise MalformedBitmapError(f"the bucket key {key} does not follow {last_key}")
        last_key = key
        for container in _bucket(cursor, key, remaining):
            remaining -= 1
            yield container
    if cursor.remaining:
        raise MalformedBitmapError(f"{cursor.remaining} bytes follow the bitmap")


class _Cursor:
    """Reads forward through bytes, never past their end."""

    __slots__ = ("_data", "_position")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    @property
    def remaining(self) -> int:
        return len(self._data) - self._position

    def unpack(self, layout: str) -> tuple[int, ...]:
        start = self._advance(struct.calcsize(layout))
        return struct.unpack_from(layout, self._data, start)

    def bytes(self, count: int) -> npt.NDArray[np.uint8]:
        start = self._advance(count)
        return np.frombuffer(self._data, dtype=np.uint8, count=count, offset=start)

    def shorts(self, count: int) -> npt.NDArray[np.uint16]:
        start = self._advance(2 * count)
        return np.frombuffer(self._data, dtype="<u2", count=count, offset=start)

    def skip(self, size: int) -> None:
        self._advance(size)

    def _advance(self, size: int) -> int:
        start, end = self._position, self._position + size
        if end > len(self._data):
            raise MalformedBitmapError(f"it ends early: {size} more bytes are expected and {self.remaining} are left")
        self._position = end
        return start


def _bucket(cursor: _Cursor, key: int, containers_max: int) -> Iterator[Container]:
    """The containers of a bucket: all rows whose position has `key` as its upper half."""
    count, runs = _bucket_header(cursor)
    if count > containers_max:
        raise MalformedBitmapError(f"it has more than {CONTAINERS_MAX} containers")
    header = cursor.shorts(2 * count).reshape(count, 2)
    blocks = header[:, 0].astype(np.int64)
    if count > 1 and not (np.diff(blocks) > 0).all():
        raise MalformedBitmapError("the keys of its containers do not ascend")
    if runs is None or count >= _OFFSETS_FROM_CONTAINERS:
        # Offsets are for random access, and not needed here: containers are consecutive.
        cursor.skip(4 * count)
    sizes = header[:, 1].astype(np.int64) + 1
    for index, (block, size) in enumerate(zip(blocks.tolist(), sizes.tolist(), strict=True)):
        position = (key << 16) | block
        if runs is not None and runs[index]:
            yield Container(position, ContainerKind.RUNS, _runs(cursor))
        elif size > _ARRAY_VALUES_MAX:
            yield Container(position, ContainerKind.BITSET, _bitset(cursor, size))
        else:
            yield Container(position, ContainerKind.ARRAY, _values(cursor, size))


def _bucket_header(cursor: _Cursor) -> tuple[int, npt.NDArray[np.uint8] | None]:
    """The number of containers, and for each a bit that is set if it has runs; None if none has."""
    (cookie,) = cursor.unpack("<I")
    if cookie & 0xFFFF == _COOKIE_WITH_RUNS:
        count = (cookie >> 16) + 1
        run_flags = cursor.bytes((count + 7) // 8)
        return count, np.unpackbits(run_flags, bitorder="little")
    if cookie != _COOKIE_WITHOUT_RUNS:
        raise MalformedBitmapError(f"a bucket begins with {cookie}, which is not a cookie of a roaring bitmap")
    (count,) = cursor.unpack("<I")
    if count > BLOCK_ROWS:
        raise MalformedBitmapError(f"a bucket claims {count} containers")
    return count, None


def _values(cursor: _Cursor, count: int) -> npt.NDArray[np.uint16]:
    values = cursor.shorts(count)
    if count > 1 and not (values[1:] > values[:-1]).all():
        raise MalformedBitmapError("positions in an array container do not ascend")
    return values


def _bitset(cursor: _Cursor, count: int) -> npt.NDArray[np.uint8]:
    bits = cursor.bytes(_BITSET_BYTES)
    actual = int(np.unpackbits(bits).sum(dtype=np.int64))
    if actual != count:
        raise MalformedBitmapError(f"a bitset container has {actual} positions and claims {count}")
    return bits


def _runs(cursor: _Cursor) -> npt.NDArray[np.uint16]:
    (count,) = cursor.unpack("<H")
    if count == 0:
        raise MalformedBitmapError("a run container is empty")
    runs = cursor.shorts(2 * count).reshape(count, 2)
    firsts = runs[:, 0].astype(np.int64)
    lasts = firsts + runs[:, 1]
    if lasts[-1] >= BLOCK_ROWS or not (firsts[1:] > lasts[:-1] + 1).all():
        raise MalformedBitmapError("runs overlap or touch, do not ascend or leave their block")
    return runs


PORTABLE_MAGIC = 1681511377
OLD_MAGIC = 1681511376
"""The magic number of a form older than the protocol: consecutive bitmaps, with their lengths and without keys. Delta
still reads it, so tables may have it, but nothing writes it. The inline example of PROTOCOL.md has it with numbers in
big-endian order, which is read too: the magic number shows the order."""


def encode_bitmap(positions: BitMap64) -> bytes:
    """The vector in the portable form of the protocol, as small as the format allows."""
    compact = positions.copy()
    compact.run_optimize()
    data: bytes = compact.serialize()
    return struct.pack("<I", PORTABLE_MAGIC) + data


def decode_bitmap(data: bytes) -> BitMap64:
    """The positions in a vector, in the portable or the old form. Raises `MalformedBitmapError`."""
    if len(data) < 4:
        raise MalformedBitmapError(f"it has {len(data)} bytes, too few for a magic number")
    (magic,) = struct.unpack_from("<I", data)
    if magic == PORTABLE_MAGIC:
        portable = data[4:]
    elif magic == OLD_MAGIC:
        portable = _old_to_portable(data, number="<I")
    elif struct.unpack_from(">I", data) == (OLD_MAGIC,):
        portable = _old_to_portable(data, number=">I")
    else:
        raise MalformedBitmapError(f"its magic number is {magic}, not {PORTABLE_MAGIC}")
    if not _is_one_short_array(portable):
        for _ in containers(portable):
            pass
    return BitMap64.deserialize(portable)


_SHORT_ARRAY = struct.Struct("<QIIIHHI")
"""One bucket of one container without runs: the buckets, the key, the cookie, the containers, the block, the number of
positions less one, the offset of the first."""
_SHORT_ARRAY_VALUES_MAX = 128


def _is_one_short_array(portable: bytes) -> bool:
    """Whether the bitmap is a few single positions of one block, without a fault: the vector of most small changes.

    It checks what `containers` does, in less time.
    """
    count, odd = divmod(len(portable) - _SHORT_ARRAY.size, 2)
    if odd or not 0 < count <= _SHORT_ARRAY_VALUES_MAX:
        return False
    buckets, key, cookie, blocks, _, last, _ = _SHORT_ARRAY.unpack_from(portable)
    if (buckets, cookie, blocks, last) != (1, _COOKIE_WITHOUT_RUNS, 1, count - 1) or key > _BUCKET_KEY_MAX:
        return False
    values = struct.unpack_from(f"<{count}H", portable, _SHORT_ARRAY.size)
    return all(map(operator.lt, values, values[1:]))


def _old_to_portable(data: bytes, *, number: str) -> bytes:
    """The bitmap in the portable form, in which the key of a bucket is its index."""
    if len(data) < 8:
        raise MalformedBitmapError("it ends before its number of buckets")
    (buckets,) = struct.unpack_from(number, data, 4)
    if buckets > CONTAINERS_MAX:
        raise MalformedBitmapError(f"it claims {buckets} buckets, more than {CONTAINERS_MAX}")
    parts, position = [struct.pack("<Q", buckets)], 8
    for key in range(buckets):
        if len(data) < position + 4:
            raise MalformedBitmapError("it ends before the length of a bucket")
        (size,) = struct.unpack_from(number, data, position)
        position += 4
        if size > len(data) - position:
            raise MalformedBitmapError(
                f"it ends early: a bucket of {size} bytes is expected, {len(data) - position} are left"
            )
        parts += [struct.pack("<I", key), data[position : position + size]]
        position += size
    if position != len(data):
        raise MalformedBitmapError(f"{len(data) - position} bytes follow the bitmap")
    return b"".join(parts)


def sorted_positions(positions: BitMap64) -> Positions:
    """The positions as an ascending array."""
    return np.asarray(positions.to_array(), dtype=np.uint64)


def bitmap_of(positions: Positions) -> BitMap64:
    """The positions as a bitmap; here they may be in any order."""
    # From numpy's own arrays the library takes one number after the other, in four times the time.
    return BitMap64(array.array("Q", positions.astype(np.uint64, copy=False).tobytes()))
