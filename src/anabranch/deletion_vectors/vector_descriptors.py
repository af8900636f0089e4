"""Descriptors of deletion vectors: where a vector is, inline or in a file, and the bytes of these files.

Implements "Derived Fields" of "Deletion Vector Descriptor Schema", the inline form, and "Deletion Vector File Storage
Format" of PROTOCOL.md. Nothing is written here: the caller puts `VectorFile.data` at `VectorFile.path`, durably, before
it commits a descriptor of a vector in it.
"""

from __future__ import annotations

import dataclasses
import re
import struct
import uuid
import zlib
from collections.abc import Callable, Collection, Iterator, Sequence

import msgspec
import numpy as np
from pyroaring import BitMap64

from anabranch.deletion_vectors.bitmap_format import encode_bitmap
from anabranch.errors.log import DeletionVectorDescriptorError
from anabranch.protocol.actions import DeletionVectorDescriptor
from anabranch.protocol.data_paths import decode_path

# Bytes as text by Z85, the Base85 of vector descriptors. See "Deletion Vector Descriptor Schema" of PROTOCOL.md.


_ALPHABET = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_CHARACTERS = np.frombuffer(_ALPHABET, dtype=np.uint8)
_INVALID = 255
_DIGITS = np.full(256, _INVALID, dtype=np.uint8)
_DIGITS[_CHARACTERS] = np.arange(85, dtype=np.uint8)
_POWERS = np.array([85**4, 85**3, 85**2, 85, 1], dtype=np.int64)


def encode_base85(data: bytes) -> str:
    """Five characters for every four bytes, padded with zero bytes."""
    padded = data + bytes(-len(data) % 4)
    numbers = np.frombuffer(padded, dtype=">u4").astype(np.int64)
    digits = numbers[:, None] // _POWERS % 85
    characters: bytes = _CHARACTERS[digits].tobytes()
    return characters.decode("ascii")


def decode_base85(text: str) -> bytes:
    """The bytes of a text, with any padding. Raises `ValueError`, whose message is a clause."""
    if len(text) % 5:
        raise ValueError(f"its Base85 text has {len(text)} characters, no multiple of 5")
    if not text.isascii():
        raise ValueError("its Base85 text has characters outside the alphabet")
    digits = _DIGITS[np.frombuffer(text.encode("ascii"), dtype=np.uint8)]
    if (digits == _INVALID).any():
        raise ValueError("its Base85 text has characters outside the alphabet")
    numbers = digits.reshape(-1, 5).astype(np.int64) @ _POWERS
    # The largest number of five digits has more than 32 bits.
    if (numbers >> 32).any():
        raise ValueError("its Base85 text has a group above 2^32")
    return numbers.astype(">u4").tobytes()


FILE_VERSION = 1
"""The first byte of a deletion vector file."""
SIZE_BYTES_MAX = 512 << 20
"""The longest vector that is read: four billion rows, a random half of which is hidden."""
OFFSET_MAX = (1 << 31) - 1

_VECTOR_FILE = re.compile(r"deletion_vector_[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\.bin")
_ENCODED_UUID_CHARACTERS = 20
_ID_CHARACTERS_SHOWN = 80


def vector_path(
    descriptor: DeletionVectorDescriptor, *, table_root: str, allowed_prefixes: Collection[str] = ()
) -> str:
    """The plain path of the vector's file, relative to the table, or absolute below an allowed prefix.

    Raises `DeletionVectorDescriptorError`, and `UnsafePathError` for a path outside the table.
    """
    if descriptor.storage_type == "p":
        return decode_path(descriptor.path_or_inline_dv, table_root=table_root, allowed_prefixes=allowed_prefixes)
    text = descriptor.path_or_inline_dv
    prefix, encoded = text[:-_ENCODED_UUID_CHARACTERS], text[-_ENCODED_UUID_CHARACTERS:]
    try:
        file_id = uuid.UUID(bytes=decode_base85(encoded))
    except ValueError:
        reason = "its path does not end with a UUID in Base85"
        raise DeletionVectorDescriptorError(table=table_root, vector=short_id(descriptor), reason=reason) from None
    if prefix in {".", ".."} or any(character in "/\\\0" for character in prefix):
        reason = "the prefix of its path is not a plain directory name"
        raise DeletionVectorDescriptorError(table=table_root, vector=short_id(descriptor), reason=reason)
    return vector_file_path(file_id, prefix=prefix)


def vector_file_path(file_id: uuid.UUID, *, prefix: str) -> str:
    """The plain path of a deletion vector file below the table's root."""
    name = f"deletion_vector_{file_id}.bin"
    return f"{prefix}/{name}" if prefix else name


