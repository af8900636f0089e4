"""Positions of a stream in a table, in delta-spark's format for checkpoints."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from anabranch.errors.streaming import (
    StreamedTableReplacedError,
    StreamOffsetError,
    StreamOffsetTooNewError,
    StreamOffsetVersionError,
)

BASE_INDEX = -100
"""The position before the first file of a version."""
METADATA_CHANGE_INDEX = -20
"""The position before a version that changes the metadata: a stream with a schema log ends a batch there."""
METADATA_CHANGED_INDEX = -19
"""The same position, as the end of an empty batch. Spark reports a batch as done once it has planned another."""
_STORED_BASE_INDEX = -1
"""`BASE_INDEX` in checkpoints."""
_FIRST_FORMAT, _RESERVED_FORMAT, _LAST_FORMAT = 1, 2, 3


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SourceOffset:
    """A position: all files before it and the file at it were read."""

    table_id: str
    """`metaData.id` of the table."""
    version: int
    index: int = BASE_INDEX
    """The index of the last file read, among those of `version` that are read; `BASE_INDEX` for none."""
    is_initial_snapshot: bool = False
    """Whether the files are all those of the version, instead of those that it added."""

    def to_json(self) -> str:
        """The JSON that Spark writes into the checkpoint."""
        is_base = self.index == BASE_INDEX
        return json.dumps(
            {
                "sourceVersion": _LAST_FORMAT if not is_base and self.index < 0 else _FIRST_FORMAT,
                "reservoirId": self.table_id,
                "reservoirVersion": self.version,
                "index": _STORED_BASE_INDEX if is_base else self.index,
                "isStartingVersion": self.is_initial_snapshot,
            },
            separators=(",", ":"),
        )


def parse_offset(text: str, *, table_id: str, table: str) -> SourceOffset:
    """A position from a checkpoint, of the table with that id.

    Raises `StreamOffsetError`, `StreamedTableReplacedError`.
    """
    stored = _decoded(text, table)
    form = _number(stored, "sourceVersion", text, table)
    if form > _LAST_FORMAT:
        problem = f"its sourceVersion is {form}, written by a later version of Delta"
        raise StreamOffsetTooNewError(table=table, offset=text, problem=problem)
    if form < _FIRST_FORMAT or form == _RESERVED_FORMAT:
        raise StreamOffsetVersionError(table=table, offset=text, problem=f"there is no sourceVersion {form}")
    index = _number(stored, "index", text, table)
    if form < _LAST_FORMAT and index == _STORED_BASE_INDEX:
        index = BASE_INDEX
    table_read = stored.get("reservoirId")
    if table_read != table_id:
        raise StreamedTableReplacedError(table=table, id_read=str(table_read), id_found=table_id)
    is_initial = stored.get("isStartingVersion")
    if not isinstance(is_initial, bool):
        raise StreamOffsetError(table=table, offset=text, problem="isStartingVersion is neither true nor false")
    return SourceOffset(
        table_id=table_id,
        version=_number(stored, "reservoirVersion", text, table),
        index=index,
        is_initial_snapshot=is_initial,
    )


def _decoded(text: str, table: str) -> dict[str, Any]:
    try:
        stored = json.loads(text)
    except ValueError:
        stored = None
    if not isinstance(stored, dict):
        raise StreamOffsetError(table=table, offset=text, problem="it is no JSON object")
    return stored


def _number(stored: dict[str, Any], name: str, text: str, table: str) -> int:
    value = stored.get(name)
    if not isinstance(value, int) or isinstance(value, bool):
        raise StreamOffsetError(table=table, offset=text, problem=f"{name} is no number")
    return value
