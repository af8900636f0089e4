"""Single files found in the columns of a snapshot, without a Python object for every file."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.log.file_columns import LIVE_FILE_SCHEMA, adds_of_table, vector_ids
from anabranch.protocol.actions import AddFile
from anabranch.snapshot.live_files import LiveFiles
from anabranch.transaction.read_set import FileKey
from anabranch.transaction.row_ids import RowIds, shown_rows

FEW_FILES = 32
"""Up to so many, all are looked up at once, which takes less than to search for some."""


class LiveFileIndex:
    """Where the live files of one snapshot stand. Looked-up paths are remembered: a commit asks again at every try."""

    def __init__(self, files: LiveFiles) -> None:
        self.files = files
        self._found: dict[str, tuple[FileKey, int] | None] = {}

    def find(self, paths: Iterable[str]) -> dict[FileKey, int]:
        """The live file of each path that has one, and its row in the file table. A path is live at most once."""
        asked = set(paths)
        self._look_up(asked - self._found.keys())
        return dict(found for path in asked if (found := self._found[path]) is not None)

    def row_ids(self, paths: Iterable[str]) -> dict[FileKey, RowIds]:
        """The row ids of the live files of these paths that have some."""
        keys, chosen = self._columns_of(paths, "base_row_id", "default_row_commit_version")
        ids = zip(chosen["base_row_id"].to_pylist(), chosen["default_row_commit_version"].to_pylist(), strict=True)
        return {
            key: RowIds(base_row_id=base, default_row_commit_version=version)
            for key, (base, version) in zip(keys, ids, strict=True)
            if base is not None
        }

    def live_rows(self, paths: Iterable[str]) -> dict[FileKey, int | None]:
        """How many rows each file shows; None where its statistics do not say."""
        keys, chosen = self._columns_of(paths, "stats", "deletion_vector")
        hidden = pc.fill_null(pc.struct_field(chosen["deletion_vector"], "cardinality"), 0)
        counts = zip(chosen["stats"].to_pylist(), hidden.to_pylist(), strict=True)
        return {key: shown_rows(stats, gone) for key, (stats, gone) in zip(keys, counts, strict=True)}

    def adds(self, paths: Iterable[str]) -> dict[str, AddFile]:
        """The live files of these paths, by path."""
        _, chosen = self._columns_of(paths, *LIVE_FILE_SCHEMA.names)
        return {add.path: add for add in adds_of_table(chosen, data_change=False)}

    def _columns_of(self, paths: Iterable[str], *names: str) -> tuple[list[FileKey], pa.Table]:
        """Some columns of the live files of these paths, and which files they are, in the order of the table."""
        found = sorted(self.find(paths).items(), key=lambda item: item[1])
        chosen = np.zeros(self.files.count, dtype=np.bool_)
        chosen[[row for _, row in found]] = True
        return [key for key, _ in found], self.files.columns(*names).filter(pa.array(chosen))

    def _look_up(self, paths: set[str]) -> None:
        self._found.update(dict.fromkeys(paths))
        if not paths or self.files.count == 0:
            return
        table = self.files.columns("path", "deletion_vector")
        if table.num_rows <= FEW_FILES:
            paths_and_vectors = zip(table["path"].to_pylist(), _vector_ids(table), strict=True)
            self._found.update({key[0]: (key, row) for row, key in enumerate(paths_and_vectors)})
            return
        # Filtered by mask: to take by position, Arrow would first join all chunks of the column.
        hits = pc.is_in(table["path"], value_set=pa.array(sorted(paths), pa.string()))
        rows = np.flatnonzero(hits.to_numpy())
        if not len(rows):
            return
        chosen = table.filter(hits)
        keys = zip(chosen["path"].to_pylist(), _vector_ids(chosen), strict=True)
        for key, row in zip(keys, rows.tolist(), strict=True):
            self._found[key[0]] = (key, row)


def _vector_ids(table: pa.Table) -> list[str | None]:
    vectors = table["deletion_vector"]
    if vectors.null_count == len(vectors):
        return [None] * len(vectors)
    found: list[str | None] = vector_ids(vectors).to_pylist()
    return found
