"""Deletion vectors of a table's files: read and written for a transaction, and file actions that hide rows by them.

See "Deletion Vectors".
"""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec
from pyroaring import BitMap64

from anabranch.clock import random_uuid
from anabranch.deletion_vectors.vector_descriptors import VectorFile, encode_files, file_ids, inline_descriptor
from anabranch.deletion_vectors.vector_reading import load_vectors
from anabranch.errors.commits import RowsNotLiveError
from anabranch.errors.environment import StorageError
from anabranch.errors.protocol import InvalidStatisticsError
from anabranch.protocol.actions import AddFile, DeletionVectorDescriptor, RemoveFile, row_count
from anabranch.protocol.statistics import FileStatistics
from anabranch.storage.log_store import LogStore, PutOutcome
from anabranch.transactions.read_set import RowsOfFile
from anabranch.transactions.rows.row_map import MOVED_TO_TAG

INLINE_BYTES_MAX = 256
"""A vector up to this size is stored in the log itself: about a hundred scattered rows, or any number of runs."""

_NAMES_MAX = 8
"""Names tried for one vector file. UUIDs do not collide by chance, so a storage that refuses all of them is broken."""


class Vectors(Protocol):
    """Reads and writes the vectors of one table."""

    def hidden(self, files: Sequence[AddFile]) -> list[BitMap64]:
        """The hidden rows of the files, as bitmaps that callers do not change.

        Raises `DeletionVectorError`, `StorageError`.
        """

    def write(self, vectors: Sequence[BitMap64]) -> list[DeletionVectorDescriptor]:
        """Store the vectors durably, and return their descriptors. Raises `StorageError`."""


class StoredVectors:
    """`Vectors` in a table's own storage. It caches every vector that it reads, so it is made for one commit."""

    def __init__(self, store: LogStore, random: random.Random) -> None:
        self._store = store
        self._random = random
        self._cache: dict[tuple[str, str], BitMap64] = {}

    def hidden(self, files: Sequence[AddFile]) -> list[BitMap64]:
        keys = [None if file.deletion_vector is None else _key(file, file.deletion_vector) for file in files]
        missing = {
            key: file for key, file in zip(keys, files, strict=True) if key is not None and key not in self._cache
        }
        if missing:
            descriptors = [file.deletion_vector for file in missing.values() if file.deletion_vector is not None]
            rows = [row_count(file.stats) for file in missing.values()]
            self._cache.update(zip(missing, load_vectors(self._store, descriptors, num_rows=rows), strict=True))
        return [BitMap64() if key is None else self._cache[key] for key in keys]

    def write(self, vectors: Sequence[BitMap64]) -> list[DeletionVectorDescriptor]:
        written = [inline_descriptor(vector) for vector in vectors]
        large = [index for index, inline in enumerate(written) if inline.size_in_bytes > INLINE_BYTES_MAX]
        if not large:
            return written
        names = file_ids(functools.partial(random_uuid, self._random))
        stored: list[DeletionVectorDescriptor] = []
        for file in encode_files([vectors[index] for index in large], file_ids=names):
            stored += self._stored(file, lambda taken: taken.renamed(next(names))).descriptors
        for index, descriptor in zip(large, stored, strict=True):
            written[index] = descriptor
        return written

    def _stored(self, file: VectorFile, renamed: Callable[[VectorFile], VectorFile]) -> VectorFile:
        """Store the file, under another name if a file with its name exists or may exist."""
        for _ in range(_NAMES_MAX):
            if self._store.put_if_absent(file.path, file.data) is PutOutcome.CREATED:
                return file
            file = renamed(file)
        cause = f"{_NAMES_MAX} new names were tried, and a file with each of them exists or may exist"
        raise StorageError(root=self._store.root, path=file.path, doing="write", cause=cause)


def _key(file: AddFile, vector: DeletionVectorDescriptor) -> tuple[str, str]:
    return file.path, vector.unique_id


def hide_rows(chosen: Sequence[RowsOfFile], vectors: Vectors, *, removed_at_ms: int) -> list[AddFile | RemoveFile]:
    """The file actions that delete these rows, and no others, from the table.

    Each file is removed with the vector it has, and added again with one that hides the rows as well, unless no row is
    left. Raises `RowsNotLiveError`, and the errors of `Vectors`.
    """
    partial = [(rows.file, rows.positions) for rows in chosen if rows.positions is not None]
    hidden = vectors.hidden([file for file, _ in partial])
    remaining = [
        (file, already_hidden | positions)
        for (file, positions), already_hidden in zip(partial, hidden, strict=True)
        if not _hides_all_rows(file, positions, already_hidden)
    ]
    return [
        *(removal(rows.file, removed_at_ms=removed_at_ms, data_change=True) for rows in chosen),
        *with_deletion_vectors(remaining, vectors, data_change=True),
    ]


def with_deletion_vectors(
    files: Sequence[tuple[AddFile, BitMap64]], vectors: Vectors, *, data_change: bool
) -> list[AddFile]:
    """The files with these vectors instead of their own. Writes the vectors."""
    written = vectors.write([vector for _, vector in files])
    return [
        msgspec.structs.replace(file, data_change=data_change, stats=_wide_statistics(file), deletion_vector=descriptor)
        for (file, _), descriptor in zip(files, written, strict=True)
    ]


def removal(file: AddFile, *, removed_at_ms: int, data_change: bool) -> RemoveFile:
    """The remove action of a live file. It keeps the file's tags, except the row map of an earlier commit."""
    tags = {name: value for name, value in (file.tags or {}).items() if name != MOVED_TO_TAG}
    return RemoveFile(
        path=file.path,
        deletion_timestamp=removed_at_ms,
        data_change=data_change,
        extended_file_metadata=True,
        partition_values=file.partition_values,
        size=file.size,
        stats=file.stats,
        tags=tags or None,
        deletion_vector=file.deletion_vector,
        base_row_id=file.base_row_id,
        default_row_commit_version=file.default_row_commit_version,
    )


def _hides_all_rows(file: AddFile, positions: BitMap64, hidden: BitMap64) -> bool:
    """Whether no row of the file is left.

    Raises `RowsNotLiveError` for a row that is hidden already: hiding a row twice would lose another writer's change.
    """
    rows = row_count(file.stats)
    twice = positions & hidden
    if len(twice):
        raise RowsNotLiveError(path=file.path, position=twice.min())
    if rows is not None and len(positions) and positions.max() >= rows:
        raise RowsNotLiveError(path=file.path, position=positions.max())
    return rows is not None and len(positions) + len(hidden) == rows


def _wide_statistics(file: AddFile) -> str | None:
    """The file's statistics with bounds that are not tight, since rows are hidden. See "Per-file Statistics"."""
    if file.stats is None:
        return None
    try:
        return FileStatistics.from_json(file.stats).with_wide_bounds(hidden_rows=file.num_hidden_rows).to_json()
    except InvalidStatisticsError:
        # A file without statistics is never skipped, which is always right.
        return None
