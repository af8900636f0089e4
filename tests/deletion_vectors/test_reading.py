"""What a descriptor or a file of vectors claims is checked before it is believed."""

from __future__ import annotations

import itertools
import pickle
import struct
import uuid
import zlib

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyroaring import BitMap, BitMap64

from anabranch.deletion_vectors import vector_descriptors
from anabranch.deletion_vectors.bitmap_format import (
    OLD_MAGIC,
    PORTABLE_MAGIC,
    ContainerKind,
    MalformedBitmapError,
    containers,
    decode_bitmap,
    encode_bitmap,
)
from anabranch.deletion_vectors.vector_descriptors import encode_files, inline_descriptor
from anabranch.deletion_vectors.vector_reading import load_vector, load_vectors
from anabranch.errors.base import DeltaError
from anabranch.errors.environment import FileMissingError, StorageError
from anabranch.errors.log import (
    DeletionVectorCardinalityError,
    DeletionVectorChecksumError,
    DeletionVectorDescriptorError,
    DeletionVectorError,
    DeletionVectorFormatError,
    DeletionVectorRowIndexError,
    DeletionVectorSizeError,
)
from anabranch.errors.protocol import UnsafePathError
from anabranch.protocol.actions import DeletionVectorDescriptor
from anabranch.storage.memory_store import MemoryStore
from deletion_vectors.vector_files import encode_file

FILE_ID = uuid.UUID("d2c639aa-8816-431a-aaf6-d3fe2512ff61")
POSITIONS = st.one_of(
    st.sets(st.integers(0, 300_000), max_size=50),
    st.sets(st.integers(0, 2**40), max_size=10),
    st.tuples(st.integers(0, 200_000), st.integers(0, 150_000)).map(lambda span: set(range(span[0], sum(span)))),
    st.integers(2, 7).map(lambda step: set(range(0, 140_000, step))),
)


class CountingStore(MemoryStore):
    """Counts reads."""

    reads = 0

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        self.reads += 1
        return super().read_range(path, offset, length)


def changed(descriptor: DeletionVectorDescriptor, **fields: object) -> DeletionVectorDescriptor:
    return msgspec.structs.replace(descriptor, **fields)


@pytest.fixture
def stored() -> tuple[CountingStore, DeletionVectorDescriptor, BitMap64]:
    positions = BitMap64([3, 4, 7, 11, 18, 29, 2**31 + 5])
    written = encode_file([BitMap64([1]), positions], file_id=FILE_ID, prefix="ab")
    store = CountingStore()
    store.put(written.path, written.data)
    return store, written.descriptors[1], positions


def test_the_inline_example_of_the_protocol() -> None:
    example = DeletionVectorDescriptor(
        storage_type="i",
        path_or_inline_dv="wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L",
        size_in_bytes=40,
        cardinality=6,
    )
    assert list(load_vector(MemoryStore(), example)) == [3, 4, 7, 11, 18, 29]


def test_the_path_example_of_the_protocol() -> None:
    store = MemoryStore()
    written = encode_file([BitMap64([5])], file_id=FILE_ID, prefix="ab")
    assert written.path == "ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"
    assert written.descriptors[0].path_or_inline_dv == "ab^-aqEH.-t@S}K{vb[*k^"
    store.put(written.path, written.data)
    assert list(load_vector(store, written.descriptors[0])) == [5]


@given(POSITIONS)
def test_vectors_survive_inline(positions: set[int]) -> None:
    vector = BitMap64(sorted(positions))
    assert load_vector(MemoryStore(), inline_descriptor(vector)) == vector


@settings(max_examples=50, deadline=None)
@given(st.lists(POSITIONS, min_size=1, max_size=5))
def test_vectors_survive_a_shared_file(groups: list[set[int]]) -> None:
    vectors = [BitMap64(sorted(positions)) for positions in groups]
    written = encode_file(vectors, file_id=FILE_ID)
    store = CountingStore()
    store.put(written.path, written.data)

    order = list(reversed(range(len(vectors))))
    assert load_vectors(store, [written.descriptors[i] for i in order]) == [vectors[i] for i in order]
    assert store.reads == 1
    assert [load_vector(store, descriptor) for descriptor in written.descriptors] == vectors


def test_vectors_far_apart_are_read_apart() -> None:
    """What lies between two vectors is not read when it is long."""
    scattered = BitMap64(range(0, 40_000_000, 7))
    vectors = [BitMap64([1]), scattered, BitMap64([2])]
    written = encode_file(vectors, file_id=FILE_ID)
    store = CountingStore()
    store.put(written.path, written.data)

    ends = [written.descriptors[0], written.descriptors[2]]
    assert load_vectors(store, ends) == [vectors[0], vectors[2]]
    assert store.reads == 2
    # The version byte is checked also if the vector is far behind it.
    store.put(written.path, b"\x02" + written.data[1:])
    with pytest.raises(DeletionVectorFormatError, match="version"):
        load_vector(store, written.descriptors[2])


