"""Positions of a stream in a table, in the form in which delta-spark keeps them in checkpoints."""

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
"""Before the first file of a version."""
METADATA_CHANGE_INDEX = -20
"""Before a version that describes the table anew: a stream that keeps a schema log ends a batch there."""
METADATA_CHANGED_INDEX = -19
"""The same place, as the end of a batch of nothing. Spark tells that a batch is done when it has planned another."""
_STORED_BASE_INDEX = -1
"""How `BASE_INDEX` is written, as ever."""
_FIRST_FORMAT, _RESERVED_FORMAT, _LAST_FORMAT = 1, 2, 3


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SourceOffset:
    """All files before this position were read, and the file at it; none behind it."""

    table_id: str
    """`metaData.id` of the table."""
    version: int
    index: int = BASE_INDEX
    """Of the last file read, among those that `version` has to be read; `BASE_INDEX` for none."""
    is_initial_snapshot: bool = False
    """Whether the files are all those of the version, not those that it added."""

    def to_json(self) -> str:
        """What Spark writes into the checkpoint."""
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
