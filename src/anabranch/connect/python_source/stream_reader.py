"""A table as the source of a stream, for Python workers: a process of the driver that plans, and tasks that read.

PySpark 4.2 and later say where a batch begins and how much it may take. Earlier ones do neither: there a batch takes
all there is, since a limited one would be the last where the query ends with what is available.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyspark.sql.datasource
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from anabranch.connect.python_source.stream_request import StreamTold
from anabranch.connect.python_source.stream_tasks import StreamTask, StreamTasks
from anabranch.streaming.source_table import check_as_made, stream_schema
from anabranch.streaming.stream_source import StreamSource

Position = dict[str, Any]
"""A `SourceOffset` as Spark writes it into the checkpoint; `BEGINNING` never gets there."""
BEGINNING: Position = {}
"""Where a query without a checkpoint begins: the end of its first batch says which position that is."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Run:
    """One run of a query."""

    source: StreamSource
    tasks: StreamTasks


class DeltaStreamReader(DataSourceStreamReader):
    """What every PySpark can do. Nothing is read before Spark asks for a position."""

    def __init__(self, told: StreamTold, schema: StructType) -> None:
        self._told = told
        self._schema = schema
        self._started: _Run | None = None

    def initialOffset(self) -> Position:
        return BEGINNING

    def partitions(self, start: Position, end: Position) -> Sequence[InputPartition]:
        if start == end:
            return []
        run = self._run()
        return run.tasks.of(run.source.batch(_text(start), json.dumps(end)))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, StreamTask)
        return partition.read()

    def _run(self) -> _Run:
        """Begins with the first call. Raises `StreamedSchemaStaleError`, `TableNotFoundError`."""
        if self._started is None:
            told, store = self._told, self._told.store()
            snapshot, source = told.open(store)
            check_as_made(self._schema, stream_schema(snapshot, told.options, table=told.label), table=told.label)
            tasks = StreamTasks(told=told, store=store, snapshot=snapshot, expected=self._schema)
            self._started = _Run(source=source, tasks=tasks)
        return self._started

    def _end(self, start: Position, *, is_limited: bool) -> Position:
        source = self._run().source
        end = source.latest_offset(_text(start), is_limited=is_limited) or source.first_offset()
        found: Position = json.loads(end)
        return found

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_started": None}


class UnlimitedStreamReader(DeltaStreamReader):
    """PySpark 4.0 and 4.1."""

    def __init__(self, told: StreamTold, schema: StructType) -> None:
        super().__init__(told, schema)
        self._reached = BEGINNING

    def latestOffset(self) -> Position:  # type: ignore[override]
        self._reached = self._end(self._reached, is_limited=False)
        return self._reached

    def partitions(self, start: Position, end: Position) -> Sequence[InputPartition]:
        # With a checkpoint Spark first asks for the empty batch at its last position.
        self._reached = end
        return super().partitions(start, end)


def stream_reader(told: StreamTold, schema: StructType) -> DataSourceStreamReader:
    """What the PySpark that runs can use of a table. Raises `ChangesNotRecordedError` …"""
    if not hasattr(pyspark.sql.datasource, "ReadLimit"):
        return UnlimitedStreamReader(told, schema)
    # The module is there since PySpark 4.2.
    from anabranch.connect.python_source.limited_stream_reader import LimitedStreamReader  # noqa: PLC0415

    return LimitedStreamReader(told, schema)


def _text(position: Position) -> str | None:
    return json.dumps(position) if position else None
