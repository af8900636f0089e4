"""Reading deletion vectors: from a descriptor in the log to the positions of hidden rows.

Implements "Deletion Vector Descriptor Schema" and "Deletion Vector File Storage Format" of PROTOCOL.md. All
values in a descriptor or a file are checked before use, and any inconsistency raises a `DeletionVectorError`: a vector
that cannot be read must never count as one that hides nothing.
"""

from __future__ import annotations

import concurrent.futures
import dataclasses
import struct
import zlib
from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from anabranch.deletion_vectors.bitmap_format import (
    BLOCK_ROWS,
    Container,
    ContainerKind,
    MalformedBitmapError,
    containers,
    decode_bitmap,
)
from anabranch.deletion_vectors.vector_descriptors import (
    FILE_VERSION,
    decode_base85,
    descriptor_fault,
    short_id,
    vector_path,
)
from anabranch.errors.log import (
    DeletionVectorCardinalityError,
    DeletionVectorChecksumError,
    DeletionVectorDescriptorError,
    DeletionVectorFormatError,
    DeletionVectorRowIndexError,
    DeletionVectorSizeError,
)
from anabranch.protocol.actions import DeletionVectorDescriptor
from anabranch.protocol.data_paths import relative_path
from anabranch.storage.external_files import allowed_prefixes_of
from anabranch.storage.log_store import LogStore

GAP_BYTES_MAX = 1 << 20
"""The largest gap between two vectors of a file that is read with them, instead of a second request."""
READ_BYTES_MAX = 64 << 20
"""The longest read of several vectors."""
PARALLEL_READS = 16

INLINE = "i"
ABSOLUTE = "p"
_LENGTH_BYTES = 4
_CHECKSUM_BYTES = 4


class LoadVectors(Protocol):
    """`load_vectors` of one table: the hidden rows of several vectors, each bounded by the rows of its data file."""

    def __call__(
        self, descriptors: Sequence[DeletionVectorDescriptor], *, num_rows: Sequence[int | None]
    ) -> Sequence[BitMap64]: ...


