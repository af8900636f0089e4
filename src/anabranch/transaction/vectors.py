"""The hidden rows of files, as transactions get at them."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Sequence
from typing import Protocol

from pyroaring import BitMap64

from anabranch.deletion_vectors.file_ids import file_ids
from anabranch.deletion_vectors.reading import load_vectors
from anabranch.deletion_vectors.writing import VectorFile, encode_files, inline_descriptor
from anabranch.errors.storage import StorageError
from anabranch.protocol.actions import AddFile, DeletionVectorDescriptor
from anabranch.storage.log_store import LogStore, PutOutcome
from anabranch.transaction.random_uuid import random_uuid
from anabranch.transaction.row_ids import row_count

INLINE_BYTES_MAX = 256
"""A vector up to this size stands in the log itself: about a hundred scattered rows, or any number of runs."""

_NAMES_MAX = 8
"""UUIDs do not meet by chance. A storage that ever answers that it does not know is broken."""


class Vectors(Protocol):
    """Reads and writes the vectors of one table."""

    def hidden(self, files: Sequence[AddFile]) -> list[BitMap64]:
        """The rows that each file hides, not to be changed. Raises `DeletionVectorError`, `StorageError`."""

    def write(self, vectors: Sequence[BitMap64]) -> list[DeletionVectorDescriptor]:
        """Store them, durably, and say where. Raises `StorageError`."""


class StoredVectors:
    """`Vectors` in a table's own storage. Remembers what it has read, so it lives as long as one commit."""

    def __init__(self, store: LogStore, random: random.Random) -> None:
        self._store = store
        self._random = random
        self._known: dict[tuple[str, str], BitMap64] = {}

    def hidden(self, files: Sequence[AddFile]) -> list[BitMap64]:
        wanted = {_key(file, vector): file for file in files if (vector := file.deletion_vector) is not None}
        missing = [file for key, file in wanted.items() if key not in self._known]
        if missing:
            descriptors = [file.deletion_vector for file in missing if file.deletion_vector is not None]
            loaded = load_vectors(self._store, descriptors, num_rows=[row_count(file.stats) for file in missing])
            for file, descriptor, hidden in zip(missing, descriptors, loaded, strict=True):
                self._known[_key(file, descriptor)] = hidden
        return [
            BitMap64() if file.deletion_vector is None else self._known[_key(file, file.deletion_vector)]
            for file in files
        ]

    def write(self, vectors: Sequence[BitMap64]) -> list[DeletionVectorDescriptor]:
        written = [inline_descriptor(vector) for vector in vectors]
        large = [place for place, inline in enumerate(written) if inline.size_in_bytes > INLINE_BYTES_MAX]
        names = file_ids(functools.partial(random_uuid, self._random))
        stored: list[DeletionVectorDescriptor] = []
        for file in encode_files([vectors[place] for place in large], file_ids=names):
            stored += self._stored(file, lambda taken: taken.renamed(next(names))).descriptors
        for place, descriptor in zip(large, stored, strict=True):
            written[place] = descriptor
        return written

    def _stored(self, file: VectorFile, renamed: Callable[[VectorFile], VectorFile]) -> VectorFile:
        """The file as it is stored: under another name where one of its name is there, or may be."""
        for _ in range(_NAMES_MAX):
            if self._store.put_if_absent(file.path, file.data) is PutOutcome.CREATED:
                return file
            file = renamed(file)
        cause = f"a file of that name is there, or may be, under each of {_NAMES_MAX} names"
        raise StorageError(root=self._store.root, path=file.path, doing="write", cause=cause)


def _key(file: AddFile, vector: DeletionVectorDescriptor) -> tuple[str, str]:
    return file.path, vector.unique_id
