"""Tables of changes: the rows that a reader's options select, or `CHANGES FROM` of Spark 4.2 and later."""

from __future__ import annotations

import dataclasses
import datetime
import threading
import uuid
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention
from pyspark.sql.types import StructType

from anabranch.callbacks.driver import time_of_micros
from anabranch.change_feed.feed_columns import (
    CHANGE_TYPE,
    DELETE,
    INSERT,
    UPDATE_POSTIMAGE,
    UPDATE_PREIMAGE,
    feed_schema,
)
from anabranch.commands.read.read_changes import ChangesBound, ChangesRequest, changes_request, read_changes
from anabranch.commands.read.read_table import parse_version
from anabranch.commands.table_access import TableRef
from anabranch.errors.arguments import InvalidOptionError
from anabranch.errors.base import DeltaError
from anabranch.schema.schema_evolution import visible_schema

FEEDS_KEPT_MAX = 64
"""Few are enough: Spark reads the rows of a table of changes right after it has looked up the columns."""
_NET_CHANGES = "netChanges"
_UNBOUNDED = "UnboundedRange"
_OPTIONS_OF_CHANGELOGS = frozenset(
    {
        "startingversion",
        "endingversion",
        "startingtimestamp",
        "endingtimestamp",
        "startingboundinclusive",
        "endingboundinclusive",
        "deduplicationmode",
        "computeupdates",
    }
)
"""Options by which Spark has made the `ChangelogContext`, in lower case."""


@dataclasses.dataclass(frozen=True, slots=True)
class ChangeFeed:
    """The rows of a table of changes, and their columns."""

    rows: DataFrame | DeltaError
    """An error is raised when the rows are read."""
    schema: StructType


class KeptFeeds:
    """The rows of tables of changes, from the look-up of their columns until Spark reads them."""

    def __init__(self) -> None:
        self._rows: OrderedDict[str, DataFrame | DeltaError] = OrderedDict()
        self._lock = threading.Lock()

    def keep(self, feed: ChangeFeed) -> str:
        """Keeps the rows, and returns their key."""
        key = uuid.uuid4().hex
        with self._lock:
            self._rows[key] = feed.rows
            while len(self._rows) > FEEDS_KEPT_MAX:
                self._rows.popitem(last=False)
        return key

    def rows(self, key: str) -> DataFrame:
        """The rows of a key. Raises the error that the feed has in their place."""
        with self._lock:
            rows = self._rows[key]
        if isinstance(rows, DeltaError):
            raise rows
        return rows


def selected_feed(table: TableRef, options: Mapping[str, str]) -> ChangeFeed | None:
    """The changes that the options select; None if they select none. Raises what `read_changes` does."""
    selection = changes_request(options, table=table.label)
    return None if selection is None else _feed_of(read_changes(table, selection))


def feed_or_stream(table: TableRef, options: Mapping[str, str]) -> ChangeFeed:
    """The changes of a folder's table for a batch read or a stream, which cannot be distinguished yet.

    A stream needs no start, so errors in the options are raised when rows are read; a stream never reads these.
    """
    try:
        feed = selected_feed(table, options)
        assert feed is not None
        return feed
    except DeltaError as refused:
        return _refused(table, refused)


def check_feed_of_folder(path: str, partitions: Mapping[str, str | None], schema: Any) -> None:
    """Raises `InvalidOptionError` for changes of a part of a table, or with a schema of the reader's."""
    if partitions:
        problem = "changes are those of the whole table; use the table's own path, and filter the rows"
        raise InvalidOptionError(option="path", value=path, problem=problem)
    if schema is not None:
        problem = "changes have more columns than the table; leave the schema out"
        raise InvalidOptionError(option="schema", value=str(schema.simpleString()), problem=problem)


def feed_of_changelog(table: TableRef, context: Any) -> ChangeFeed:
    """The changes that Spark's `ChangelogContext` selects."""
    try:
        return _feed_of(_changes_from(table, context))
    except DeltaError as refused:
        # Raised when the rows are read: Spark would report an error of the catalog as a feature that it lacks.
        return _refused(table, refused)


def changelog_stream(spark: SparkSession, name: str, context: Any, options: Mapping[str, str]) -> DataFrame:
    """The changes that Spark's `ChangelogContext` selects, as a stream of the table of that name.

    Without a start it begins with the rows that the table has, as inserted. `options` are those of the reader.
    """
    _check_mode(name, context)
    reader = spark.readStream.option("readChangeFeed", "true")
    for key, value in options.items():
        if key.lower() not in _OPTIONS_OF_CHANGELOGS:
            reader = reader.option(key, value)
    if str(context.range().getClass().getSimpleName()) != _UNBOUNDED:
        selected = _selection(context.range())
        if selected.end is not None:
            problem = "a stream of changes goes on; filter its rows by _commit_version, or leave the end out"
            raise InvalidOptionError(option="endingVersion", value=str(context.range()), problem=problem)
        if selected.start.version is not None:
            reader = reader.option("startingVersion", selected.start.version)
        elif selected.start.timestamp is not None:
            reader = reader.option("startingTimestamp", str(selected.start.timestamp))
    changes = reader.table(name)
    return changes if context.computeUpdates() else _as_deletes_and_inserts(changes)


def _feed_of(rows: DataFrame) -> ChangeFeed:
    return ChangeFeed(rows, rows.schema)


def _refused(table: TableRef, refused: DeltaError) -> ChangeFeed:
    snapshot = table.latest()
    schema = feed_schema(snapshot.schema, snapshot.column_mapping_mode, table=table.label)
    return ChangeFeed(refused, visible_schema(schema))


def _changes_from(table: TableRef, context: Any) -> DataFrame:
    _check_mode(table.label, context)
    changes = read_changes(table, _selection(context.range()))
    return changes if context.computeUpdates() else _as_deletes_and_inserts(changes)


def _check_mode(name: str, context: Any) -> None:
    mode = str(context.deduplicationMode().value())
    if mode == _NET_CHANGES:
        problem = (
            f"the change feed of {name} has each change of a row, and does not sum them up. Leave the option "
            "out, and take the last change of each key by a window ordered by _commit_version"
        )
        raise InvalidOptionError(option="deduplicationMode", value=mode, problem=problem)


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
