"""Ids of new rows. See "Row IDs" and "Writer Requirements for Row Tracking"."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Annotated, TypeVar

import msgspec

from anabranch.errors.commits import MalformedDomainError, NumbersExhaustedError, RowIdsNeedStatisticsError
from anabranch.protocol.actions import Action, AddFile, DomainMetadata, RemoveFile, row_count
from anabranch.protocol.value_text import LONG_MAX

FileAction = TypeVar("FileAction", bound=AddFile | RemoveFile)

ROW_TRACKING_FEATURE = "rowTracking"
ROW_TRACKING_DOMAIN = "delta.rowTracking"
NO_ROW_IDS = -1
"""The high-water mark of a table that has assigned no id."""


class _RowIdMark(msgspec.Struct, rename="camel"):
    row_id_high_water_mark: Annotated[int, msgspec.Meta(ge=NO_ROW_IDS, le=LONG_MAX)] = NO_ROW_IDS


_MARK = msgspec.json.Decoder(_RowIdMark)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RowIds:
    """The row ids of one file, as the log has them."""

    base_row_id: int
    default_row_commit_version: int | None


def high_water_mark_of(domain: DomainMetadata | None, *, table: str) -> int:
    """The highest assigned id by the domain `delta.rowTracking`. Raises `MalformedDomainError`."""
    if domain is None or domain.removed:
        return NO_ROW_IDS
    try:
        return _MARK.decode(domain.configuration).row_id_high_water_mark
    except msgspec.MsgspecError as error:
        raise MalformedDomainError(table=table, domain=domain.domain, reason=str(error)) from error


def with_row_ids(actions: Sequence[Action], *, after: int, version: int, table: str) -> tuple[Action, ...]:
    """Assign ids above `after`, and `version` as commit version, to the files that have none.

    A file with ids keeps them: it was in the table before. The actions include the new high-water mark if ids were
    assigned. Raises `RowIdsNeedStatisticsError`, `NumbersExhaustedError`.
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
    if mark > LONG_MAX:
        way_out = "Copy the rows to a new table: CREATE TABLE … AS SELECT"
        raise NumbersExhaustedError(table=table, version=version, numbers="row ids", last=after, way_out=way_out)
    if mark != after:
        numbered.insert(0, _mark_action(mark))
    return tuple(numbered)


def with_ids(action: FileAction, ids: RowIds) -> FileAction:
    """The action with these ids instead of its own."""
    return msgspec.structs.replace(
        action, base_row_id=ids.base_row_id, default_row_commit_version=ids.default_row_commit_version
    )


def _mark_action(mark: int) -> DomainMetadata:
    configuration = msgspec.json.encode({"rowIdHighWaterMark": mark}).decode()
    return DomainMetadata(domain=ROW_TRACKING_DOMAIN, configuration=configuration, removed=False)
