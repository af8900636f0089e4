"""Reading the change data feed: the rows that each version inserted, deleted and updated."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from pyspark.sql import DataFrame

from anabranch.booleans import flag_of
from anabranch.change_feed.feed_files import FeedFiles, feed_files
from anabranch.change_feed.feed_range import FeedBound, FeedRange, resolve_range
from anabranch.change_feed.feed_rows import FeedSource, feed_rows
from anabranch.change_feed.schema_compatibility import (
    TableColumns,
    removes_rows_of_old_columns,
    unreadable_difference,
    unreadable_removed,
)
from anabranch.commands.table_access import TableRef
from anabranch.deletion_vectors.vector_reading import load_vectors
from anabranch.errors.arguments import InvalidOptionError, InvalidTimestampOptionError
from anabranch.errors.dml import (
    ChangesBoundTwiceError,
    ChangesDataSchemaError,
    ChangesNotRecordedError,
    ChangesSchemaError,
    ChangesStartMissingError,
)
from anabranch.errors.log import VersionNotFoundError
from anabranch.log.commit_files import Commit, read_commits
from anabranch.log.log_segment import list_log
from anabranch.log.time_travel import TimestampSearch, monotonic_times
from anabranch.protocol import value_text
from anabranch.protocol.actions import Metadata
from anabranch.protocol.properties import TableProperties
from anabranch.snapshot.snapshot import Snapshot
from anabranch.spark.session.delta_session import DeltaSession
from anabranch.storage.external_files import allowed_prefixes_of


def to_milliseconds(session: DeltaSession, timestamp: str | datetime, *, option: str = "timestampAsOf") -> int:
    """The timestamp in milliseconds since the epoch; a string is cast as Spark does, in the session's time zone."""
    if isinstance(timestamp, datetime):
        micros = value_text.datetime_to_micros(timestamp)
        return (micros if timestamp.tzinfo else session.time_zone.to_utc(micros)) // 1000
    query = "SELECT unix_millis(try_cast(:written AS TIMESTAMP)) AS at"
    row = session.spark.sql(query, args={"written": timestamp}).first()
    if row is None or row[0] is None:
        problem = "Spark cannot read it as a timestamp; write it as 2024-01-31 or 2024-01-31 09:30:00"
        raise InvalidTimestampOptionError(option=option, value=timestamp, problem=problem)
    return int(row[0])


