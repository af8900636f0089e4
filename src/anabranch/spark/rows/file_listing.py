"""The files of a scan as columns, passed to the JVM together and only once: nothing here is done file by file."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import threading
import weakref
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import DoubleType, FloatType, StructField, StructType

from anabranch.data_skipping.partition_columns import partition_texts
from anabranch.errors.protocol import PartitionValueError
from anabranch.log.file_columns import vector_ids
from anabranch.protocol.data_paths import decode_path_column, file_root
from anabranch.protocol.partition_values import parse_column
from anabranch.schema.paths import contains_type
from anabranch.spark.engine import ScanRequest
from anabranch.spark.gateway.jvm_classes import JvmValues


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FileListing:
    """The columns of files have an entry for each file, `groups` has one for each distinct row of partition values."""

    names: tuple[pa.Array, ...]
    """Absolute plain paths, as Spark writes them, one array after the other."""
    sizes: npt.NDArray[np.int64]
    times_ms: npt.NDArray[np.int64]
    group_of: npt.NDArray[np.int32]
    groups: tuple[pa.Array, ...]
    """For each partition column the values as text, in the form of the log; null for null."""
    group_count: int
    has_vector: npt.NDArray[np.bool_]

    @property
    def count(self) -> int:
        return len(self.sizes)


def files_at(request: ScanRequest, positions: npt.NDArray[np.integer]) -> pa.Table:
    """The files of the request at these positions, with the columns of `LIVE_FILE_SCHEMA`."""
    if "stats" in request.files.column_names:
        return request.files.take(pa.array(positions))
    assert request.load_rows is not None, "files without statistics come with a function that loads them"
    return request.load_rows(positions)


def listing_of(
    files: pa.Table,
    *,
    table_root: str,
    physical_partition_columns: Sequence[str],
    allowed_prefixes: Sequence[str] = (),
) -> FileListing:
    """The listing of live files. Raises `UnsafePathError` for a path that leaves the table."""
    texts = [partition_texts(files["partition_values"], name) for name in physical_partition_columns]
    groups, group_of = _grouped(texts, len(files))
    return FileListing(
        names=tuple(
            absolute_names(paths, table_root=table_root, allowed_prefixes=allowed_prefixes)
            for paths in files["path"].chunks
        ),
        sizes=_integers(files["size"]),
        times_ms=_integers(files["modification_time"]),
        group_of=group_of,
        groups=groups,
        group_count=int(group_of.max()) + 1 if len(group_of) else 0,
        has_vector=files["deletion_vector"].is_valid().to_numpy().astype(np.bool_),
    )


@contextlib.contextmanager
def naming_bad_values(listing: FileListing, fields: Sequence[StructField], *, table: str) -> Iterator[None]:
    """A block whose failure is a `PartitionValueError`, if a partition value of the listing does not parse."""
    try:
        yield
    except Exception:
        for field, texts in zip(fields, listing.groups, strict=True):
            try:
                parse_column(texts, field.dataType)
            except PartitionValueError as error:
                raise dataclasses.replace(error, column=field.name, table=table) from None
        raise


def absolute_names(paths: pa.Array, *, table_root: str, allowed_prefixes: Sequence[str] = ()) -> pa.Array:
    """Paths of the log as absolute plain paths below `table_root`, or below an allowed prefix, as Hadoop takes them."""
    plain = decode_path_column(paths.cast(pa.string()), table_root=table_root, allowed_prefixes=allowed_prefixes)
    below = pc.binary_join_element_wise(file_root(table_root).rstrip("/"), plain, "/")
    for prefix in allowed_prefixes:
        elsewhere = pc.binary_join_element_wise("file:" if prefix.startswith("/") else "", plain, "")
        below = pc.if_else(pc.starts_with(plain, prefix.rstrip("/") + "/"), elsewhere, below)
    return below


def _grouped(columns: list[pa.Array], count: int) -> tuple[tuple[pa.Array, ...], npt.NDArray[np.int32]]:
    """The distinct rows of `columns`, and the number of its distinct row for each row."""
    group_of = np.zeros(count, dtype=np.int64)
    for column in columns:
        coded = column.dictionary_encode(null_encoding="encode")
        width = max(len(coded.dictionary), 1)
        _, group_of = np.unique(group_of * width + coded.indices.to_numpy().astype(np.int64), return_inverse=True)
    _, firsts = np.unique(group_of, return_index=True)
    return tuple(column.take(pa.array(firsts)) for column in columns), group_of.astype(np.int32)


def _integers(column: pa.ChunkedArray) -> npt.NDArray[np.int64]:
    return np.asarray(pc.fill_null(column, 0).to_numpy(), dtype=np.int64)


_NO_DICTIONARY_FILTER = {"parquet.filter.dictionary.enabled": "false"}


def filter_options(schema: StructType) -> dict[str, str]:
    """Options for reading files of these columns, so that `x = 0.0` finds -0.0.

    In SQL the two are equal; the dictionary filter of the Parquet library compares their bits, and skips row groups
    whose only zero is the other one. Statistics do no harm: writers must widen them for zeros.
    """
    return dict(_NO_DICTIONARY_FILTER) if contains_type(schema, (FloatType, DoubleType)) else {}


LISTS_KEPT_MAX = 8
SENT_BYTES_MAX = 4 * 1024 * 1024


class FileListCache:
    """The newest lists of files of one session in the JVM, shared by scans of the same files.

    Any thread may use it.
    """

    def __init__(self, values: JvmValues) -> None:
        self._values = values
        self._lock = threading.Lock()
        self._by_digest: OrderedDict[str, Any] = OrderedDict()
        self._by_table: dict[tuple[int, str], tuple[weakref.ref[pa.Table], str]] = {}

    def cached(self, files: pa.Table, variant: str) -> Any | None:
        """The list for this table object, if it was passed to the JVM and is still cached.

        `variant` is a text of everything else that the list depends on.
        """
        with self._lock:
            entry = self._by_table.get((id(files), variant))
            if entry is None or entry[0]() is not files:
                return None
            return self._by_digest.get(entry[1])

    def list_of(
        self,
        files: pa.Table,
        variant: str,
        listing: FileListing,
        *,
        root: str,
        group_schema: StructType,
        time_zone: str,
    ) -> Any:
        """A `ListedFiles$Files` with these files; that of an earlier scan, if it has the same content."""
        names, name_ends = _texts(listing.names)
        vector_names, vector_ends = _texts(_vector_ids(files))
        numbers = np.column_stack((listing.sizes, listing.times_ms)).astype("<i8").tobytes()
        lengths, texts = _flat(listing.groups, listing.group_count)
        group_of = listing.group_of.astype("<i4").tobytes()
        numbers_and_groups = [[part] for part in (name_ends, numbers, group_of, lengths, texts)]
        digest = _digest([variant.encode()], names, *numbers_and_groups, vector_names, [vector_ends])
        with self._lock:
            file_list = self._by_digest.get(digest)
        if file_list is None:
            file_list = self._values.anabranch.FileScans.files(
                digest,
                root,
                self._sent(names),
                name_ends,
                self._sent([memoryview(numbers)]),
                group_of,
                listing.group_count,
                lengths,
                texts,
                self._values.type(group_schema),
                time_zone,
                listing.has_vector.astype(np.uint8).tobytes(),
            )
        self._keep(files, variant, digest, file_list)
        return file_list

    def _sent(self, parts: Sequence[memoryview]) -> Any:
        """The bytes as an argument. Many are sent in parts, since a call has its arguments in memory several times."""
        size_bytes = sum(map(len, parts))
        if size_bytes <= SENT_BYTES_MAX:
            return b"".join(parts)
        scans = self._values.anabranch.FileScans
        buffer = scans.buffer(size_bytes)
        for part in parts:
            for start in range(0, len(part), SENT_BYTES_MAX):
                scans.append(buffer, bytes(part[start : start + SENT_BYTES_MAX]))
        return buffer

    def _keep(self, files: pa.Table, variant: str, digest: str, file_list: Any) -> None:
        with self._lock:
            self._by_digest[digest] = file_list
            self._by_digest.move_to_end(digest)
            while len(self._by_digest) > LISTS_KEPT_MAX:
                self._by_digest.popitem(last=False)
            for key in [key for key, (table, _) in self._by_table.items() if table() is None]:
                del self._by_table[key]
            self._by_table[id(files), variant] = (weakref.ref(files), digest)


def _vector_ids(files: pa.Table) -> Sequence[pa.Array]:
    ids = pc.fill_null(vector_ids(files["deletion_vector"]), "")
    return ids.chunks if isinstance(ids, pa.ChunkedArray) else [ids]


def _texts(arrays: Sequence[pa.Array]) -> tuple[list[memoryview], bytes]:
    """The UTF-8 of all texts, end to end, and where each ends, as little-endian ints.

    The texts of an array are one part: paths of many files are not joined, as they are most of what a scan needs.
    """
    parts, ends, size_bytes = [], [np.empty(0, "<i4")], 0
    for texts in arrays:
        _, offsets, data = texts.cast(pa.string()).buffers()
        bounds = np.frombuffer(offsets, dtype="<i4", count=texts.offset + len(texts) + 1)[texts.offset :]
        parts.append(memoryview(data or b"")[int(bounds[0]) : int(bounds[-1])])
        ends.append((bounds[1:] - bounds[0] + size_bytes).astype("<i4"))
        size_bytes += len(parts[-1])
    return parts, np.concatenate(ends).tobytes()


def _flat(groups: tuple[pa.Array, ...], group_count: int) -> tuple[bytes, bytes]:
    """The lengths and the UTF-8 of all values, row by row."""
    columns = [[None if text is None else text.encode() for text in column.to_pylist()] for column in groups]
    cells = [column[row] for row in range(group_count) for column in columns]
    lengths = np.array([-1 if cell is None else len(cell) for cell in cells], dtype="<i4")
    return lengths.tobytes(), b"".join(cell for cell in cells if cell)


def _digest(*groups: Sequence[bytes | memoryview]) -> str:
    """A digest of the bytes and of how long each group is; it does not depend on how a group is divided."""
    state = hashlib.blake2b(digest_size=20)
    for group in groups:
        state.update(sum(map(len, group)).to_bytes(8, "little"))
        for part in group:
            state.update(part)
    return state.hexdigest()
