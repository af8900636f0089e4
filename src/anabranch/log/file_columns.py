"""Files of a table as Arrow columns, one row per logical file.

Column names are the field names of `AddFile` and `RemoveFile`. See "Add File and Remove File". Statistics are texts
that are long and much alike: those of many files are kept compressed.
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.protocol.actions import AddFile, DeletionVectorDescriptor, RemoveFile

FileMask = npt.NDArray[np.bool_]
"""One entry per file, in the order of a table of files; True for those that are selected."""

STRING_MAP = pa.map_(pa.string(), pa.string())

DELETION_VECTOR = pa.struct(
    [
        pa.field("storage_type", pa.string()),
        pa.field("path_or_inline_dv", pa.string()),
        pa.field("offset", pa.int32()),
        pa.field("size_in_bytes", pa.int32()),
        pa.field("cardinality", pa.int64()),
        pa.field("max_row_index", pa.int64()),
    ]
)

LIVE_FILE_SCHEMA = pa.schema(
    [
        pa.field("path", pa.string(), nullable=False),
        pa.field("partition_values", STRING_MAP),
        pa.field("size", pa.int64()),
        pa.field("modification_time", pa.int64()),
        pa.field("stats", pa.string()),
        pa.field("tags", STRING_MAP),
        pa.field("deletion_vector", DELETION_VECTOR),
        pa.field("base_row_id", pa.int64()),
        pa.field("default_row_commit_version", pa.int64()),
        pa.field("clustering_provider", pa.string()),
    ]
)
"""The columns of live files."""
COLUMNS_WITHOUT_STATS = tuple(name for name in LIVE_FILE_SCHEMA.names if name != "stats")
"""Statistics are most of the bytes of many files and often not needed: they are decoded on demand, a part at a time."""

TOMBSTONE_SCHEMA = pa.schema(
    [
        pa.field("path", pa.string(), nullable=False),
        pa.field("deletion_timestamp", pa.int64()),
        pa.field("data_change", pa.bool_()),
        pa.field("extended_file_metadata", pa.bool_()),
        pa.field("partition_values", STRING_MAP),
        pa.field("size", pa.int64()),
        pa.field("deletion_vector", DELETION_VECTOR),
        pa.field("base_row_id", pa.int64()),
        pa.field("default_row_commit_version", pa.int64()),
    ]
)
"""The columns of tombstones, without `stats` and `tags`, which checkpoints do not have for them. See "Checkpoints"."""

_MAPS = {"partition_values", "tags"}


def table_of_adds(adds: Sequence[AddFile]) -> pa.Table:
    """The actions as rows of `LIVE_FILE_SCHEMA`, in order."""
    return _table_of(adds, LIVE_FILE_SCHEMA)


def table_of_removes(removes: Sequence[RemoveFile]) -> pa.Table:
    """The actions as rows of `TOMBSTONE_SCHEMA`, in order."""
    return _table_of(removes, TOMBSTONE_SCHEMA)


def adds_of_table(table: pa.Table, *, data_change: bool) -> list[AddFile]:
    """The rows of `LIVE_FILE_SCHEMA` as actions, with this `data_change`, which is not one of the columns."""
    rows = _rows(table, LIVE_FILE_SCHEMA)
    return [AddFile(data_change=data_change, **row) for row in rows]


def vector_ids(deletion_vectors: pa.ChunkedArray | pa.Array) -> pa.ChunkedArray | pa.Array:
    """The unique id of each vector, null where there is none. See "Derived Fields"."""
    if deletion_vectors.null_count == len(deletion_vectors):
        return pa.nulls(len(deletion_vectors), pa.string())
    location = pc.binary_join_element_wise(
        pc.struct_field(deletion_vectors, "storage_type"),
        pc.cast(pc.struct_field(deletion_vectors, "path_or_inline_dv"), pa.string()),
        "",
    )
    offset = pc.cast(pc.struct_field(deletion_vectors, "offset"), pa.string())
    suffix = pc.fill_null(pc.binary_join_element_wise("@", offset, ""), "")
    return pc.binary_join_element_wise(location, suffix, "")


def logical_keys(table: pa.Table) -> pa.ChunkedArray | pa.Array:
    """The keys of logical files, as strings: the path, and the id of the deletion vector if there is one.

    A newline separates the two: neither a URI-encoded path nor a vector id contains one.
    """
    paths = pc.cast(table["path"], pa.string())
    vectors = table["deletion_vector"]
    if vectors.null_count == len(vectors):
        return paths
    suffix = pc.fill_null(pc.binary_join_element_wise("\n", vector_ids(vectors), ""), "")
    return pc.binary_join_element_wise(paths, suffix, "")


def logical_keys_of(*tables: pa.Table) -> pa.ChunkedArray:
    """The keys of all rows of several tables, in order."""
    chunks: list[pa.Array] = []
    for keys in map(logical_keys, tables):
        chunks += keys.chunks if isinstance(keys, pa.ChunkedArray) else [keys]
    return pa.chunked_array(chunks, pa.string())


def _table_of(actions: Sequence[AddFile] | Sequence[RemoveFile], schema: pa.Schema) -> pa.Table:
    fields_of = operator.attrgetter(*schema.names)
    columns: list[Any] = list(zip(*map(fields_of, actions), strict=True)) or [()] * len(schema)
    arrays = []
    for field, values in zip(schema, columns, strict=True):
        if field.name in _MAPS:
            items = [None if value is None else tuple(value.items()) for value in values]
            arrays.append(pa.array(items, field.type))
        else:
            arrays.append(_vector_column(values) if field.name == "deletion_vector" else pa.array(values, field.type))
    return pa.Table.from_arrays(arrays, schema=schema)


def num_bytes(files: pa.Table, chosen: FileMask) -> int:
    """The size of the files that are chosen."""
    return int(pc.sum(files["size"].filter(chosen)).as_py() or 0)


def _vector_column(vectors: Sequence[DeletionVectorDescriptor | None]) -> pa.Array:
    if not any(vectors):
        return pa.nulls(len(vectors), DELETION_VECTOR)
    names = [field.name for field in DELETION_VECTOR]
    rows = [None if vector is None else {name: getattr(vector, name) for name in names} for vector in vectors]
    return pa.array(rows, DELETION_VECTOR)


def _rows(table: pa.Table, schema: pa.Schema) -> list[dict[str, Any]]:
    names = schema.names
    columns: list[list[Any]] = []
    for name in names:
        column = table[name]
        values = [None] * len(column) if column.null_count == len(column) else column.to_pylist()
        if name in _MAPS:
            values = [None if value is None else dict(value) for value in values]
        elif name == "deletion_vector":
            values = [None if value is None else DeletionVectorDescriptor(**value) for value in values]
        columns.append(values)
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


BLOCK_ROWS = 4096
"""The rows that are decompressed together, also where one of them is needed."""
BATCH_BLOCKS = 8
PLAIN_BYTES_MAX = 64 << 10
"""Smaller blocks are not compressed."""
_CODEC = "zstd"
_TEXTS_SCHEMA = pa.schema([("text", pa.string())])


@dataclasses.dataclass(frozen=True, slots=True)
class _Block:
    """Up to `BLOCK_ROWS` texts, as a compressed message of Arrow's."""

    data: bytes
    size_bytes: int
    """Before it was compressed."""
    num_rows: int

    def texts(self) -> pa.Array:
        message = pa.decompress(self.data, self.size_bytes, codec=_CODEC, asbytes=False)
        return pa.ipc.read_record_batch(message, _TEXTS_SCHEMA)["text"]


