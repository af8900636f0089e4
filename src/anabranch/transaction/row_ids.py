"""Ids for new rows. See "Row IDs" and "Writer Requirements for Row Tracking"."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TypeVar

import msgspec

from anabranch.errors.commits import RowIdsNeedStatisticsError
from anabranch.protocol.actions import Action, AddFile, DomainMetadata, RemoveFile
from anabranch.protocol.actions import Protocol as TableProtocol

FileAction = TypeVar("FileAction", bound=AddFile | RemoveFile)

ROW_TRACKING_FEATURE = "rowTracking"
ROW_TRACKING_DOMAIN = "delta.rowTracking"
NO_ROW_IDS = -1
"""The high-water mark of a table that has given out no id."""


class _RowIdMark(msgspec.Struct, rename="camel"):
    row_id_high_water_mark: int = NO_ROW_IDS


class _RowCount(msgspec.Struct, rename="camel"):
    num_records: int | None = None


_MARK = msgspec.json.Decoder(_RowIdMark)
_COUNT = msgspec.json.Decoder(_RowCount)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RowIds:
    """What the log says of the rows of one file."""

    base_row_id: int
    default_row_commit_version: int | None


def high_water_mark_of(domain: DomainMetadata | None) -> int:
    """The highest id given out, as the domain `delta.rowTracking` says."""
    if domain is None or domain.removed:
        return NO_ROW_IDS
    return _MARK.decode(domain.configuration).row_id_high_water_mark


def row_count(stats: str | None) -> int | None:
    """The rows of a data file, hidden ones included; None where its statistics do not say."""
    if not stats:
        return None
    try:
        count = _COUNT.decode(stats).num_records
    except msgspec.MsgspecError:
        return None
    return count if count is not None and count >= 0 else None


def shown_rows(stats: str | None, hidden: int) -> int | None:
    """The rows of a logical file, those that its vector hides left out; None where it is not known."""
    rows = row_count(stats)
    return None if rows is None else rows - hidden


def assigns_row_ids(protocol: TableProtocol, *, suspended: bool) -> bool:
    """Whether new files need row ids: row tracking is supported, be it active or not, and not suspended."""
    return ROW_TRACKING_FEATURE in (protocol.writer_features or ()) and not suspended


def with_row_ids(actions: Sequence[Action], *, after: int, version: int, table: str) -> tuple[Action, ...]:
    """Give ids above `after`, and `version` as commit version, to the files that have none.

    A file that came with ids keeps them: it was in the table before. The new high-water mark is among the
    actions if it moved. Raises `RowIdsNeedStatisticsError`.
    """
    mark = after
    numbered: list[Action] = []
    for action in actions:
        if isinstance(action, DomainMetadata) and action.domain == ROW_TRACKING_DOMAIN and not action.removed:
            continue
        if isinstance(action, AddFile) and action.base_row_id is None:
            rows = row_count(action.stats)
            if rows is None:
                raise RowIdsNeedStatisticsError(table=table, path=action.path)
            numbered.append(with_ids(action, RowIds(base_row_id=mark + 1, default_row_commit_version=version)))
            mark += rows
        else:
            numbered.append(action)
    if mark != after:
        numbered.insert(0, _mark_action(mark))
    return tuple(numbered)


def with_ids(action: FileAction, ids: RowIds) -> FileAction:
    """The action with these ids in the place of its own."""
    return msgspec.structs.replace(
        action, base_row_id=ids.base_row_id, default_row_commit_version=ids.default_row_commit_version
    )


def _mark_action(mark: int) -> DomainMetadata:
    configuration = msgspec.json.encode({"rowIdHighWaterMark": mark}).decode()
    return DomainMetadata(domain=ROW_TRACKING_DOMAIN, configuration=configuration, removed=False)
