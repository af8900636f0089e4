"""Rows of live files, hidden: what a commit says to take them out of the table. See "Deletion Vectors"."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from pyroaring import BitMap64

from anabranch.errors.commits import RowsNotLiveError
from anabranch.errors.protocol import InvalidStatisticsError
from anabranch.protocol.actions import AddFile, RemoveFile
from anabranch.protocol.statistics import FileStatistics
from anabranch.transaction.read_set import RowsOfFile
from anabranch.transaction.rows.row_access import Vectors
from anabranch.transaction.rows.row_ids import row_count
from anabranch.transaction.rows.row_map import MOVED_TO_TAG


def hide_rows(chosen: Sequence[RowsOfFile], vectors: Vectors, *, removed_at_ms: int) -> list[AddFile | RemoveFile]:
    """The file actions after which these rows, and no others, are out of the table.

    Each file is removed under the vector it has, and added again under one that hides the rows as well, unless
    no row is left. Raises `RowsNotLiveError`, and what `Vectors` raises.
    """
    partial = [(rows.file, rows.positions) for rows in chosen if rows.positions is not None]
    hidden = vectors.hidden([file for file, _ in partial])
    left = [
        (file, hidden_now | positions)
        for (file, positions), hidden_now in zip(partial, hidden, strict=True)
        if not _is_everything(file, positions, hidden_now)
    ]
    return [
        *(removal(rows.file, removed_at_ms=removed_at_ms, data_change=True) for rows in chosen),
        *with_deletion_vectors(left, vectors, data_change=True),
    ]


def with_deletion_vectors(
    files: Sequence[tuple[AddFile, BitMap64]], vectors: Vectors, *, data_change: bool
) -> list[AddFile]:
    """Each file with that vector in the place of its own."""
    written = vectors.write([vector for _, vector in files])
    return [
        msgspec.structs.replace(file, data_change=data_change, stats=_wide_statistics(file), deletion_vector=descriptor)
        for (file, _), descriptor in zip(files, written, strict=True)
    ]


def removal(file: AddFile, *, removed_at_ms: int, data_change: bool) -> RemoveFile:
    """What takes a live file out of the table. It says nothing of where rows went, whatever the file's tags say."""
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


def _is_everything(file: AddFile, positions: BitMap64, hidden: BitMap64) -> bool:
    """Whether no row is left. Every one of them must be live: to hide a row twice would lose somebody's work."""
    rows = row_count(file.stats)
    twice = positions & hidden
    if len(twice):
        raise RowsNotLiveError(path=file.path, position=twice.min())
    if rows is not None and len(positions) and positions.max() >= rows:
        raise RowsNotLiveError(path=file.path, position=positions.max())
    return rows is not None and len(positions) + len(hidden) == rows


def _wide_statistics(file: AddFile) -> str | None:
    """See "Per-file Statistics": the bounds hold for more rows than are left."""
    if file.stats is None:
        return None
    hidden = file.deletion_vector.cardinality if file.deletion_vector else 0
    try:
        return FileStatistics.from_json(file.stats).with_wide_bounds(hidden_rows=hidden).to_json()
    except InvalidStatisticsError:
        # Without statistics the file is always read, which is never wrong.
        return None
