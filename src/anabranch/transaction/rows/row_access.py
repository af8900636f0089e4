"""How transactions read and write the deletion vectors of files, and find moved rows by their values."""

from __future__ import annotations

import dataclasses
import functools
import random
from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap64

from anabranch.clock import random_uuid
from anabranch.deletion_vectors.vector_locations import file_ids
from anabranch.deletion_vectors.vector_reading import load_vectors
from anabranch.deletion_vectors.vector_writing import VectorFile, encode_files, inline_descriptor
from anabranch.errors.environment import StorageError
from anabranch.protocol.actions import AddFile, DeletionVectorDescriptor
from anabranch.snapshot.snapshot import Snapshot
from anabranch.storage.log_store import LogStore, PutOutcome
from anabranch.transaction.read_set import RowsOfFile
from anabranch.transaction.rows.row_ids import row_count
from anabranch.transaction.rows.row_map import Positions, sorted_positions

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
        with_vector = {_key(file, vector): file for file in files if (vector := file.deletion_vector) is not None}
        missing = [file for key, file in with_vector.items() if key not in self._cache]
        if missing:
            descriptors = [file.deletion_vector for file in missing if file.deletion_vector is not None]
            loaded = load_vectors(self._store, descriptors, num_rows=[row_count(file.stats) for file in missing])
            for file, descriptor, hidden in zip(missing, descriptors, loaded, strict=True):
                self._cache[_key(file, descriptor)] = hidden
        return [
            BitMap64() if file.deletion_vector is None else self._cache[_key(file, file.deletion_vector)]
            for file in files
        ]

    def write(self, vectors: Sequence[BitMap64]) -> list[DeletionVectorDescriptor]:
        written = [inline_descriptor(vector) for vector in vectors]
        large = [index for index, inline in enumerate(written) if inline.size_in_bytes > INLINE_BYTES_MAX]
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


# Moved rows, found in their new files by their values.
#
# No statement can distinguish two rows with the same values: what is true of one is true of the other, and a table
# without the one is the same as a table without the other. So it does not matter which of them is taken for which.


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RowPositions:
    """The new positions of rows of one file, in ascending order of their old positions."""

    outputs: npt.NDArray[np.int64]
    """For each row the index of its output file."""
    positions: Positions

    def of(self, rows: BitMap64, *, among: BitMap64, output_count: int) -> list[BitMap64]:
        """The new positions of `rows`, for each output. `among` are all rows of which this holds the positions."""
        chosen = np.searchsorted(sorted_positions(among), sorted_positions(rows))
        outputs, positions = self.outputs[chosen], self.positions[chosen]
        return [BitMap64(positions[outputs == number]) for number in range(output_count)]


FindRows = Callable[[Snapshot, Sequence[RowsOfFile], Sequence[AddFile]], Sequence[RowPositions] | None]
"""Finds these rows among the visible rows of newer files, and returns one entry for each entry of rows; no position is
returned twice. The rows were live once and have the values of the snapshot. None where a row is missing, or values
cannot be compared."""


def checked_positions(
    located: Sequence[RowPositions] | None, rows: Sequence[RowsOfFile], outputs: Sequence[AddFile]
) -> Sequence[RowPositions] | None:
    """`located`, if it has a position for each row and none twice; else None."""
    if located is None or len(located) != len(rows):
        return None
    counts = zip(located, rows, strict=True)
    if any(len(new.positions) != len(old.positions or ()) for new, old in counts):
        return None
    pairs = [(int(output), int(row)) for new in located for output, row in zip(new.outputs, new.positions, strict=True)]
    if len(set(pairs)) != len(pairs) or any(not 0 <= output < len(outputs) for output, _ in pairs):
        return None
    return located
