"""A deletion vector as bytes: a magic number and a 64-bit roaring bitmap.

Implements "Deletion Vector Format" of PROTOCOL.md. Positions are row indexes in a data file, from zero.
"""

from __future__ import annotations

import struct

from pyroaring import BitMap64

from anabranch.deletion_vectors.containers import CONTAINERS_MAX, MalformedBitmapError, containers

PORTABLE_MAGIC = 1681511377
OLD_MAGIC = 1681511376
"""A form from before the protocol: bitmaps one after another, each with its length, none with a key. Delta still
reads it, so tables may hold it; nothing writes it. The inline example of PROTOCOL.md has it with its numbers in
big-endian order, which we read too: the magic number tells the two apart."""


def encode_bitmap(positions: BitMap64) -> bytes:
    """The vector in the form the protocol names, as small as the format allows."""
    compact = positions.copy()
    compact.run_optimize()
    data: bytes = compact.serialize()
    return struct.pack("<I", PORTABLE_MAGIC) + data


def decode_bitmap(data: bytes) -> BitMap64:
    """The positions in a vector of either form. Raises `MalformedBitmapError`."""
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
    for _ in containers(portable):
        pass
    return BitMap64.deserialize(portable)


def _old_to_portable(data: bytes, *, number: str) -> bytes:
    """The same bitmap in the portable form: the place of a bucket in the row becomes its key."""
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
                f"it ends early: a bucket of {size} bytes is due, {len(data) - position} are left"
            )
        parts += [struct.pack("<I", key), data[position : position + size]]
        position += size
    if position != len(data):
        raise MalformedBitmapError(f"{len(data) - position} bytes follow the bitmap")
    return b"".join(parts)
