"""File actions that hide rows of live files. See "Deletion Vectors"."""

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
    hidden = file.deletion_vector.cardinality if file.deletion_vector else 0
    try:
        return FileStatistics.from_json(file.stats).with_wide_bounds(hidden_rows=hidden).to_json()
    except InvalidStatisticsError:
        # A file without statistics is never skipped, which is always right.
        return None
