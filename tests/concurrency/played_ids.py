"""The ids of rows of played tables, as their files keep them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from anabranch.protocol.actions import AddFile


class KeptId(NamedTuple):
    """The id that a file keeps for a row that was in another file before."""

    row_id: int
    version: int | None
    """None for a row that was changed as it was written: then that of the file's commit."""


class RowId(NamedTuple):
    """The id of a row, and the version that changed it last."""

    row_id: int
    version: int | None
    """None in a transaction of several statements for a row that it has changed: then that of its commit."""


KeptIds = Mapping[str, tuple[KeptId | None, ...]]
"""By path and position; None for rows that are new."""


def id_in_file(
    kept: KeptIds, path: str, position: int, *, base: int | None, default_version: int | None
) -> RowId | None:
    """See "Reader Requirements for Row Tracking"; None where the file has no ids.

    A file of a transaction that is not yet committed has those that it keeps, and no others.
    """
    kept_ids = kept.get(path, ())
    kept_id = kept_ids[position] if kept_ids else None
    if kept_id is None:
        return None if base is None or default_version is None else RowId(base + position, default_version)
    return RowId(kept_id.row_id, default_version if kept_id.version is None else kept_id.version)


def id_of(kept: KeptIds, add: AddFile, position: int) -> RowId | None:
    """The id of a row, as `id_in_file`, by the add action of its file."""
    return id_in_file(kept, add.path, position, base=add.base_row_id, default_version=add.default_row_commit_version)


def as_copied(row_id: RowId | None) -> KeptId | None:
    """What a file keeps of a row that is as it was."""
    return None if row_id is None else KeptId(*row_id)


def as_changed(row_id: RowId | None) -> KeptId | None:
    """What a file keeps of a row that is another now."""
    return None if row_id is None else KeptId(row_id.row_id, None)
