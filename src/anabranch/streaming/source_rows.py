"""The rows of a batch, read by the session's engine."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from pyspark.sql import DataFrame

from anabranch.change_feed.feed_files import feed_files
from anabranch.change_feed.feed_rows import FeedSource, feed_rows
from anabranch.commands.read.read_changes import feed_source
from anabranch.commands.read.read_table import scan_request
from anabranch.commands.table_access import TableRef
from anabranch.data_skipping.file_skipping import SkippingColumns, can_be_true
from anabranch.log.file_columns import FileMask
from anabranch.predicates.expressions import Predicate
from anabranch.snapshot.snapshot import Snapshot
from anabranch.streaming.source_files import BatchPart, live_files, timed_commits
from anabranch.streaming.source_options import SourceOptions


def batch_rows(table: TableRef, snapshot: Snapshot, parts: Sequence[BatchPart], options: SourceOptions) -> DataFrame:
    """The rows of these files, with the columns of `snapshot`."""
    if options.read_change_feed:
        return _changes(table, snapshot, parts, options)
    files = live_files(parts, options)
    skipping = SkippingColumns(
        files, physical_schema=snapshot.physical_schema, partition_columns=snapshot.physical_partition_columns
    )

    def prune(predicate: Predicate) -> FileMask:
        return can_be_true(predicate, skipping)

    request = dataclasses.replace(scan_request(table, snapshot, time_travel=True), files=files, prune=prune)
    return table.session.engine.scan(request)


def _changes(table: TableRef, snapshot: Snapshot, parts: Sequence[BatchPart], options: SourceOptions) -> DataFrame:
    """Changes of rows. Rows that existed at the start are inserts of that version."""
    source: FeedSource = feed_source(table, snapshot)
    partitioned = bool(snapshot.partition_columns)
    commits = timed_commits(table.delta_log.store, parts, options)
    return feed_rows(table.session.engine, source, feed_files(commits, table=table.label, partitioned=partitioned))
