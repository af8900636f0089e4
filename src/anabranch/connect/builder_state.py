"""What a reader or writer was told before the call that acts.

PySpark's own objects keep this in the JVM or in a plan, out of reach; so the calls are noted on the way.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, cast

from pyspark.sql import DataFrame, SparkSession

from anabranch.spark.session.session_settings import is_session

_NOTED = "_anabranch_noted"


@dataclasses.dataclass(slots=True)
class BuilderState:
    """Format, mode, options and columns that a reader or writer was given so far."""

    format: str | None = None
    mode: str | None = None
    schema: Any = None
    options: dict[str, str] = dataclasses.field(default_factory=dict)
    """By the name last used; two spellings that differ in case are one option."""
    partition_by: tuple[str, ...] = ()
    cluster_by: tuple[str, ...] = ()
    bucketed: bool = False
    table: str | None = None
    """Of `writeTo`."""
    properties: dict[str, str] = dataclasses.field(default_factory=dict)
    """Of the table that `writeTo` makes."""
    output_mode: str | None = None
    query_name: str | None = None
    trigger: dict[str, Any] = dataclasses.field(default_factory=dict)

    def set_option(self, key: str, value: Any) -> None:
        if value is None:
            return
        for known in [known for known in self.options if known.lower() == key.lower()]:
            del self.options[known]
        self.options[key] = str(value).lower() if isinstance(value, bool) else str(value)


def noted(instance: Any) -> BuilderState:
    """What was noted of `instance`; empty at first."""
    found = instance.__dict__.get(_NOTED)
    if found is None:
        found = instance.__dict__[_NOTED] = BuilderState()
    return found  # type: ignore[no-any-return]


def note_calls(cls: type) -> None:
    """From now on, note what instances of a reader or writer class are told."""
    for name, note in _NOTES.items():
        original = getattr(cls, name, None)
        if original is not None:
            setattr(cls, name, _noting(original, note))


def note_table(cls: type) -> None:
    """From now on, note which table a `DataFrameWriterV2` is made for."""
    original = cls.__init__  # type: ignore[misc]

    @functools.wraps(original)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        names = [value for value in (*args, kwargs.get("table")) if isinstance(value, str)]
        noted(self).table = names[0] if names else None

    cls.__init__ = init  # type: ignore[misc]


def columns_of(arguments: tuple[Any, ...]) -> tuple[str, ...]:
    """Column names given one by one or as one list."""
    if len(arguments) == 1 and isinstance(arguments[0], (list, tuple)):
        return tuple(arguments[0])
    return arguments


def _noting(original: Callable[..., Any], note: Callable[..., None]) -> Callable[..., Any]:
    @functools.wraps(original)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(self, *args, **kwargs)
        note(noted(self), *args, **kwargs)
        return result

    return call


def _note_format(state: BuilderState, *source: str, **named: str) -> None:
    state.format = next(iter((*source, *named.values())))


def _note_mode(state: BuilderState, saveMode: str | None) -> None:
    if saveMode is not None:
        state.mode = saveMode


def _note_option(state: BuilderState, key: str, value: Any) -> None:
    state.set_option(key, value)


def _note_options(state: BuilderState, **options: Any) -> None:
    for key, value in options.items():
        state.set_option(key, value)


def _note_schema(state: BuilderState, schema: Any) -> None:
    state.schema = schema


def _note_partition_by(state: BuilderState, *cols: Any) -> None:
    state.partition_by = columns_of(cols)


def _note_cluster_by(state: BuilderState, *cols: Any) -> None:
    state.cluster_by = columns_of(cols)


def _note_partitioned_by(state: BuilderState, col: Any, *cols: Any) -> None:
    state.partition_by = (col, *cols)


def _note_table_property(state: BuilderState, property: str, value: str) -> None:
    state.properties[property] = value


def _note_bucket_by(state: BuilderState, *_: Any, **__: Any) -> None:
    state.bucketed = True


def _note_output_mode(state: BuilderState, outputMode: str) -> None:
    state.output_mode = outputMode


def _note_query_name(state: BuilderState, queryName: str) -> None:
    state.query_name = queryName


def _note_trigger(state: BuilderState, **when: Any) -> None:
    state.trigger = {name: value for name, value in when.items() if value is not None}


def _note_foreach(state: BuilderState, *_: Any, **__: Any) -> None:
    state.format = "foreach"


def _note_foreach_batch(state: BuilderState, *_: Any, **__: Any) -> None:
    state.format = "foreachBatch"


_NOTES: dict[str, Callable[..., None]] = {
    "format": _note_format,
    "using": _note_format,
    "mode": _note_mode,
    "option": _note_option,
    "options": _note_options,
    "schema": _note_schema,
    "partitionBy": _note_partition_by,
    "clusterBy": _note_cluster_by,
    "bucketBy": _note_bucket_by,
    "partitionedBy": _note_partitioned_by,
    "tableProperty": _note_table_property,
    "outputMode": _note_output_mode,
    "queryName": _note_query_name,
    "trigger": _note_trigger,
    "foreach": _note_foreach,
    "foreachBatch": _note_foreach_batch,
}


# Whose call it is: the session, and the format, of a reader or writer of PySpark's.


def session_of(instance: Any) -> SparkSession:
    """The session that a session, reader or writer belongs to."""
    if is_session(instance):
        return cast("SparkSession", instance)
    # PySpark's classes differ in what they call it.
    found = next(vars(instance)[name] for name in ("_spark", "_client", "_session") if name in vars(instance))
    return cast("SparkSession", found)


def means_delta(instance: Any, format: str | None) -> bool:
    """Whether the format given now, or before, or else the session's default, is Delta."""
    source = format or noted(instance).format
    if source is None:
        source = session_of(instance).conf.get("spark.sql.sources.default", "parquet")
    return str(source).lower() == "delta"


def frame_of(writer: Any) -> DataFrame:
    """The rows that a writer is to write."""
    found = writer._df
    if isinstance(found, DataFrame):
        return found
    from pyspark.sql.connect.dataframe import DataFrame as ConnectFrame  # noqa: PLC0415 - an optional package

    return ConnectFrame(found, writer._spark)
