"""`spark.read`, `df.write` and `spark.table` learn the format `delta`.

PySpark offers no place to hook a format into a session's readers and writers, so their classes are wrapped,
once per process. A wrapped call asks first whether its session was enabled and means Delta; any other call
goes to PySpark as it was.
"""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any, cast

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.readwriter import DataFrameReader, DataFrameWriter

from anabranch.commands.read import read_name, read_path
from anabranch.commands.table_access import is_delta_name
from anabranch.commands.write import insert_into, save, save_as_table
from anabranch.commands.write_options import WriteOptions
from anabranch.datasource.recorded_calls import columns_of, note_calls, noted
from anabranch.errors.arguments import InvalidOptionError, UnsupportedOperationError
from anabranch.spark.delta_session import DeltaSession

_enabled: weakref.WeakSet[SparkSession] = weakref.WeakSet()
_wrapped: set[type] = set()
_lock = threading.Lock()


def enable_readers_and_writers(spark: SparkSession) -> None:
    """Let `spark` read and write `delta`. Calling it again changes nothing."""
    with _lock:
        for reader, writer, session in _classes_of(spark):
            if reader not in _wrapped:
                _wrap(reader, writer, session)
                _wrapped.add(reader)
        _enabled.add(spark)


def is_enabled(spark: SparkSession) -> bool:
    """Whether `anabranch.enable` was called on `spark`."""
    return spark in _enabled


def _classes_of(spark: SparkSession) -> Iterator[tuple[type, type, type]]:
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        from pyspark.sql.connect.readwriter import DataFrameReader as ConnectReader
        from pyspark.sql.connect.readwriter import DataFrameWriter as ConnectWriter

        yield ConnectReader, ConnectWriter, type(spark)
    else:
        yield DataFrameReader, DataFrameWriter, SparkSession


def _wrap(reader: type, writer: type, session: type) -> None:
    note_calls(reader)
    note_calls(writer)
    _replace(reader, "load", _load)
    _replace(reader, "table", _table)
    _replace(writer, "save", _save)
    _replace(writer, "saveAsTable", _save_as_table)
    _replace(writer, "insertInto", _insert_into)
    _replace(session, "table", _session_table)


def _replace(cls: type, name: str, replacement: Callable[..., Any]) -> None:
    original = getattr(cls, name)

    @functools.wraps(original)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not is_enabled(_session_of(self)):
            return original(self, *args, **kwargs)
        return replacement(original, self, *args, **kwargs)

    setattr(cls, name, call)


def _session_of(instance: Any) -> SparkSession:
    if type(instance).__name__ == "SparkSession":
        return cast("SparkSession", instance)
    return cast("SparkSession", getattr(instance, "_spark", None) or instance._client)


def _means_delta(instance: Any, format: str | None) -> bool:
    source = format or noted(instance).format
    if source is None:
        source = _session_of(instance).conf.get("spark.sql.sources.default", "parquet")
    return str(source).lower() == "delta"


def _load(
    original: Callable[..., Any], self: Any, path: Any = None, format: Any = None, schema: Any = None, **options: Any
) -> Any:
    if not _means_delta(self, format):
        return original(self, path, format, schema, **options)
    self.options(**options)
    told = noted(self)
    session = DeltaSession.of(_session_of(self))
    target = path if path is not None else told.options.get("path")
    if not isinstance(target, str):
        problem = "a Delta table is read from exactly one path"
        raise InvalidOptionError(option="path", value=str(target), problem=problem)
    return read_path(session, target, told.options, declared=schema or told.schema)


def _table(original: Callable[..., Any], self: Any, tableName: str) -> Any:
    session = DeltaSession.of(_session_of(self))
    if not is_delta_name(session, tableName):
        return original(self, tableName)
    return read_name(session, tableName, noted(self).options)


def _session_table(original: Callable[..., Any], self: Any, tableName: str) -> Any:
    session = DeltaSession.of(self)
    if not is_delta_name(session, tableName):
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
    if not _means_delta(self, format):
        return original(self, path, format, mode, partitionBy, **options)
    session, write = _options(self, mode, partitionBy, options)
    target = path if path is not None else write.path
    if not isinstance(target, str):
        raise InvalidOptionError(option="path", value=str(target), problem="save needs the path of the table")
    save(session, _frame(self), target, write)
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
    session = DeltaSession.of(_session_of(self))
    if not (_means_delta(self, format) or (noted(self).format is None and is_delta_name(session, name))):
        return original(self, name, format, mode, partitionBy, **options)
    session, write = _options(self, mode, partitionBy, options)
    save_as_table(session, _frame(self), name, write)
    return None


def _insert_into(original: Callable[..., Any], self: Any, tableName: str, overwrite: Any = None) -> Any:
    session = DeltaSession.of(_session_of(self))
    if not is_delta_name(session, tableName):
        return original(self, tableName, overwrite)
    mode = None if overwrite is None else ("overwrite" if overwrite else "append")
    session, write = _options(self, mode, None, {}, default_mode="append")
    insert_into(session, _frame(self), tableName, write)
    return None


def _options(
    writer: Any, mode: Any, partition_by: Any, options: dict[str, Any], default_mode: str = "errorifexists"
) -> tuple[DeltaSession, WriteOptions]:
    writer.mode(mode).options(**options)
    told = noted(writer)
    if told.bucketed:
        raise UnsupportedOperationError(operation="bucketBy on a Delta table", instead="Use partitionBy.")
    session = DeltaSession.of(_session_of(writer))
    if partition_by is not None:
        columns = columns_of(tuple(partition_by) if isinstance(partition_by, (list, tuple)) else (partition_by,))
    else:
        columns = told.partition_by
    return session, WriteOptions.parse(
        told.options,
        mode=told.mode or default_mode,
        partition_by=columns,
        cluster_by=told.cluster_by,
        settings=session,
    )


def _frame(writer: Any) -> DataFrame:
    if isinstance(writer, DataFrameWriter):
        return writer._df
    from pyspark.sql.connect.dataframe import DataFrame as ConnectFrame

    return ConnectFrame(writer._df, writer._spark)
