"""First appends by name, `df.write.mode("append").saveAsTable("new")`, of which several may run at once."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from pyspark.errors import PySparkException

from anabranch.errors.commits import ConflictReason, ProtocolChangedException
from anabranch.patches import patch

CREATION_RACES_MAX = 3
"""How often a first append starts over because another writer created the table."""


def retry_first_appends(
    purpose: str, writers: type, mode_and_format: Callable[[Any], tuple[str | None, str | None]]
) -> None:
    """Makes `saveAsTable` of these PySpark writers append to a table that another writer creates in the meantime.

    Spark has found no table then, and its catalog gets a request for a new one, as in mode `error`. Only the writer
    knows which of the two modes it has: `mode_and_format` returns it. The writer that loses has written nothing, so it
    runs again, as an append to the table that now exists. `patches.undo(purpose)` ends it.
    """

    def replace(save_as_table: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(save_as_table)
        def saving(writer: Any, *arguments: Any, **options: Any) -> None:
            for _ in range(CREATION_RACES_MAX):
                try:
                    return save_as_table(writer, *arguments, **options)
                except PySparkException as lost:
                    mode, source = mode_and_format(writer)
                    appends = (mode or "").lower() == "append" and (source or "").lower() == "delta"
                    if not appends or not _was_created_meanwhile(lost):
                        raise
            return save_as_table(writer, *arguments, **options)

        return saving

    patch(purpose, writers, "saveAsTable", replace)


def _was_created_meanwhile(error: PySparkException) -> bool:
    """Whether the table did not exist when the writer looked, and does now. No other append fails like this."""
    if isinstance(error, ProtocolChangedException):
        return error.reason is ConflictReason.TABLE_CREATED
    return error.getCondition() == "TABLE_OR_VIEW_ALREADY_EXISTS"
