"""Hidden rows, from a descriptor in the log to a set of positions.

Implements "Deletion Vector Descriptor Schema" and "Deletion Vector File Storage Format" of PROTOCOL.md. Everything a
descriptor or a file claims is checked before it is used, and every doubt is a `DeletionVectorError`: a vector that
cannot be read must never pass for one that hides nothing.
"""

from __future__ import annotations

import concurrent.futures
import dataclasses
import struct
import zlib
from collections.abc import Sequence

from pyroaring import BitMap64

from anabranch.deletion_vectors import z85
from anabranch.deletion_vectors.containers import BLOCK_ROWS, MalformedBitmapError
from anabranch.deletion_vectors.format import decode_bitmap
from anabranch.deletion_vectors.locations import FILE_VERSION, fault, short_id, vector_path
from anabranch.errors.vectors import (
    DeletionVectorCardinalityError,
    DeletionVectorChecksumError,
    DeletionVectorDescriptorError,
    DeletionVectorFormatError,
    DeletionVectorRowIndexError,
    DeletionVectorSizeError,
)
from anabranch.protocol.actions import DeletionVectorDescriptor
from anabranch.storage.elsewhere import allowed_places
from anabranch.storage.log_store import LogStore

GAP_BYTES_MAX = 1 << 20
"""Bytes between two vectors of a file that are read and dropped rather than asked for apart."""
READ_BYTES_MAX = 64 << 20
"""A read that spans several vectors is no longer than this."""
READS_AT_ONCE = 16

_LENGTH_BYTES = 4
_CHECKSUM_BYTES = 4


def load_vector(
    store: LogStore, descriptor: DeletionVectorDescriptor, *, num_rows: int | None = None, table_root: str | None = None
) -> BitMap64:
    """Positions of the rows that the vector hides; `num_rows` of the data file bounds them.

    `table_root` is the table whose log has the descriptor, where that is not the store's root: paths resolve
    against it. Raises `DeletionVectorError`, `StorageError`.
    """
    (vector,) = load_vectors(store, [descriptor], num_rows=[num_rows], table_root=table_root)
    return vector


def load_vectors(
    store: LogStore,
    descriptors: Sequence[DeletionVectorDescriptor],
    *,
    num_rows: Sequence[int | None] | None = None,
    table_root: str | None = None,
) -> list[BitMap64]:
    """As `load_vector`, for many at once, in their order: vectors of one file are read together."""
    table = table_root or store.root
    bounds = num_rows if num_rows is not None else [None] * len(descriptors)
    elsewhere = allowed_places(store) if any(each.storage_type == "p" for each in descriptors) else ()
    stored: dict[int, bytes] = {}
    places: dict[str, list[tuple[int, DeletionVectorDescriptor]]] = {}
    for index, descriptor in enumerate(descriptors):
        reason = fault(descriptor)
        if reason is not None:
            raise DeletionVectorDescriptorError(table=table, vector=short_id(descriptor), reason=reason)
        bound = bounds[index]
        if bound is not None and descriptor.size_in_bytes > _size_max(bound):
            reason = f"the log says it has {descriptor.size_in_bytes} bytes, too many for a file with {bound} rows"
            raise DeletionVectorSizeError(table=table, vector=short_id(descriptor), reason=reason)
        if descriptor.storage_type == "i":
            stored[index] = _inline_bytes(descriptor, table)
        else:
            path = vector_path(descriptor, table_root=table, allowed_prefixes=elsewhere)
            places.setdefault(path, []).append((index, descriptor))
    reads = [read for path, members in places.items() for read in _plan_reads(path, members)]
    for loaded in _in_parallel(store, reads, table):
        stored.update(loaded)
    return [
        _checked_vector(stored[index], descriptor, bound, table)
        for index, (descriptor, bound) in enumerate(zip(descriptors, bounds, strict=True))
    ]


def _size_max(num_rows: int) -> int:
    """Bytes of a vector whose blocks are written in the worst of the three ways, runs of single rows, and then some."""
    blocks = num_rows // BLOCK_ROWS + 1
    return 1024 + blocks * (2 * BLOCK_ROWS + 64)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Read:
    """One range of one file and the vectors in it."""

    path: str
    start: int
    end: int
    members: tuple[tuple[int, DeletionVectorDescriptor], ...]