class CompressedTexts:
    """A column of texts. Immutable; any number of threads may use it."""

    def __init__(self, arrays: Iterable[pa.Array | pa.ChunkedArray] = ()) -> None:
        """The texts of these arrays, one after the other. An array is compressed before the next is made."""
        self._set([block for array in arrays for block in _blocks_of(array)])

    @classmethod
    def concat(cls, columns: Iterable[CompressedTexts]) -> CompressedTexts:
        """The texts of several columns, one after the other."""
        joined = cls()
        joined._set([block for column in columns for block in column._blocks])
        return joined

    def _set(self, blocks: list[_Block | pa.Array]) -> None:
        self._blocks = blocks
        lengths = [len(block) if isinstance(block, pa.Array) else block.num_rows for block in blocks]
        self._starts: npt.NDArray[np.int64] = np.cumsum([0, *lengths])

    def __len__(self) -> int:
        return int(self._starts[-1])

    def batches(self) -> Iterator[pa.Array]:
        """All texts in order, some blocks at a time."""
        for first in range(0, len(self._blocks), BATCH_BLOCKS):
            yield pa.concat_arrays([_texts(block) for block in self._blocks[first : first + BATCH_BLOCKS]])

    def at(self, positions: npt.NDArray[np.integer]) -> pa.ChunkedArray:
        """The texts at these positions, which ascend."""
        chunks = []
        blocks, firsts = np.unique(np.searchsorted(self._starts, positions, side="right") - 1, return_index=True)
        for block, of_block in zip(blocks.tolist(), np.split(positions, firsts[1:]), strict=True):
            texts = _texts(self._blocks[block])
            whole = len(of_block) == len(texts)
            chunks.append(texts if whole else texts.take(pa.array(of_block - self._starts[block])))
        return pa.chunked_array(chunks, pa.string())


def _texts(block: _Block | pa.Array) -> pa.Array:
    return block.texts() if isinstance(block, _Block) else block


def _blocks_of(texts: pa.Array | pa.ChunkedArray) -> Iterator[_Block | pa.Array]:
    for start in range(0, len(texts), BLOCK_ROWS):
        part = texts.slice(start, BLOCK_ROWS)
        chunks = part.chunks if isinstance(part, pa.ChunkedArray) else [part]
        # This copies, so that a block does not keep the buffers of a longer array.
        block = pa.concat_arrays([chunk.cast(pa.string()) for chunk in chunks])
        if block.nbytes <= PLAIN_BYTES_MAX:
            yield block
        else:
            message = pa.RecordBatch.from_arrays([block], schema=_TEXTS_SCHEMA).serialize()
            # A buffer of Arrow's would keep the size that the text may have had at most.
            yield _Block(pa.compress(message, codec=_CODEC, asbytes=True), message.size, len(block))