_OUT_OF_RANGE = "spark.databricks.delta.changeDataFeed.timestampOutOfRange.enabled"
_UNSAFE = "spark.databricks.delta.changeDataFeed.unsafeBatchReadOnIncompatibleSchemaChanges.enabled"
_READ_OPTIONS = ("readChangeFeed", "readChangeData")
_TIME_TRAVEL = {"versionasof": "versionAsOf", "timestampasof": "timestampAsOf"}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ChangesBound:
    """One end of a range of versions as a user writes it."""

    version: int | None = None
    timestamp: str | datetime | None = None
    """A string is cast as Spark does, in the session's time zone."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ChangesRequest:
    """The versions of which changes are to be read, both ends included; without an end, up to the newest."""

    start: ChangesBound
    end: ChangesBound | None = None


def reads_changes(options: Mapping[str, str]) -> bool:
    """Whether the options of a read select the change data feed. Raises `InvalidOptionError`."""
    values = {key.lower(): value for key, value in options.items()}
    return any(flag_of(values, name) for name in _READ_OPTIONS)


def changes_request(options: Mapping[str, str], *, table: str) -> ChangesRequest | None:
    """The range of versions that the options of a read name; None where they read the table itself.

    Raises `InvalidOptionError`, `ChangesStartMissingError`, `ChangesBoundTwiceError`.
    """
    if not reads_changes(options):
        return None
    values = {key.lower(): value for key, value in options.items()}
    for key, name in _TIME_TRAVEL.items():
        if key in values:
            problem = "a change feed reads a range of versions; use startingVersion and endingVersion instead"
            raise InvalidOptionError(option=name, value=values[key], problem=problem)
    start, end = _bound(values, "starting"), _bound(values, "ending")
    if start is None:
        raise ChangesStartMissingError(table=table)
    return ChangesRequest(start=start, end=end)


def read_changes(table: TableRef, request: ChangesRequest) -> DataFrame:
    """The changed rows of these versions, each with its type of change, its version and the time of the commit.

    Raises the errors of the change data feed (`errors.dml`), `VersionNotFoundError`, `TimestampAfterLatestCommitError`,
    `TimestampEarlierThanFirstCommitError`, `InvalidOptionError`, `NotADeltaTableError`.
    """
    latest = table.latest()
    versions = _versions(table, latest, request)
    if versions is None:
        return feed_rows(table.session.engine, feed_source(table, latest), FeedFiles())
    store = table.delta_log.store
    first = table.delta_log.snapshots.at_version(versions.start)
    commits = read_commits(store, after=versions.start - 1, upto=versions.end)
    if [commit.version for commit in commits] != list(range(versions.start, versions.end + 1)):
        earliest = table.delta_log.snapshots.earliest_version()
        raise VersionNotFoundError(table=table.label, version=versions.start, earliest=earliest, latest=latest.version)
    _check_recorded(table, versions, first, commits)
    last = latest if versions.end == latest.version else table.delta_log.snapshots.at_version(versions.end)
    # With column mapping a later schema may have other names for columns: then the schema of the last version is used.
    mapped = any(snapshot.column_mapping_mode.maps for snapshot in (first, last, latest))
    read = last if mapped else latest
    if not table.session.flag(_UNSAFE, default=False):
        _check_readable(table, versions, first, commits, read)
    files = feed_files(_with_times(table, commits), table=table.label, partitioned=bool(read.partition_columns))
    return feed_rows(table.session.engine, feed_source(table, read), files)


def _versions(table: TableRef, latest: Snapshot, request: ChangesRequest) -> FeedRange | None:
    search = TimestampSearch.of(
        table.delta_log.store,
        latest_version=latest.version,
        latest_timestamp_ms=latest.timestamp_ms,
        properties=latest.properties,
    )
    return resolve_range(
        _resolved(table, request.start, "startingTimestamp"),
        None if request.end is None else _resolved(table, request.end, "endingTimestamp"),
        search,
        allows_out_of_range=table.session.flag(_OUT_OF_RANGE, default=False),
    )


def _resolved(table: TableRef, bound: ChangesBound, option: str) -> FeedBound:
    if bound.timestamp is None:
        return FeedBound(version=bound.version)
    return FeedBound(timestamp_ms=to_milliseconds(table.session, bound.timestamp, option=option))


def feed_source(table: TableRef, snapshot: Snapshot) -> FeedSource:
    """The source from which changed rows are read, with the columns of `snapshot`."""
    store = table.delta_log.store
    return FeedSource(
        snapshot=snapshot,
        table_root=table.path,
        table=table.label,
        load_vectors=functools.partial(load_vectors, store),
        allowed_prefixes=allowed_prefixes_of(store),
        options=table.storage,
    )


def _check_recorded(table: TableRef, versions: FeedRange, first: Snapshot, commits: Sequence[Commit]) -> None:
    """Raises `ChangesNotRecordedError` for a version in which the change data feed was not enabled."""
    described = [(versions.start, first.metadata)]
    described += [(commit.version, action) for commit in commits for action in _metadata(commit)]
    for version, metadata in described:
        if not TableProperties(metadata.configuration).change_data_feed_enabled:
            raise ChangesNotRecordedError(table=table.label, version=version, start=versions.start, end=versions.end)


def _check_readable(
    table: TableRef, versions: FeedRange, first: Snapshot, commits: Sequence[Commit], read: Snapshot
) -> None:
    """Raises `ChangesSchemaError`, or its subclass, where rows were written with columns that the result lacks."""
    described = [(versions.start, first.metadata)]
    described += [(commit.version, action) for commit in commits[1:] for action in _metadata(commit)]
    columns = TableColumns.of(read.metadata, table=table.label)
    for version, metadata in described:
        difference = unreadable_difference(TableColumns.of(metadata, table=table.label), columns)
        if difference is not None:
            raise _schema_error(ChangesSchemaError, table, versions, read, version=version, difference=difference)
    if versions.start and removes_rows_of_old_columns(commits[0]):
        before = table.delta_log.snapshots.at_version(versions.start - 1).metadata
        difference = unreadable_removed(TableColumns.of(before, table=table.label), columns)
        if difference is not None:
            error = ChangesDataSchemaError
            raise _schema_error(error, table, versions, read, version=versions.start, difference=difference)


def _schema_error(
    error: type[ChangesSchemaError],
    table: TableRef,
    versions: FeedRange,
    read: Snapshot,
    *,
    version: int,
    difference: str,
) -> ChangesSchemaError:
    return error(
        table=table.label,
        start=versions.start,
        end=versions.end,
        read_version=read.version,
        version=version,
        difference=difference,
    )


def _metadata(commit: Commit) -> list[Metadata]:
    return [action for action in commit.actions if isinstance(action, Metadata)]


def _with_times(table: TableRef, commits: Sequence[Commit]) -> Iterator[tuple[Commit, int]]:
    """The commits with their times, as in the history of the table."""
    listing = list_log(table.delta_log.store, first=0, upto=commits[-1].version)
    times = {time.version: time.timestamp_ms for time in monotonic_times(listing.commits)}
    for commit in commits:
        own = None if commit.info is None else commit.info.in_commit_timestamp
        yield commit, times.get(commit.version, commit.modified_ms) if own is None else own


def _bound(values: Mapping[str, str], which: str) -> ChangesBound | None:
    """The bound `starting` or `ending`; None where the options do not name it."""
    version, timestamp = values.get(f"{which}version"), values.get(f"{which}timestamp")
    if version is not None and timestamp is not None:
        raise ChangesBoundTwiceError(bound=which)
    if version is not None:
        return ChangesBound(version=_version(version, option=f"{which}Version"))
    return None if timestamp is None else ChangesBound(timestamp=timestamp)


def _version(text: str, *, option: str) -> int:
    number = text.strip()
    if not number.isdecimal() or len(number) > 19:
        raise InvalidOptionError(option=option, value=text, problem="a version must be a whole number, 0 or more")
    return int(number)
