"""The rows of a batch, read by the session's engine."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from anabranch.change_feed.feed_columns import feed_schema
from anabranch.change_feed.feed_files import feed_files
from anabranch.change_feed.feed_rows import FeedSource, feed_rows
from anabranch.commands.read import scan_request
from anabranch.commands.read_changes import feed_source
from anabranch.commands.table_access import TableHandle
from anabranch.log.commits import Commit
from anabranch.log.file_columns import adds_of_table
from anabranch.log.listing import list_log
from anabranch.log.time_travel import monotonic_times
from anabranch.predicates.expressions import Predicate
from anabranch.schema.visibility import visible_schema
from anabranch.snapshot.scan_plan import can_be_true
from anabranch.snapshot.skipping_columns import SkippingColumns
from anabranch.snapshot.snapshot import Snapshot
from anabranch.spark.engine import FileMask
from anabranch.streaming.source_files import BatchPart
from anabranch.streaming.source_options import SourceOptions


def stream_schema(snapshot: Snapshot, options: SourceOptions, *, table: str) -> StructType:
    """The columns of a stream that begins now, as users see them. Raises `ReservedColumnsError`."""
    schema = snapshot.schema
    if options.read_change_feed:
        schema = feed_schema(schema, snapshot.column_mapping_mode, table=table)
    return visible_schema(schema)


def batch_rows(
    handle: TableHandle, snapshot: Snapshot, parts: Sequence[BatchPart], options: SourceOptions
) -> DataFrame:
    """The rows in these files, under the columns of `snapshot`."""
    if options.read_change_feed:
        return _changes(handle, snapshot, parts, options)
    tables = [_sliced(part) for part in parts]
    files = pa.concat_tables(tables) if tables else snapshot.files.table.slice(0, 0)
    if options.exclude is not None:
        files = _kept(files, options)
    skipping = SkippingColumns(
        files, physical_schema=snapshot.physical_schema, partition_columns=snapshot.physical_partition_columns
    )

    def prune(predicate: Predicate) -> FileMask:
        return can_be_true(predicate, skipping)

    request = dataclasses.replace(scan_request(handle, snapshot, time_travel=True), files=files, prune=prune)
    return handle.session.engine.scan(request)


def _sliced(part: BatchPart) -> pa.Table:
    assert part.files.adds is not None
    return part.files.adds.slice(part.first, part.end - part.first)


def _kept(files: pa.Table, options: SourceOptions) -> pa.Table:
    assert options.exclude is not None
    mask = [options.exclude.search(path) is None for path in pc.cast(files["path"], pa.string()).to_pylist()]
    return files.filter(pa.array(mask, pa.bool_()))


def _changes(handle: TableHandle, snapshot: Snapshot, parts: Sequence[BatchPart], options: SourceOptions) -> DataFrame:
    """What became of rows. Those that were there at the start are told as inserts of that version."""
    source: FeedSource = feed_source(handle, snapshot)
    partitioned = bool(snapshot.partition_columns)
    files = feed_files(_timed(handle, parts, options), table=handle.label, partitioned=partitioned)
    return feed_rows(handle.session.engine, source, files)


def _timed(handle: TableHandle, parts: Sequence[BatchPart], options: SourceOptions) -> Iterator[tuple[Commit, int]]:
    """Commits with the actions that the batch reads, and their times as the history tells them."""
    if not parts:
        return
    listing = list_log(handle.table.store, first=0, upto=parts[-1].files.version)
    times = {time.version: time.timestamp_ms for time in monotonic_times(listing.commits)}
    for part in parts:
        files = part.files
        if files.adds is None:
            actions = files.changes[part.first : part.end]
        else:
            rows = adds_of_table(_sliced(part), data_change=True)
            actions = tuple(msgspec.structs.replace(add, stats=None) for add in rows)
        if options.exclude is not None:
            exclude = options.exclude
            actions = tuple(each for each in actions if exclude.search(getattr(each, "path", "")) is None)
        own = None if files.info is None else files.info.in_commit_timestamp
        at_ms = times.get(files.version, files.timestamp_ms) if own is None else own
        commit = Commit(
            version=files.version,
            actions=actions,
            info=files.info,
            timestamp_ms=files.timestamp_ms,
            modified_ms=files.timestamp_ms,
        )
        yield commit, at_ms