def is_vector_file(path: str) -> bool:
    """Whether a path, plain or URI-encoded, is that of a deletion vector file."""
    return _VECTOR_FILE.fullmatch(path.rpartition("/")[2]) is not None


def encoded_location(file_id: uuid.UUID, *, prefix: str) -> str:
    """The `pathOrInlineDv` of a vector in a file."""
    return prefix + encode_base85(file_id.bytes)


def descriptor_fault(descriptor: DeletionVectorDescriptor) -> str | None:
    """What is invalid in a descriptor, as a clause; None for a valid one."""
    if descriptor.storage_type not in {"u", "p", "i"}:
        return f"its storage type is {descriptor.storage_type[:10]!r}, not one of u, p, i"
    if not 0 <= descriptor.size_in_bytes <= SIZE_BYTES_MAX:
        return f"its size of {descriptor.size_in_bytes} bytes is not between 0 and {SIZE_BYTES_MAX}"
    if descriptor.cardinality < 0:
        return f"its cardinality is {descriptor.cardinality}"
    if descriptor.storage_type == "i":
        if descriptor.offset is not None:
            return "it is inline and has an offset"
        if len(descriptor.path_or_inline_dv) > 2 * SIZE_BYTES_MAX:
            return f"its text has {len(descriptor.path_or_inline_dv)} characters"
    elif not 0 <= (descriptor.offset or 0) <= OFFSET_MAX:
        return f"its offset is {descriptor.offset}"
    return None


def short_id(descriptor: DeletionVectorDescriptor) -> str:
    """The unique id of a vector, shortened for messages, since inline vectors may be long."""
    unique_id = descriptor.unique_id
    if len(unique_id) <= _ID_CHARACTERS_SHOWN:
        return unique_id
    return unique_id[:_ID_CHARACTERS_SHOWN] + "…"


# Names of new deletion vector files.


def file_ids(new_uuid: Callable[[], str]) -> Iterator[uuid.UUID]:
    """An infinite sequence of UUIDs from `new_uuid`, which returns a new one in text at each call."""
    while True:
        yield uuid.UUID(new_uuid())


FILE_BYTES_TARGET = 2 << 20
"""The size at which a file is closed, so that reading one of its vectors fetches few other bytes."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class VectorFile:
    """The bytes of a deletion vector file, and the descriptors of the vectors in it, in their order."""

    path: str
    """The plain path, relative to the table's root."""
    data: bytes
    descriptors: tuple[DeletionVectorDescriptor, ...]

    def renamed(self, file_id: uuid.UUID) -> VectorFile:
        """The file with another name, in the table's root."""
        location = encoded_location(file_id, prefix="")
        return VectorFile(
            path=vector_file_path(file_id, prefix=""),
            data=self.data,
            descriptors=tuple(
                msgspec.structs.replace(descriptor, path_or_inline_dv=location) for descriptor in self.descriptors
            ),
        )


def inline_descriptor(positions: BitMap64) -> DeletionVectorDescriptor:
    """A descriptor that contains the vector itself."""
    data = encode_bitmap(positions)
    return DeletionVectorDescriptor(
        storage_type="i",
        path_or_inline_dv=encode_base85(data),
        size_in_bytes=len(data),
        cardinality=len(positions),
    )


def encode_files(
    vectors: Sequence[BitMap64], *, file_ids: Iterator[uuid.UUID], prefixes: Iterator[str] | None = None
) -> Iterator[VectorFile]:
    """Files with the vectors in their order, each closed once it has `FILE_BYTES_TARGET` bytes."""
    pending: list[tuple[bytes, int]] = []
    size = 1
    for index, vector in enumerate(vectors):
        pending.append((encode_bitmap(vector), len(vector)))
        size += len(pending[-1][0]) + 8
        if size >= FILE_BYTES_TARGET or index == len(vectors) - 1:
            file_id, prefix = next(file_ids), next(prefixes) if prefixes else ""
            yield _file(
                pending,
                location=encoded_location(file_id, prefix=prefix),
                path=vector_file_path(file_id, prefix=prefix),
            )
            pending, size = [], 1


def _file(encoded: list[tuple[bytes, int]], *, location: str, path: str) -> VectorFile:
    data = bytearray([FILE_VERSION])
    descriptors = []
    for content, cardinality in encoded:
        if len(data) > OFFSET_MAX:
            raise ValueError(f"a deletion vector file has at most {OFFSET_MAX} bytes; {path} would have more")
        descriptors.append(
            DeletionVectorDescriptor(
                storage_type="u",
                path_or_inline_dv=location,
                offset=len(data),
                size_in_bytes=len(content),
                cardinality=cardinality,
            )
        )
        data += struct.pack(">I", len(content)) + content + struct.pack(">I", zlib.crc32(content))
    return VectorFile(path=path, data=bytes(data), descriptors=tuple(descriptors))