def test_many_vectors_fill_several_files() -> None:
    vectors = [BitMap64(range(i, 20_000_000, 9)) for i in range(3)]
    ids = (uuid.UUID(int=number) for number in itertools.count())
    files = list(encode_files(vectors, file_ids=ids))
    store = MemoryStore()
    for file in files:
        store.put(file.path, file.data)
    assert len({file.path for file in files}) == len(files) > 1
    assert load_vectors(store, [descriptor for file in files for descriptor in file.descriptors]) == vectors
    assert list(encode_files([], file_ids=ids)) == []


@pytest.mark.parametrize("count", [1, 7, 5000])
def test_the_old_form_is_read(count: int) -> None:
    """Delta's reader takes it, so a table may have it. Covers race 13 for the buckets beyond the first."""
    buckets = [BitMap(range(count)), BitMap(), BitMap([5])]
    body = b"".join(struct.pack("<I", len(data)) + data for data in (bucket.serialize() for bucket in buckets))
    data = struct.pack("<II", OLD_MAGIC, len(buckets)) + body
    assert decode_bitmap(data) == BitMap64(range(count)) | BitMap64([(2 << 32) + 5])


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"storage_type": "x"}, DeletionVectorDescriptorError),
        ({"storage_type": ""}, DeletionVectorDescriptorError),
        ({"size_in_bytes": -1}, DeletionVectorDescriptorError),
        ({"size_in_bytes": 2**31 - 1}, DeletionVectorDescriptorError),
        ({"cardinality": -1}, DeletionVectorDescriptorError),
        ({"offset": -1}, DeletionVectorDescriptorError),
        ({"offset": 2**31}, DeletionVectorDescriptorError),
        ({"path_or_inline_dv": "short"}, DeletionVectorDescriptorError),
        ({"path_or_inline_dv": "é" * 20}, DeletionVectorDescriptorError),
        ({"path_or_inline_dv": "../../x/^-aqEH.-t@S}K{vb[*k^"}, DeletionVectorDescriptorError),
        ({"path_or_inline_dv": "..^-aqEH.-t@S}K{vb[*k^"}, DeletionVectorDescriptorError),
        ({"path_or_inline_dv": "a\\b^-aqEH.-t@S}K{vb[*k^"}, DeletionVectorDescriptorError),
        ({"path_or_inline_dv": "a\0b^-aqEH.-t@S}K{vb[*k^"}, DeletionVectorDescriptorError),
        ({"storage_type": "p", "path_or_inline_dv": "memory:/other/deletion_vector.bin"}, UnsafePathError),
        ({"storage_type": "p", "path_or_inline_dv": "memory:/table/../other/x.bin"}, UnsafePathError),
        ({"storage_type": "p", "path_or_inline_dv": "http://metadata/x.bin"}, UnsafePathError),
        ({"storage_type": "p", "path_or_inline_dv": "file:///etc/passwd"}, UnsafePathError),
        ({"path_or_inline_dv": "cd^-aqEH.-t@S}K{vb[*k^"}, FileMissingError),
        ({"offset": 2**31 - 1}, StorageError),
        ({"offset": 1}, DeletionVectorSizeError),
        ({"size_in_bytes": 20}, DeletionVectorSizeError),
        ({"cardinality": 6}, DeletionVectorCardinalityError),
        ({"cardinality": 0}, DeletionVectorCardinalityError),
    ],
)
def test_a_wrong_descriptor_is_an_error(
    stored: tuple[CountingStore, DeletionVectorDescriptor, BitMap64], fields: dict[str, object], error: type[DeltaError]
) -> None:
    """Such bytes never decode to an empty vector, which would show deleted rows. Covers race 14."""
    store, descriptor, _ = stored
    with pytest.raises(error):
        load_vector(store, changed(descriptor, **fields))


def test_an_absolute_path_in_the_table_is_followed(
    stored: tuple[CountingStore, DeletionVectorDescriptor, BitMap64],
) -> None:
    store, descriptor, positions = stored
    path = f"memory:/table/ab/deletion_vector_{FILE_ID}.bin"
    assert load_vector(store, changed(descriptor, storage_type="p", path_or_inline_dv=path)) == positions


