"""The files of a batch as tasks of Python workers, which read them without a session."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
from pyroaring import BitMap64
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from anabranch.change_feed.change_files import CHANGE_TYPE, COMMIT_TIMESTAMP, COMMIT_VERSION, feed_schema
from anabranch.change_feed.feed_files import VectorDifference, feed_files
from anabranch.connect.python_source.source_reader import LiveFile, file_batches
from anabranch.connect.python_source.stream_request import StreamTold
from anabranch.deletion_vectors.vector_reading import load_vector
from anabranch.log.file_columns import table_of_adds
from anabranch.snapshot.snapshot import Snapshot
from anabranch.spark.portable.arrow_types import by_position, fit, row_schema
from anabranch.spark.portable.data_file_reading import DataFiles, RowReader
from anabranch.storage.external_files import allowed_places
from anabranch.storage.log_store import LogStore
from anabranch.streaming.source_files import BatchPart, live_files, timed_commits


class StreamTask(InputPartition):
    """Files that one task reads, and all that it must know for that."""

    def __init__(
        self,
        rows: RowReader,
        expected: StructType,
        files: Sequence[LiveFile],
        differences: Mapping[str, VectorDifference] | None = None,
    ) -> None:
        """With `differences` only the rows count that these tell, by the descriptors of the files."""
        super().__init__(None)
        self._rows = rows
        self._expected = expected
        self._files = tuple(files)
        self._differences = differences

    def read(self) -> Iterator[pa.RecordBatch]:
        """The rows, with names and nullability as Spark has them, since it compares.

        Raises `DataFileMismatchError`, `DeletionVectorError`, `StorageError`.
        """
        schema = row_schema(self._expected)
        store = self._rows.data_files.store()
        shown = self._differences is not None
        for live in self._files:
            for rows, _ in self._rows.read(live.file, self._told_rows(live, store), shown=shown):
                arrays = [fit(array, kind, by_position) for array, kind in zip(rows.columns, schema.types, strict=True)]
                yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    def _told_rows(self, live: LiveFile, store: LogStore) -> BitMap64 | None:
        if self._differences is None:
            return live.hidden(store)
        assert live.vector is not None
        return self._differences[live.vector.path_or_inline_dv].rows(functools.partial(load_vector, store))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StreamTasks:
    """How batches of one stream become tasks."""

    told: StreamTold
    store: LogStore
    snapshot: Snapshot
    """Whose columns all rows have."""
    expected: StructType
    """The columns as Spark has them, of the same names and types."""

    def of(self, parts: Sequence[BatchPart]) -> list[StreamTask]:
        """The tasks that read the files of a batch. Raises `ChangesIncompleteError`, `ReservedColumnsError`."""
        if self.told.options.read_change_feed:
            return list(self._of_changes(parts))
        files = live_files(parts, self.told.options)
        return list(self._tasks(files, self.snapshot.schema, self.snapshot.partition_columns))

    def _of_changes(self, parts: Sequence[BatchPart]) -> Iterator[StreamTask]:
        """What is the same for all rows of a file is told as a partition value is."""
        snapshot = self.snapshot
        commits = timed_commits(self.store, parts, self.told.options)
        found = feed_files(commits, table=self.told.label, partitioned=bool(snapshot.partition_columns))
        schema = feed_schema(snapshot.schema, snapshot.column_mapping_mode, table=self.told.label)
        when = (*snapshot.partition_columns, COMMIT_VERSION, COMMIT_TIMESTAMP)
        what = (*when, CHANGE_TYPE)
        yield from self._tasks(table_of_adds(found.told), schema, when)
        yield from self._tasks(table_of_adds(found.whole), schema, what)
        yield from self._tasks(table_of_adds(found.partial), schema, what, found.differences)

    def _tasks(
        self,
        files: pa.Table,
        schema: StructType,
        partition_columns: tuple[str, ...],
        differences: Mapping[str, VectorDifference] | None = None,
    ) -> Iterator[StreamTask]:
        rows = RowReader(
            data_files=DataFiles(self.snapshot.table_root, self.told.file_system),
            schema=schema,
            partition_columns=partition_columns,
            column_mapping=self.snapshot.column_mapping_mode,
            time_zone=self.told.time_zone,
        )
        places = allowed_places(self.store)
        for batch in file_batches(files, table_root=self.snapshot.table_root, places=places):
            own = None if differences is None else _of_files(batch, differences)
            yield StreamTask(rows, self.expected, batch, own)


def _of_files(files: Sequence[LiveFile], differences: Mapping[str, VectorDifference]) -> dict[str, VectorDifference]:
    names = [live.vector.path_or_inline_dv for live in files if live.vector is not None]
    return {name: differences[name] for name in names}
