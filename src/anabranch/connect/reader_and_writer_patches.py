"""`spark.read`, `df.write` and `spark.table` learn the format `delta`.

PySpark offers no place to hook a format into a session's readers and writers, so their classes are wrapped,
once per process. A wrapped call asks first whether its session was enabled and means Delta; any other call
goes to PySpark as it was.
"""

from __future__ import annotations

import dataclasses
import functools
import threading
from collections.abc import Callable
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.readwriter import DataFrameReader, DataFrameWriter, DataFrameWriterV2
from pyspark.sql.streaming.readwriter import DataStreamReader, DataStreamWriter

from anabranch.commands.read.read_table import read_name, read_path, reads_delta_name
from anabranch.commands.table_access import is_delta_name
from anabranch.commands.write.write_options import WriteOptions
from anabranch.commands.write.write_rows import insert_into, save, save_as_table
from anabranch.connect import write_to
from anabranch.connect.builder_state import columns_of, frame_of, means_delta, note_calls, note_table, noted, session_of
from anabranch.connect.stream_patches import load_stream, start, stream_of_table, to_table
from anabranch.errors.arguments import BucketingError, InvalidOptionError
from anabranch.spark.session.delta_session import DeltaSession
from anabranch.spark.session.session_settings import identity, is_connect

_enabled: set[str] = set()
"""Identities of sessions."""
_wrapped: set[type] = set()
_lock = threading.Lock()


def enable_readers_and_writers(spark: SparkSession) -> None:
    """Let `spark` read and write `delta`. Calling it again changes nothing."""
    with _lock:
        classes = _classes_of(spark)
        if classes.session not in _wrapped:
            _wrap(classes)
            _wrapped.add(classes.session)
        _enabled.add(identity(spark))


def disable_readers_and_writers(spark: SparkSession) -> None:
    """From now on the session's calls go to PySpark as they are."""
    with _lock:
        _enabled.discard(identity(spark))


def is_enabled(spark: SparkSession) -> bool:
    """Whether `anabranch.enable` was called on `spark`."""
    return identity(spark) in _enabled


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _PySparkClasses:
    """What is wrapped, for one kind of session."""

    session: type
    reader: type
    writer: type
    writer_v2: type
    stream_reader: type
    stream_writer: type


def _classes_of(spark: SparkSession) -> _PySparkClasses:
    if is_connect(spark):
        # Only a session that is there already brings the packages that these modules need.
        from pyspark.sql.connect import readwriter  # noqa: PLC0415
        from pyspark.sql.connect.streaming import readwriter as streaming  # noqa: PLC0415

        return _PySparkClasses(
            session=type(spark),
            reader=readwriter.DataFrameReader,
            writer=readwriter.DataFrameWriter,
            writer_v2=readwriter.DataFrameWriterV2,
            stream_reader=streaming.DataStreamReader,
            stream_writer=streaming.DataStreamWriter,
        )
    return _PySparkClasses(
        session=SparkSession,
        reader=DataFrameReader,
        writer=DataFrameWriter,
        writer_v2=DataFrameWriterV2,
        stream_reader=DataStreamReader,
        stream_writer=DataStreamWriter,
    )


def _wrap(classes: _PySparkClasses) -> None:
    for cls in (classes.reader, classes.writer, classes.writer_v2, classes.stream_reader, classes.stream_writer):
        note_calls(cls)
    note_table(classes.writer_v2)
    _replace(classes.reader, "load", _load)
    _replace(classes.reader, "table", _table)
    _replace(classes.writer, "save", _save)
    _replace(classes.writer, "saveAsTable", _save_as_table)
    _replace(classes.writer, "insertInto", _insert_into)
    _replace(classes.session, "table", _session_table)
    _replace(classes.writer_v2, "create", write_to.create)
    _replace(classes.writer_v2, "replace", write_to.replace)
    _replace(classes.writer_v2, "createOrReplace", write_to.create_or_replace)
    _replace(classes.writer_v2, "append", write_to.append)
    _replace(classes.writer_v2, "overwrite", write_to.overwrite)
    _replace(classes.writer_v2, "overwritePartitions", write_to.overwrite_partitions)
    _replace(classes.stream_reader, "load", load_stream)
    _replace(classes.stream_reader, "table", stream_of_table)
    _replace(classes.stream_writer, "start", start)
    _replace(classes.stream_writer, "toTable", to_table)


