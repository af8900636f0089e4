"""Encoding hidden rows: descriptors for the log, and the bytes of deletion vector files.

Implements "Deletion Vector File Storage Format" and the inline form of PROTOCOL.md. Nothing is written here: the caller
puts `VectorFile.data` at `VectorFile.path`, durably, before it commits a descriptor of a vector in it.
"""

from __future__ import annotations

import dataclasses
import struct
import uuid
import zlib
from collections.abc import Iterator, Sequence

import msgspec
from pyroaring import BitMap64

from anabranch.deletion_vectors import vector_locations
from anabranch.deletion_vectors.bitmap_format import encode_bitmap
from anabranch.deletion_vectors.vector_locations import FILE_VERSION, OFFSET_MAX, encoded_location, vector_file_path
from anabranch.protocol.actions import DeletionVectorDescriptor

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
        path_or_inline_dv=vector_locations.encode_base85(data),
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
