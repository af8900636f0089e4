"""Tables as sinks of streaming queries."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from anabranch.callbacks.asker import Asker, split_map
from anabranch.callbacks.commands import Command
from anabranch.callbacks.tables import entry_of
from anabranch.callbacks.writes import CLUSTERING_OPTION
from anabranch.commands.read import split_time_travel
from anabranch.commands.table_access import TableHandle, table_at, table_of_entry
from anabranch.errors.arguments import InvalidOptionError, UnsupportedOperationError
from anabranch.spark.classic_catalog import ClassicCatalog
from anabranch.spark.delta_session import DeltaSession
from anabranch.spark.extension.door import Answer
from anabranch.spark.native.plan_reading import reads_table
from anabranch.streaming.sink import check_batch, query_id_of_thread, write_batch
from anabranch.streaming.stream_options import StreamOptions


class Streams:
    """Tables as sinks of streaming queries."""

    def __init__(self, asker: Asker) -> None:
        self._asker = asker

    def answers(self) -> dict[str, Answer]:
        return {
            "open sink": self.open,
            "add batch": self.add,
            "entry of path": self.entry_of_path,
            "refuse to stream by name": self.refuse_name,
        }

    def commands(self) -> dict[str, Command]:
        return {}

    def open(self, session: Any, options: str, partitions: str, mode: str, entry: Any) -> None:
        """A query is about to start. Raises `InvalidOptionError` for what a stream cannot be told."""
        self._told(self._asker.session(session), options, partitions, mode, entry)

    def add(
        self, session: Any, options: str, partitions: str, mode: str, entry: Any, number: int, rows: Any, plan: Any
    ) -> None:
        """Writes a batch, once; `plan` is how the query makes its rows."""
        own = self._asker.session(session)
        handle, told = self._told(own, options, partitions, mode, entry)
        batch = DataFrame(rows, own.spark)
        check_batch(batch.schema, table=handle.label)
        write = dataclasses.replace(told.write, reads_target=reads_table(plan, handle.path))
        write_batch(handle, batch, write, query_id=query_id_of_thread(own), number=number)

    def entry_of_path(self, session: Any, path: str, version: int | None, schema: str) -> Any:
        """What Spark wants of a name, for a path, which has no entry in a catalog. Raises `InvalidOptionError`."""
        if version is not None:
            problem = f"a stream has no version; use {path}, to read it from a version on with startingVersion"
            raise InvalidOptionError(option="path", value=f"{path}@v{version}", problem=problem)
        columns = StructType.fromJson(json.loads(schema))
        return ClassicCatalog(self._asker.spark(session)).entry_of_path(path, columns)

    def refuse_name(self, path: str) -> None:
        """A path has no entry in a catalog, which is what Spark wants of a name into which it writes."""
        operation = f"a stream into delta.`{path}` by toTable"
        raise UnsupportedOperationError(operation=operation, instead='Use format("delta") and start(path).')

    def _told(
        self, own: DeltaSession, options: str, partitions: str, mode: str, entry: Any
    ) -> tuple[TableHandle, StreamOptions]:
        given = split_map(options)
        clustering = json.loads(given.pop(CLUSTERING_OPTION, "[]"))
        told = StreamOptions.parse(
            given,
            output_mode=mode,
            partition_by=tuple(partitions.split("\0")) if partitions else (),
            cluster_by=tuple(clustering),
            query_name=None,
            trigger={},
            settings=own,
        )
        path = told.write.path
        if path is None:
            problem = "start needs the path of the table; toTable takes its name"
            raise InvalidOptionError(option="path", value="None", problem=problem)
        if entry is not None:
            return table_of_entry(own, entry_of(entry, path)), told
        plain, travel = split_time_travel(path)
        if not travel.is_newest:
            problem = f"an old version cannot be written to; use {plain}"
            raise InvalidOptionError(option="path", value=path, problem=problem)
        return table_at(own, path, told.write.file_system), told
