"""`spark.readStream` on Delta tables: a stream of our data source, whose Python processes plan and read it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from anabranch.commands.table_access import TableHandle, is_delta_name, table_identified
from anabranch.commands.timestamps import to_milliseconds
from anabranch.connect.callers import means_delta, session_of
from anabranch.connect.recorded_calls import noted
from anabranch.connect.source.registration import register
from anabranch.connect.source.stream_told import LABEL, OUT_OF_RANGE, STARTING_MS
from anabranch.errors.arguments import InvalidOptionError, UnsupportedOperationError
from anabranch.spark.delta_session import DeltaSession
from anabranch.spark.portable.projection import bare, column, table_column
from anabranch.spark.table_identifiers import PathIdentifier, TableIdentifier, parse_identifier
from anabranch.streaming.source_options import SourceOptions
from anabranch.streaming.source_table import OUT_OF_RANGE_SETTING, columns_to_read, streamed_table

_FORMAT = "anabranch_stream"
"""Where other sessions of the application have our classes, Spark knows `delta` as one of these."""


def load_stream(
    original: Callable[..., Any], self: Any, path: Any = None, format: Any = None, schema: Any = None, **options: Any
) -> Any:
    """`readStream.load`."""
    if not means_delta(self, format):
        return original(self, path, format, schema, **options)
    self.options(**options)
    told = noted(self)
    if path is not None and not isinstance(path, str):
        raise InvalidOptionError(option="path", value=str(path), problem="a stream reads the table in one path")
    given = told.options if path is None else {**_without_path(told.options), "path": path}
    declared = schema or told.schema
    if isinstance(declared, str):
        parsed = StructType.fromDDL(declared)
        assert isinstance(parsed, StructType)
        declared = parsed
    session = DeltaSession.of(session_of(self))
    handle, parsed_options = streamed_table(session, given)
    return _stream_frame(handle, parsed_options, given, declared=declared)


def stream_of_table(original: Callable[..., Any], self: Any, tableName: str) -> Any:
    """`readStream.table` of a Delta table."""
    session = DeltaSession.of(session_of(self))
    if not is_delta_name(session, tableName):
        return original(self, tableName)
    return stream_identified(session, parse_identifier(tableName), noted(self).options)


def stream_identified(session: DeltaSession, identifier: TableIdentifier, given: Mapping[str, str]) -> DataFrame:
    """The table of a name, as a stream. Raises `InvalidOptionError`, `NotADeltaTableError`."""
    if isinstance(identifier, PathIdentifier):
        handle, options = streamed_table(session, {**_without_path(given), "path": identifier.path})
    else:
        handle, options = table_identified(session, identifier), SourceOptions.parse(given)
    return _stream_frame(handle, options, given, declared=None)


def _stream_frame(
    handle: TableHandle, options: SourceOptions, given: Mapping[str, str], *, declared: StructType | None
) -> DataFrame:
    session = handle.session
    if options.schema_location is not None:
        operation = f"schemaTrackingLocation of a stream from {handle.label}, by PySpark's public API,"
        instead = "Use a classic session, or begin with a new checkpoint where columns were renamed or dropped."
        raise UnsupportedOperationError(operation=operation, instead=instead)
    columns = columns_to_read(handle, handle.latest(), options, declared=declared)
    # What the source knows of the session, it knows from when it was registered.
    register(session.spark, name=_FORMAT)
    told = {**_without_path(given), "path": handle.path, LABEL: handle.label}
    if options.starting_timestamp is not None:
        told[STARTING_MS] = str(to_milliseconds(session, options.starting_timestamp, option="startingTimestamp"))
    if session.flag(OUT_OF_RANGE_SETTING, default=False):
        told[OUT_OF_RANGE] = "true"
    reader: Any = session.spark.readStream.format(_FORMAT).schema(bare(columns)).options(**told)
    frame: DataFrame = reader.load()
    return frame.select(*(table_column(field, column(field.name), None) for field in columns.fields))


def _without_path(given: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in given.items() if key.lower() != "path"}
