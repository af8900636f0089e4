"""`df.writeStream` into Delta tables.

PySpark's streaming writer takes no format of ours. So a stream into a table becomes one with `foreachBatch`, whose
function writes each batch; see `anabranch.streaming.sink`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.streaming.readwriter import DataStreamWriter

from anabranch.commands.table_access import is_delta_name
from anabranch.connect.callers import means_delta, session_of
from anabranch.connect.recorded_calls import columns_of, noted
from anabranch.errors.arguments import InvalidOptionError
from anabranch.spark.delta_session import DeltaSession
from anabranch.streaming.query import SinkQuery
from anabranch.streaming.sink import StreamSink, sink_at, sink_named
from anabranch.streaming.stream_options import StreamOptions


def start(
    original: Callable[..., Any],
    self: Any,
    path: Any = None,
    format: Any = None,
    outputMode: Any = None,
    partitionBy: Any = None,
    queryName: Any = None,
    **options: Any,
) -> Any:
    """`writeStream.start`."""
    if not means_delta(self, format):
        return original(self, path, format, outputMode, partitionBy, queryName, **options)
    stream = _told(self, outputMode, partitionBy, queryName, options)
    target = path if path is not None else stream.write.path
    if not isinstance(target, str):
        problem = "start needs the path of the table; toTable takes its name"
        raise InvalidOptionError(option="path", value=str(target), problem=problem)
    frame = _frame(self)
    return _run(self, sink_at(DeltaSession.of(session_of(self)), frame, target, stream), stream)


def to_table(
    original: Callable[..., Any],
    self: Any,
    tableName: str,
    format: Any = None,
    outputMode: Any = None,
    partitionBy: Any = None,
    queryName: Any = None,
    **options: Any,
) -> Any:
    """`writeStream.toTable`."""
    session = DeltaSession.of(session_of(self))
    unnamed = format is None and noted(self).format is None
    if not (means_delta(self, format) or (unnamed and is_delta_name(session, tableName))):
        return original(self, tableName, format, outputMode, partitionBy, queryName, **options)
    stream = _told(self, outputMode, partitionBy, queryName, options)
    return _run(self, sink_named(session, _frame(self), tableName, stream), stream)


def _told(
    writer: Any, output_mode: str | None, partition_by: Any, query_name: str | None, options: dict[str, Any]
) -> StreamOptions:
    """What the writer was told before and is told now; what is told now goes first."""
    writer.options(**options)
    told = noted(writer)
    return StreamOptions.parse(
        told.options,
        output_mode=output_mode or told.output_mode,
        partition_by=told.partition_by if partition_by is None else columns_of((partition_by,)),
        cluster_by=told.cluster_by,
        query_name=query_name or told.query_name,
        trigger=told.trigger,
        settings=DeltaSession.of(session_of(writer)),
    )


def _run(writer: Any, sink: StreamSink, stream: StreamOptions) -> Any:
    """Start the query. Its writer is a new one: Spark lets `foreachBatch` have neither format nor partitioning."""
    fresh = _fresh(writer).foreachBatch(sink)
    fresh.options(**{**noted(writer).options, "checkpointLocation": stream.checkpoint}).outputMode(stream.output_mode)
    if stream.query_name is not None:
        fresh.queryName(stream.query_name)
    if stream.trigger:
        fresh.trigger(**stream.trigger)
    query = fresh.start()
    return SinkQuery(query, sink) if isinstance(writer, DataStreamWriter) else query


def _frame(writer: Any) -> DataFrame:
    if isinstance(writer, DataStreamWriter):
        return writer._df
    from pyspark.sql.connect.dataframe import DataFrame as ConnectFrame  # noqa: PLC0415

    return ConnectFrame(writer._write_stream._child, writer._session)


def _fresh(writer: Any) -> Any:
    if isinstance(writer, DataStreamWriter):
        return DataStreamWriter(writer._df)
    return type(writer)(writer._write_stream._child, writer._session)
