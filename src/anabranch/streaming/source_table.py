"""The table that a stream reads, and the columns of its rows."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql.types import StructType

from anabranch.change_feed.feed_columns import feed_schema
from anabranch.commands.table_access import TableRef, split_time_travel, table_at
from anabranch.errors.arguments import InvalidOptionError
from anabranch.errors.streaming import StreamedSchemaStaleError
from anabranch.errors.tables import ReadWithoutColumnsError
from anabranch.schema.paths import same_type, schema_differences
from anabranch.schema.schema_evolution import visible_schema
from anabranch.snapshot.snapshot import Snapshot
from anabranch.spark.session.delta_session import DeltaSession
from anabranch.streaming.source_options import SourceOptions

OUT_OF_RANGE_SETTING = "spark.databricks.delta.changeDataFeed.timestampOutOfRange.enabled"
"""Whether a stream that starts after the newest commit waits for the next commits."""


def streamed_table(session: DeltaSession, options: Mapping[str, str]) -> tuple[TableRef, SourceOptions]:
    """The table, and the other options of its reader. Raises `InvalidOptionError`, `NotADeltaTableError`."""
    path = next((value for key, value in options.items() if key.lower() == "path"), None)
    if path is None:
        raise InvalidOptionError(option="path", value="None", problem="a stream reads the table in one path")
    table = table_at(session, path, options)
    if table.delta_log.snapshots.latest_or_none() is None:
        plain, travel = split_time_travel(path)
        if not travel.is_newest:
            problem = f"a stream follows its table and has no version; use {plain} with startingVersion"
            raise InvalidOptionError(option="path", value=path, problem=problem)
    table.latest()
    return table, SourceOptions.parse(options)


def stream_schema(snapshot: Snapshot, options: SourceOptions, *, table: str) -> StructType:
    """The columns of a stream that begins now, as users see them. Raises `ReservedColumnsError`."""
    schema = snapshot.schema
    if options.read_change_feed:
        schema = feed_schema(schema, snapshot.column_mapping_mode, table=table)
    return visible_schema(schema)


def columns_to_read(
    table: TableRef, snapshot: Snapshot, options: SourceOptions, *, declared: StructType | None
) -> StructType:
    """The columns of a new stream of this version; `declared` is the schema that the user gave to the reader.

    Raises `InvalidOptionError`, `ReadWithoutColumnsError`, `ReservedColumnsError`.
    """
    schema = stream_schema(snapshot, options, table=table.label)
    if not schema.fields:
        raise ReadWithoutColumnsError(table=table.label)
    if declared is not None and not _is_same(declared, schema):
        own = f"{table.label} has its own schema, {schema.simpleString()}"
        problem = f"{own}; leave the schema out and select the columns you want"
        raise InvalidOptionError(option="schema", value=declared.simpleString(), problem=problem)
    return schema


def check_as_made(made: StructType, now: StructType, *, table: str) -> None:
    """Check that a stream with the columns `made` can be run with the columns that the table has now.

    Raises `StreamedSchemaStaleError`.
    """
    if not _is_same(made, now):
        raise StreamedSchemaStaleError(table=table, difference=", ".join(schema_differences(made, now)))


def _is_same(one: StructType, other: StructType) -> bool:
    return one.fieldNames() == other.fieldNames() and same_type(one, other)
