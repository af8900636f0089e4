"""`CHANGES FROM` of Spark 4.2 and later, and `spark.read.changes(…)`: their versions, and the form of the changes."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from anabranch.callbacks.driver import time_of_micros
from anabranch.change_feed.feed_columns import CHANGE_TYPE, DELETE, INSERT, UPDATE_POSTIMAGE, UPDATE_PREIMAGE
from anabranch.commands.read.read_changes import ChangesBound, ChangesRequest, read_changes
from anabranch.commands.read.read_table import parse_version
from anabranch.commands.table_access import TableRef
from anabranch.errors.arguments import InvalidOptionError

_NET_CHANGES = "netChanges"


def changes_from(table: TableRef, context: Any) -> DataFrame:
    """The changes that Spark's `ChangelogContext` selects.

    Raises `InvalidOptionError`, and what `read_changes` does.
    """
    mode = str(context.deduplicationMode().value())
    if mode == _NET_CHANGES:
        problem = (
            f"the change feed of {table.label} has each change of a row, and does not sum them up. Leave the option "
            "out, and take the last change of each key by a window ordered by _commit_version"
        )
        raise InvalidOptionError(option="deduplicationMode", value=mode, problem=problem)
    changes = read_changes(table, _selection(context.range()))
    return changes if context.computeUpdates() else _as_deletes_and_inserts(changes)


def _selection(selected: Any) -> ChangesRequest:
    """A range of Spark's. An exclusive bound means the version next to it, or the commits after or before that time."""
    bound: Callable[[Any, int], ChangesBound]
    kind = str(selected.getClass().getSimpleName())
    if kind == "VersionRange":
        start, end, bound = selected.startingVersion(), selected.endingVersion(), _version
    elif kind == "TimestampRange":
        start, end, bound = selected.startingTimestamp(), selected.endingTimestamp(), _time
    else:
        problem = "name the first version of the changes: CHANGES FROM VERSION …, or FROM TIMESTAMP …"
        raise InvalidOptionError(option="startingVersion", value="none", problem=problem)
    first = bound(start, 0 if selected.startingBoundInclusive() else 1)
    last = bound(end.get(), 0 if selected.endingBoundInclusive() else -1) if end.isPresent() else None
    return ChangesRequest(start=first, end=last)


def _version(text: str, steps: int) -> ChangesBound:
    return ChangesBound(version=parse_version(text) + steps)


def _time(micros: int, steps: int) -> ChangesBound:
    """A bound `steps` milliseconds away: the times of commits are in milliseconds."""
    return ChangesBound(timestamp=time_of_micros(micros) + datetime.timedelta(milliseconds=steps))


def _as_deletes_and_inserts(changes: DataFrame) -> DataFrame:
    """An update as a deleted and an inserted row, which Spark expects unless `computeUpdates` is set."""
    change = F.col(CHANGE_TYPE)
    kind = F.when(change == UPDATE_PREIMAGE, F.lit(DELETE)).when(change == UPDATE_POSTIMAGE, F.lit(INSERT))
    return changes.withColumn(CHANGE_TYPE, kind.otherwise(change))
