"""Whether rows that come back have the ids that they had: not where these may be other rows' by now. See "Row IDs"."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow.compute as pc

from anabranch.commands.definition.table_definition import ROW_ID_COLUMN, ROW_VERSION_COLUMN
from anabranch.log.file_columns import logical_keys
from anabranch.protocol.features import supported
from anabranch.snapshot.snapshot import Snapshot
from anabranch.transaction.rows.row_ids import ROW_TRACKING_DOMAIN, ROW_TRACKING_FEATURE, high_water_mark_of

_COLUMNS = (ROW_ID_COLUMN, ROW_VERSION_COLUMN)
_ENABLED = "delta.enableRowTracking"
Configuration = dict[str, str | None]


def numbers_go_on(now: Snapshot, then: Snapshot) -> bool:
    """Whether ids are counted on from where they were at `then`.

    Where row tracking was dropped meanwhile they are counted anew, if at all: then the files of both versions have
    other ids, or the high-water mark is below what it was.
    """
    if not supported(then.protocol, ROW_TRACKING_FEATURE):
        return True
    if _mark(now) < _mark(then):
        return False
    return _have_the_same_ids(now, then)


def with_row_tracking_of(
    now: Snapshot, then: Snapshot, restored: Mapping[str, str | None], *, go_on: bool
) -> Configuration:
    """The properties, with the columns that keep the ids of the rows that come back.

    Row tracking that has been dropped stays off, as there are rows without ids: it can be turned on again.
    """
    before, after = now.metadata.configuration, then.metadata.configuration
    chosen = after if go_on and all(after.get(name) is not None for name in _COLUMNS) else before
    named = {name: chosen[name] for name in _COLUMNS if chosen.get(name) is not None}
    found = {name: value for name, value in restored.items() if name not in _COLUMNS} | named
    if then.properties.row_tracking_enabled and (len(named) < len(_COLUMNS) or _some_lack_ids(now)):
        found[_ENABLED] = "false"
    return found


def _mark(snapshot: Snapshot) -> int:
    return high_water_mark_of(snapshot.domain_metadata.get(ROW_TRACKING_DOMAIN), table=snapshot.table_root)


def _have_the_same_ids(now: Snapshot, then: Snapshot) -> bool:
    """Whether each file of both that had ids at `then` has them still."""
    keys, others = (logical_keys(each.files.columns("path", "deletion_vector")) for each in (then, now))
    first, still = (each.files.columns("base_row_id")["base_row_id"] for each in (then, now))
    places = pc.index_in(keys, value_set=others)
    concerned = pc.and_(pc.is_valid(places), pc.is_valid(first))
    kept = pc.fill_null(pc.equal(first, pc.take(still, places)), fill_value=False)
    return bool(pc.all(pc.or_(pc.invert(concerned), kept), min_count=0).as_py())


def _some_lack_ids(snapshot: Snapshot) -> bool:
    return bool(snapshot.files.columns("base_row_id")["base_row_id"].null_count)
