"""Whether restored rows keep their old row ids: not where other rows may have got them since. See "Row IDs"."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow.compute as pc

from anabranch.commands.definition.table_definition import ROW_ID_COLUMN, ROW_VERSION_COLUMN
from anabranch.log.file_columns import logical_keys
from anabranch.protocol.features import supported
from anabranch.snapshot.snapshot import Snapshot
from anabranch.transactions.rows.row_ids import ROW_TRACKING_DOMAIN, ROW_TRACKING_FEATURE, high_water_mark_of

_COLUMNS = (ROW_ID_COLUMN, ROW_VERSION_COLUMN)
_ENABLED = "delta.enableRowTracking"
Configuration = dict[str, str | None]


def ids_continue(now: Snapshot, then: Snapshot) -> bool:
    """Whether row ids were assigned without interruption since `then`.

    Where row tracking was dropped meanwhile, they start again from 0: then the files of both versions have different
    ids, or the high-water mark is lower than at `then`.
    """
    if not supported(then.protocol, ROW_TRACKING_FEATURE):
        return True
    if _mark(now) < _mark(then):
        return False
    return _have_the_same_ids(now, then)


def with_row_tracking_of(
    now: Snapshot, then: Snapshot, restored: Mapping[str, str | None], *, go_on: bool
) -> Configuration:
    """The properties, with the columns that hold the ids of restored rows.

    Row tracking that was dropped stays off, since rows without ids exist. It can be turned on again.
    """
    before, after = now.metadata.configuration, then.metadata.configuration
    chosen = after if go_on and all(after.get(name) is not None for name in _COLUMNS) else before
    named = {name: chosen[name] for name in _COLUMNS if chosen.get(name) is not None}
    properties = {name: value for name, value in restored.items() if name not in _COLUMNS} | named
    if then.properties.row_tracking_enabled and (len(named) < len(_COLUMNS) or _some_lack_ids(now)):
        properties[_ENABLED] = "false"
    return properties


def _mark(snapshot: Snapshot) -> int:
    return high_water_mark_of(snapshot.domain_metadata.get(ROW_TRACKING_DOMAIN), table=snapshot.table_root)


def _have_the_same_ids(now: Snapshot, then: Snapshot) -> bool:
    """Whether all files that are in both versions and had ids at `then` have the same ids now."""
    keys, others = (logical_keys(version.files.columns("path", "deletion_vector")) for version in (then, now))
    first, still = (version.files.columns("base_row_id")["base_row_id"] for version in (then, now))
    positions = pc.index_in(keys, value_set=others)
    concerned = pc.and_(pc.is_valid(positions), pc.is_valid(first))
    kept = pc.fill_null(pc.equal(first, pc.take(still, positions)), fill_value=False)
    return bool(pc.all(pc.or_(pc.invert(concerned), kept), min_count=0).as_py())


def _some_lack_ids(snapshot: Snapshot) -> bool:
    return bool(snapshot.files.columns("base_row_id")["base_row_id"].null_count)