def test_a_hidden_row_that_the_file_lacks(stored: tuple[CountingStore, DeletionVectorDescriptor, BitMap64]) -> None:
    store, descriptor, positions = stored
    assert load_vector(store, descriptor, num_rows=positions.max() + 1) == positions
    with pytest.raises(DeletionVectorRowIndexError, match=str(positions.max())):
        load_vector(store, descriptor, num_rows=positions.max())


def test_a_vector_that_claims_more_than_its_file_needs_is_not_read(
    stored: tuple[CountingStore, DeletionVectorDescriptor, BitMap64],
) -> None:
    """Covers attack A9."""
    store, descriptor, _ = stored
    small = changed(descriptor, size_in_bytes=512 << 20)
    with pytest.raises(DeletionVectorSizeError, match="too many for a file with 1000 rows"):
        load_vector(store, small, num_rows=1000)
    assert store.reads == 0


@pytest.mark.parametrize("num_rows", [1, 65_536, 65_537, 200_000])
def test_no_vector_of_all_its_rows_is_too_large(num_rows: int) -> None:
    for hidden in (BitMap64(range(num_rows)), BitMap64(range(0, num_rows, 2)), BitMap64(range(0, num_rows, 3))):
        written = encode_file([hidden], file_id=FILE_ID, prefix="")
        store = MemoryStore()
        store.put(written.path, written.data)
        assert load_vector(store, written.descriptors[0], num_rows=num_rows) == hidden


def test_every_flipped_bit_of_a_vector_is_noticed(
    stored: tuple[CountingStore, DeletionVectorDescriptor, BitMap64],
) -> None:
    """Covers race 14."""
    store, descriptor, _ = stored
    path = f"ab/deletion_vector_{FILE_ID}.bin"
    data = bytearray(store.read(path))
    for position in range(descriptor.offset or 0, len(data)):
        for bit in range(8):
            data[position] ^= 1 << bit
            store.put(path, bytes(data))
            with pytest.raises(DeletionVectorError):
                load_vector(store, descriptor)
            data[position] ^= 1 << bit


def test_a_wrong_checksum_says_so(stored: tuple[CountingStore, DeletionVectorDescriptor, BitMap64]) -> None:
    store, descriptor, _ = stored
    path = f"ab/deletion_vector_{FILE_ID}.bin"
    data = store.read(path)
    store.put(path, data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(DeletionVectorChecksumError) as caught:
        load_vector(store, descriptor)
    assert "memory:/table" in str(caught.value)
    assert descriptor.unique_id in str(caught.value)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_an_inline_vector_of_another_length() -> None:
    descriptor = inline_descriptor(BitMap64([1, 2, 3]))
    for size in (descriptor.size_in_bytes - 4, descriptor.size_in_bytes + 4):
        with pytest.raises(DeletionVectorSizeError):
            load_vector(MemoryStore(), changed(descriptor, size_in_bytes=size))
    with pytest.raises(DeletionVectorFormatError):
        load_vector(MemoryStore(), changed(descriptor, path_or_inline_dv=descriptor.path_or_inline_dv[:-5] + "\"'~`|"))
    with pytest.raises(DeletionVectorDescriptorError):
        load_vector(MemoryStore(), changed(descriptor, offset=1))


def portable(*buckets: tuple[int, bytes], count: int | None = None) -> bytes:
    body = b"".join(struct.pack("<I", key) + data for key, data in buckets)
    return struct.pack("<IQ", PORTABLE_MAGIC, len(buckets) if count is None else count) + body


def array_bucket(*values: int) -> bytes:
    return struct.pack("<IIHHI", 12346, 1, 0, len(values) - 1, 16) + struct.pack(f"<{len(values)}H", *values)


def run_bucket(*runs: tuple[int, int]) -> bytes:
    flat = [number for run in runs for number in run]
    return struct.pack("<HHBHHH", 12347, 0, 1, 0, 0, len(runs)) + struct.pack(f"<{len(flat)}H", *flat)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "too few"),
        (struct.pack("<I", 12345) + bytes(8), "magic"),
        (portable((0, array_bucket(2, 1))), "ascend"),
        (portable((0, array_bucket(1, 1))), "ascend"),
        (portable((1, array_bucket(1)), (0, array_bucket(1))), "does not follow"),
        (portable((0, array_bucket(1)), (0, array_bucket(2))), "does not follow"),
        (portable((1 << 31, array_bucket(1))), "sign bit"),
        (portable(count=2**63), "claims"),
        (portable(count=1 << 18), "ends early"),
        (portable((0, array_bucket(1)), count=2), "ends early"),
        (portable((0, array_bucket(1))) + b"\0", "follow the bitmap"),
        (portable((0, struct.pack("<II", 12346, 65_537))), "claims"),
        (portable((0, struct.pack("<II", 99, 1))), "not a cookie of a roaring bitmap"),
        (portable((0, run_bucket((5, 10), (10, 3)))), "overlap"),
        (portable((0, run_bucket((5, 4), (10, 3)))), "touch"),
        (portable((0, run_bucket((65_000, 10_000)))), "leave"),
        (portable((0, run_bucket())), "empty"),
        (portable((0, struct.pack("<IIHHI", 12346, 1, 0, 5000, 16) + bytes(8192))), "0 positions and claims 5001"),
        (struct.pack("<II", OLD_MAGIC, 2**32 - 1), "claims"),
        (struct.pack("<III", OLD_MAGIC, 1, 2**31), "ends early"),
    ],
)
def test_a_malformed_bitmap_is_refused(data: bytes, reason: str) -> None:
    """Covers attack A10."""
    with pytest.raises(MalformedBitmapError, match=reason):
        decode_bitmap(data)