def _plan_reads(path: str, members: list[tuple[int, DeletionVectorDescriptor]]) -> list[_Read]:
    """Few ranges that cover the vectors; the first is stretched to the version byte when that is near."""
    reads: list[_Read] = []
    # The version byte stands at 0. A first vector far from it costs one tiny read more.
    run: list[tuple[int, DeletionVectorDescriptor]] = []
    start, end = 0, 1
    for index, descriptor in sorted(members, key=lambda member: member[1].offset or 0):
        first = descriptor.offset or 0
        last = first + _LENGTH_BYTES + descriptor.size_in_bytes + _CHECKSUM_BYTES
        if first - end > GAP_BYTES_MAX or last - start > max(READ_BYTES_MAX, end - start):
            reads.append(_Read(path=path, start=start, end=end, members=tuple(run)))
            run, start, end = [], first, last
        run.append((index, descriptor))
        end = max(end, last)
    return [*reads, _Read(path=path, start=start, end=end, members=tuple(run))]


def _in_parallel(store: LogStore, reads: list[_Read], table: str) -> list[dict[int, bytes]]:
    if len(reads) < 2:
        return [_perform(store, read, table) for read in reads]
    with concurrent.futures.ThreadPoolExecutor(max_workers=min(READS_AT_ONCE, len(reads))) as pool:
        return list(pool.map(lambda read: _perform(store, read, table), reads))


def _perform(store: LogStore, read: _Read, table: str) -> dict[int, bytes]:
    data = store.read_range(read.path, read.start, read.end - read.start)
    if read.start == 0 and data[0] != FILE_VERSION:
        # Every file is read from its first byte on by exactly one of its reads.
        reason = f"the version of its file {read.path} is {data[0]}, not {FILE_VERSION}"
        named = read.members[0][1].unique_id if read.members else read.path
        raise DeletionVectorFormatError(table=table, vector=named, reason=reason)
    return {
        index: _stored_bytes(data, (descriptor.offset or 0) - read.start, descriptor, table)
        for index, descriptor in read.members
    }


def _stored_bytes(data: bytes, start: int, descriptor: DeletionVectorDescriptor, table: str) -> bytes:
    """One vector of a file: its length, its bytes, its checksum."""
    size = descriptor.size_in_bytes
    (size_in_file,) = struct.unpack_from(">I", data, start)
    if size_in_file != size:
        reason = f"the log says it has {size} bytes and its file says {size_in_file}"
        raise DeletionVectorSizeError(table=table, vector=short_id(descriptor), reason=reason)
    begin = start + _LENGTH_BYTES
    content = data[begin : begin + size]
    (expected,) = struct.unpack_from(">I", data, begin + size)
    if zlib.crc32(content) != expected:
        reason = "its bytes do not have the CRC-32 that its file names"
        raise DeletionVectorChecksumError(table=table, vector=short_id(descriptor), reason=reason)
    return content


def _inline_bytes(descriptor: DeletionVectorDescriptor, table: str) -> bytes:
    try:
        padded = z85.decode(descriptor.path_or_inline_dv)
    except ValueError as error:
        raise DeletionVectorFormatError(table=table, vector=short_id(descriptor), reason=str(error)) from None
    size = descriptor.size_in_bytes
    if not 0 <= len(padded) - size < 4:
        reason = f"the log says it has {size} bytes and its text holds {len(padded)}"
        raise DeletionVectorSizeError(table=table, vector=short_id(descriptor), reason=reason)
    return padded[:size]


def _checked_vector(data: bytes, descriptor: DeletionVectorDescriptor, num_rows: int | None, table: str) -> BitMap64:
    try:
        vector = decode_bitmap(data)
    except MalformedBitmapError as error:
        raise DeletionVectorFormatError(table=table, vector=short_id(descriptor), reason=str(error)) from None
    if len(vector) != descriptor.cardinality:
        reason = f"the log says it hides {descriptor.cardinality} rows and it hides {len(vector)}"
        raise DeletionVectorCardinalityError(table=table, vector=short_id(descriptor), reason=reason)
    check_rows(vector, descriptor, num_rows=num_rows, table=table)
    return vector


def check_rows(vector: BitMap64, descriptor: DeletionVectorDescriptor, *, num_rows: int | None, table: str) -> None:
    """Raises `DeletionVectorRowIndexError` where the vector names a row that its file has not.

    Such a vector is another file's, or damaged: the rows that it should hide would be shown.
    """
    if num_rows is not None and len(vector) and vector.max() >= num_rows:
        reason = f"it hides row {vector.max()} of a file with {num_rows} rows"
        raise DeletionVectorRowIndexError(table=table, vector=short_id(descriptor), reason=reason)