def _replace(cls: type, name: str, replacement: Callable[..., Any]) -> None:
    original = getattr(cls, name)

    @functools.wraps(original)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not is_enabled(session_of(self)):
            return original(self, *args, **kwargs)
        return replacement(original, self, *args, **kwargs)

    setattr(cls, name, call)


def _load(
    original: Callable[..., Any], self: Any, path: Any = None, format: Any = None, schema: Any = None, **options: Any
) -> Any:
    if not means_delta(self, format):
        return original(self, path, format, schema, **options)
    self.options(**options)
    told = noted(self)
    session = DeltaSession.of(session_of(self))
    target = path if path is not None else told.options.get("path")
    if not isinstance(target, str):
        problem = "a Delta table is read from exactly one path"
        raise InvalidOptionError(option="path", value=str(target), problem=problem)
    return read_path(session, target, told.options, declared=schema or told.schema)


def _table(original: Callable[..., Any], self: Any, tableName: str) -> Any:
    session = DeltaSession.of(session_of(self))
    if not reads_delta_name(session, tableName):
        return original(self, tableName)
    return read_name(session, tableName, noted(self).options)


def _session_table(original: Callable[..., Any], self: Any, tableName: str) -> Any:
    session = DeltaSession.of(self)
    if not reads_delta_name(session, tableName):
        return original(self, tableName)
    return read_name(session, tableName, {})


def _save(
    original: Callable[..., Any],
    self: Any,
    path: Any = None,
    format: Any = None,
    mode: Any = None,
    partitionBy: Any = None,
    **options: Any,
) -> Any:
    if not means_delta(self, format):
        return original(self, path, format, mode, partitionBy, **options)
    session, write = _options(self, mode, partitionBy, options)
    target = path if path is not None else write.path
    if not isinstance(target, str):
        raise InvalidOptionError(option="path", value=str(target), problem="save needs the path of the table")
    save(session, frame_of(self), target, write)
    return None


def _save_as_table(
    original: Callable[..., Any],
    self: Any,
    name: str,
    format: Any = None,
    mode: Any = None,
    partitionBy: Any = None,
    **options: Any,
) -> Any:
    session = DeltaSession.of(session_of(self))
    if not (means_delta(self, format) or (noted(self).format is None and is_delta_name(session, name))):
        return original(self, name, format, mode, partitionBy, **options)
    session, write = _options(self, mode, partitionBy, options)
    save_as_table(session, frame_of(self), name, write)
    return None


def _insert_into(original: Callable[..., Any], self: Any, tableName: str, overwrite: Any = None) -> Any:
    session = DeltaSession.of(session_of(self))
    if not is_delta_name(session, tableName):
        return original(self, tableName, overwrite)
    mode = None if overwrite is None else ("overwrite" if overwrite else "append")
    session, write = _options(self, mode, None, {}, default_mode="append")
    insert_into(session, frame_of(self), tableName, write)
    return None


def _options(
    writer: Any, mode: Any, partition_by: Any, options: dict[str, Any], default_mode: str = "errorifexists"
) -> tuple[DeltaSession, WriteOptions]:
    writer.mode(mode).options(**options)
    told = noted(writer)
    if told.bucketed:
        raise BucketingError(operation="bucketBy on a Delta table", instead="Use partitionBy.")
    session = DeltaSession.of(session_of(writer))
    columns = told.partition_by if partition_by is None else columns_of((partition_by,))
    return session, WriteOptions.parse(
        told.options,
        mode=told.mode or default_mode,
        partition_by=columns,
        cluster_by=told.cluster_by,
        settings=session,
    )