def load_vector(
    store: LogStore, descriptor: DeletionVectorDescriptor, *, num_rows: int | None = None, table_root: str | None = None
) -> BitMap64:
    """The positions of the rows that the vector hides, checked against `num_rows` of the data file.

    `table_root` is the root of the table whose log has the descriptor, if it is not the store's root: paths are
    relative to it. Raises `DeletionVectorError`, `StorageError`.
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
    """The hidden rows of several vectors, in their order; vectors of one file are read together. See `load_vector`."""
    table = table_root or store.root
    bounds = num_rows if num_rows is not None else [None] * len(descriptors)
    has_absolute = any(descriptor.storage_type == ABSOLUTE for descriptor in descriptors)
    allowed_prefixes = allowed_prefixes_of(store) if has_absolute else ()
    stored: dict[int, bytes] = {}
    by_path: dict[str, list[tuple[int, DeletionVectorDescriptor]]] = {}
    for index, descriptor in enumerate(descriptors):
        _check_size(descriptor, bounds[index], table)
        reason = descriptor_fault(descriptor)
        if reason is not None:
            raise DeletionVectorDescriptorError(table=table, vector=short_id(descriptor), reason=reason)
        if descriptor.storage_type == INLINE:
            stored[index] = _inline_bytes(descriptor, table)
        else:
            path = vector_path(descriptor, table_root=table, allowed_prefixes=allowed_prefixes)
            by_path.setdefault(path, []).append((index, descriptor))
    reads = [read for path, members in by_path.items() for read in _plan_reads(path, members)]
    for loaded in _in_parallel(store, reads, table):
        stored.update(loaded)
    return [
        _checked_vector(stored.pop(index), descriptor, bound, table)
        for index, (descriptor, bound) in enumerate(zip(descriptors, bounds, strict=True))
    ]


def _check_size(descriptor: DeletionVectorDescriptor, num_rows: int | None, table: str) -> None:
    """Raises `DeletionVectorSizeError` if a descriptor claims more bytes than a vector of `num_rows` rows can have."""
    if num_rows is not None and descriptor.size_in_bytes > _size_max(num_rows):
        reason = f"the log says it has {descriptor.size_in_bytes} bytes, too many for a file with {num_rows} rows"
        raise DeletionVectorSizeError(table=table, vector=short_id(descriptor), reason=reason)


def _size_max(num_rows: int) -> int:
    """An upper limit of the bytes of a vector: all blocks as runs of single rows, the longest of the three forms."""
    blocks = num_rows // BLOCK_ROWS + 1
    return 1024 + blocks * (2 * BLOCK_ROWS + 64)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Read:
    """One range of a file, and the vectors in it."""

    path: str
    start: int
    end: int
    members: tuple[tuple[int, DeletionVectorDescriptor], ...]


def _plan_reads(path: str, members: list[tuple[int, DeletionVectorDescriptor]]) -> list[_Read]:
    """Ranges of a file with its vectors, as few as possible; the first one starts at the version byte."""
    reads: list[_Read] = []
    # The version byte is at offset 0. If the first vector is far from it, the byte takes a read of its own.
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
    with concurrent.futures.ThreadPoolExecutor(max_workers=min(PARALLEL_READS, len(reads))) as pool:
        return list(pool.map(lambda read: _perform(store, read, table), reads))


def _perform(store: LogStore, read: _Read, table: str) -> dict[int, bytes]:
    data = store.read_range(read.path, read.start, read.end - read.start)
    if read.start == 0 and data[0] != FILE_VERSION:
        # Exactly one of the reads of a file begins at its first byte.
        reason = f"the version of its file {read.path} is {data[0]}, not {FILE_VERSION}"
        vector_id = read.members[0][1].unique_id if read.members else read.path
        raise DeletionVectorFormatError(table=table, vector=vector_id, reason=reason)
    return {
        index: _stored_bytes(data, (descriptor.offset or 0) - read.start, descriptor, table)
        for index, descriptor in read.members
    }


def _stored_bytes(data: bytes, start: int, descriptor: DeletionVectorDescriptor, table: str) -> bytes:
    """The bytes of a vector in a file, checked by their length and checksum there."""
    size = descriptor.size_in_bytes
    (size_in_file,) = struct.unpack_from(">I", data, start)
    if size_in_file != size:
        reason = f"the log says it has {size} bytes and its file says {size_in_file}"
        raise DeletionVectorSizeError(table=table, vector=short_id(descriptor), reason=reason)
    begin = start + _LENGTH_BYTES
    content = data[begin : begin + size]
    (expected,) = struct.unpack_from(">I", data, begin + size)
    if zlib.crc32(content) != expected:
        reason = "its bytes do not have the CRC-32 in its file"
        raise DeletionVectorChecksumError(table=table, vector=short_id(descriptor), reason=reason)
    return content


def _inline_bytes(descriptor: DeletionVectorDescriptor, table: str) -> bytes:
    try:
        padded = decode_base85(descriptor.path_or_inline_dv)
    except ValueError as error:
        raise DeletionVectorFormatError(table=table, vector=short_id(descriptor), reason=str(error)) from None
    size = descriptor.size_in_bytes
    if not 0 <= len(padded) - size < 4:
        reason = f"the log says it has {size} bytes and its text has {len(padded)}"
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
    if num_rows is not None and len(vector) and vector.max() >= num_rows:
        # It is damaged, or that of another file: rows that should be hidden would be visible.
        reason = f"it hides row {vector.max()} of a file with {num_rows} rows"
        raise DeletionVectorRowIndexError(table=table, vector=short_id(descriptor), reason=reason)
    return vector


# Hidden rows as 64-bit words, in which Spark tests them: `words[i >> 6] >> (i & 63) & 1`.


_WORD_ROWS = 64
_BLOCK_BYTES = BLOCK_ROWS // 8


def to_words(positions: BitMap64, *, num_rows: int) -> npt.NDArray[np.int64]:
    """One bit per row, lowest first, in `ceil(num_rows / 64)` words.

    Raises ValueError for positions from `num_rows` on. The time grows with blocks of 65,536 rows, not with rows.
    """
    if num_rows < 0 or (len(positions) and positions.max() >= num_rows):
        raise ValueError(f"a position is outside the {num_rows} rows")
    word_count = -(-num_rows // _WORD_ROWS)
    # Complete blocks, so that every container has its full length.
    bits = np.zeros(-(-num_rows // BLOCK_ROWS) * _BLOCK_BYTES, dtype=np.uint8)
    for container in containers(positions.serialize()):
        start = container.block * _BLOCK_BYTES
        bits[start : start + _BLOCK_BYTES] = _block_bits(container)
    return bits.view("<i8")[:word_count].astype(np.int64, copy=False)


def _block_bits(container: Container) -> npt.NDArray[np.uint8]:
    if container.kind is ContainerKind.BITSET:
        return container.content.view(np.uint8)
    if container.kind is ContainerKind.ARRAY:
        flags = np.zeros(BLOCK_ROWS, dtype=np.uint8)
        flags[container.content] = 1
    else:
        # +1 where a run begins, -1 after its end: the cumulative sum is 1 inside runs.
        steps = np.zeros(BLOCK_ROWS + 1, dtype=np.int8)
        firsts = container.content[:, 0].astype(np.int64)
        np.add.at(steps, firsts, 1)
        np.subtract.at(steps, firsts + container.content[:, 1] + 1, 1)
        flags = np.cumsum(steps[:-1], dtype=np.int8).view(np.uint8)
    return np.packbits(flags, bitorder="little")


# The deletion vector files in a log, which may have many vectors each.


def distinct_files(vectors: pa.ChunkedArray) -> list[DeletionVectorDescriptor]:
    """One descriptor for each deletion vector file in `vectors`; none for inline vectors.

    The descriptors have the location of the file only, not that of a vector in it.
    """
    vectors = pc.drop_null(vectors)
    if not len(vectors):
        return []
    types, texts = pc.struct_field(vectors, "storage_type"), pc.struct_field(vectors, "path_or_inline_dv")
    stored = pc.not_equal(types, INLINE)
    locations = pa.table({"type": types.filter(stored), "text": texts.filter(stored)})
    distinct = locations.group_by(["type", "text"]).aggregate([])
    return [
        DeletionVectorDescriptor(storage_type=kind, path_or_inline_dv=text, size_in_bytes=0, cardinality=0)
        for kind, text in zip(distinct["type"].to_pylist(), distinct["text"].to_pylist(), strict=True)
    ]


def path_in_table(descriptor: DeletionVectorDescriptor, *, table_root: str) -> str | None:
    """The plain path of the vector's file below the table's root; None for a file elsewhere, and for an inline vector.

    Raises `DeletionVectorDescriptorError`, and `UnsafePathError` for an invalid path.
    """
    if descriptor.storage_type == INLINE:
        return None
    if descriptor.storage_type == ABSOLUTE:
        return relative_path(descriptor.path_or_inline_dv, table_root=table_root)
    return vector_path(descriptor, table_root=table_root)
