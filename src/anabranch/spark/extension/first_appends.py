"""First appends by name: `df.write.mode("append").saveAsTable("new")`, of which several may be at work."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from pyspark.errors import PySparkException

from anabranch.errors.commits import ConflictReason, ProtocolChangedException
from anabranch.patches import patch

CREATION_RACES_MAX = 3
"""Times a first append starts over because somebody else created the table."""


def append_to_tables_made_meanwhile(
    purpose: str, writers: type, mode_and_format: Callable[[Any], tuple[str | None, str | None]]
) -> None:
    """Let `saveAsTable` of these writers of PySpark's append to a table that somebody else makes while it is at work.

    Spark has found no table then, and asks its catalog for a new one, as in mode `error`: which of the two it is, only
    the writer knows, of which `mode_and_format` tells. Nothing has been written when it loses, so it is run again, as
    an append to the table that is there now. `patches.undo(purpose)` ends it.
    """

    def replace(save_as_table: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(save_as_table)
        def saving(writer: Any, *given: Any, **named: Any) -> None:
            for _ in range(CREATION_RACES_MAX):
                try:
                    return save_as_table(writer, *given, **named)
                except PySparkException as lost:
                    mode, source = mode_and_format(writer)
                    appends = (mode or "").lower() == "append" and (source or "").lower() == "delta"
                    if not appends or not _was_made_meanwhile(lost):
                        raise
            return save_as_table(writer, *given, **named)

        return saving

    patch(purpose, writers, "saveAsTable", replace)


def _was_made_meanwhile(error: PySparkException) -> bool:
    """Whether the table was not there when the writer looked, and is now. No other append ends so."""
    if isinstance(error, ProtocolChangedException):
        return error.reason is ConflictReason.TABLE_CREATED
    return error.getCondition() == "TABLE_OR_VIEW_ALREADY_EXISTS"