def test_runs_far_apart_are_read() -> None:
    assert decode_bitmap(portable((0, run_bucket((5, 4), (11, 2))))) == BitMap64([*range(5, 10), *range(11, 14)])


@settings(max_examples=300, deadline=None)
@given(POSITIONS, st.data())
def test_mangled_bitmaps_never_crash(positions: set[int], data: st.DataObject) -> None:
    """A mangled vector is refused, or is a proper set that serialises to the same set again."""
    mangled = bytearray(encode_bitmap(BitMap64(sorted(positions))))
    for _ in range(data.draw(st.integers(1, 4))):
        mangled[data.draw(st.integers(0, len(mangled) - 1))] = data.draw(st.integers(0, 255))
    del mangled[data.draw(st.integers(4, len(mangled))) :]
    try:
        rows = decode_bitmap(bytes(mangled))
    except MalformedBitmapError:
        return
    assert decode_bitmap(encode_bitmap(rows)) == rows
    assert rows == BitMap64(list(rows)) if len(rows) < 200_000 else True


@settings(max_examples=1000, deadline=None)
@given(st.sets(st.integers(0, 70_000), min_size=1, max_size=6), st.data())
def test_a_few_positions_are_checked_as_any_vector_is(rows: set[int], data: st.DataObject) -> None:
    """They have a check of their own, which must refuse everything that the one for all vectors refuses."""
    mangled = bytearray(encode_bitmap(BitMap64(rows)))
    mangled[data.draw(st.integers(4, len(mangled) - 1))] = data.draw(st.integers(0, 255))
    portable = bytes(mangled[4:])
    try:
        blocks = list(containers(portable))
    except MalformedBitmapError:
        with pytest.raises(MalformedBitmapError):
            decode_bitmap(bytes(mangled))
        return
    positions = [(block.block << 16) + int(row) for block in blocks for row in block.content.ravel()]
    if all(block.kind is ContainerKind.ARRAY for block in blocks):
        assert [*decode_bitmap(bytes(mangled))] == positions


@settings(max_examples=300)
@given(st.binary(max_size=200), st.sampled_from([PORTABLE_MAGIC, OLD_MAGIC]), st.booleans())
def test_random_bytes_are_errors_of_ours(noise: bytes, magic: int, checked: bool) -> None:
    content = struct.pack("<I", magic) + noise
    store = MemoryStore()
    framed = struct.pack(">I", len(content)) + content + struct.pack(">I", zlib.crc32(content) if checked else 0)
    store.put(f"deletion_vector_{FILE_ID}.bin", b"\x01" + framed)
    descriptor = DeletionVectorDescriptor(
        storage_type="u",
        path_or_inline_dv=vector_descriptors.encode_base85(FILE_ID.bytes),
        offset=1,
        size_in_bytes=len(content),
        cardinality=10**9,
    )
    with pytest.raises(DeletionVectorError):
        load_vector(store, descriptor)


@given(st.text(max_size=60))
def test_any_text_is_base85_or_refused(text: str) -> None:
    try:
        data = vector_descriptors.decode_base85(text)
    except ValueError:
        return
    assert vector_descriptors.encode_base85(data) == text


@given(st.binary(max_size=40))
def test_base85_round_trip(data: bytes) -> None:
    assert vector_descriptors.decode_base85(vector_descriptors.encode_base85(data))[: len(data)] == data


def test_base85_example_of_its_specification() -> None:
    assert vector_descriptors.encode_base85(bytes.fromhex("864FD26FB559F75B")) == "HelloWorld"
