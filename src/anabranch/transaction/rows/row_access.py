"""The hidden rows of files, as transactions get at them."""

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


# Rows that were written to other files as they are, found there by their values.
#
# Two rows of the same values are one to every statement: what holds for one of them holds for the other, and a table
# that lost one of them is the same as if it had lost the other. So it does not matter which of them is taken for
# which.


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RowPositions:
    """Where rows of one file stand now, in ascending order of where they stood."""

    outputs: npt.NDArray[np.int64]
    """Numbers of files."""
    positions: Positions

    def of(self, rows: BitMap64, *, among: BitMap64, output_count: int) -> list[BitMap64]:
        """The places of `rows`, by output. `among` are the rows whose places these are."""
        chosen = np.searchsorted(sorted_positions(among), sorted_positions(rows))
        outputs, positions = self.outputs[chosen], self.positions[chosen]
        return [BitMap64(positions[outputs == number]) for number in range(output_count)]


FindRows = Callable[[Snapshot, Sequence[RowsOfFile], Sequence[AddFile]], Sequence[RowPositions] | None]
"""Where these rows stand among the rows that some newer files show, an entry each; no place is given twice. The rows
were live once and look as in the snapshot. None where a row is not to be found, or values cannot be compared."""


def checked_places(
    places: Sequence[RowPositions] | None, rows: Sequence[RowsOfFile], outputs: Sequence[AddFile]
) -> Sequence[RowPositions] | None:
    """`places`, if each row has one of its own."""
    if places is None or len(places) != len(rows):
        return None
    if any(len(found.positions) != len(each.positions or ()) for found, each in zip(places, rows, strict=True)):
        return None
    pairs = [
        (int(output), int(row)) for each in places for output, row in zip(each.outputs, each.positions, strict=True)
    ]
    if len(set(pairs)) != len(pairs) or any(not 0 <= output < len(outputs) for output, _ in pairs):
        return None
    return places
