"""Reading a table with Python workers."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from anabranch.connect.source.file_batches import LiveFile, file_batches
from anabranch.connect.source.source_filters import predicate_of
from anabranch.connect.source.table_version import TableOptions
from anabranch.errors.arguments import InvalidOptionError
from anabranch.predicates.expressions import TRUE, Predicate, conjunction
from anabranch.predicates.normalisation import to_physical
from anabranch.schema.column_mapping import physical_paths
from anabranch.schema.comparison import same_type
from anabranch.schema.paths import child
from anabranch.snapshot.scan_plan import can_be_true
from anabranch.snapshot.snapshot import Snapshot
from anabranch.spark.portable.arrow_types import row_schema
from anabranch.spark.portable.data_file_reading import RowReader
from anabranch.spark.portable.data_files import DataFiles
from anabranch.spark.portable.fitting import by_position, fit
from anabranch.storage.elsewhere import allowed_places

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter


class FileBatch(InputPartition):
    """Files for one task."""

    def __init__(self, files: Sequence[LiveFile]) -> None:
        super().__init__(None)
        self.files = tuple(files)


class DeltaReader(DataSourceReader):
    """Reads one version, which is fixed when the reader is made."""

    def __init__(self, options: TableOptions, schema: StructType) -> None:
        snapshot = options.snapshot()
        self._options = dataclasses.replace(options, version=snapshot.version, timestamp=None)
        self._predicate: Predicate = TRUE
        self._rows = RowReader(
            data_files=DataFiles(snapshot.table_root, options.file_system),
            schema=_declared(schema, snapshot),
            partition_columns=snapshot.partition_columns,
            column_mapping=snapshot.column_mapping_mode,
            time_zone=options.time_zone,
        )
        self._expected = row_schema(schema)
        """Names and nullability as Spark has them; it compares."""
        # Workers need no snapshot; it stays behind when the reader travels.
        self._snapshot: Snapshot | None = snapshot

    def partitions(self) -> Sequence[InputPartition]:
        snapshot = self._snapshot or self._options.snapshot()
        files = snapshot.files.columns("path", "partition_values", "size", "deletion_vector", "stats")
        if self._predicate != TRUE:
            names = physical_paths(snapshot.schema, snapshot.column_mapping_mode)
            mask = can_be_true(to_physical(self._predicate, names), snapshot.skipping_columns)
            files = files.filter(pa.array(mask))
        places = allowed_places(self._options.store())
        batches = file_batches(files, table_root=snapshot.table_root, places=places)
        return [FileBatch(batch) for batch in batches]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, FileBatch)
        store = self._rows.data_files.store()
        for live in partition.files:
            for rows, _ in self._rows.read(live.file, live.hidden(store)):
                arrays = [
                    fit(array, kind, by_position)
                    for array, kind in zip(rows.columns, self._expected.types, strict=True)
                ]
                yield pa.RecordBatch.from_arrays(arrays, schema=self._expected)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_snapshot": None}


class FilteringDeltaReader(DeltaReader):
    """Leaves out files in which no row can pass the filters. PySpark 4.1 and later."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Spark still evaluates all of them: a file is kept or left out whole."""
        snapshot = self._snapshot or self._options.snapshot()
        self._predicate = conjunction(predicate_of(given, snapshot.schema) for given in filters)
        return filters


def _declared(schema: StructType, snapshot: Snapshot) -> StructType:
    """The columns that Spark expects, as the table has them. Raises `InvalidOptionError`.

    A table of the catalog brings the schema it was created with, which the table may have outgrown.
    """
    fields = []
    for wanted in schema.fields:
        known = child(snapshot.schema, wanted.name)
        if known is None or not same_type(known.dataType, wanted.dataType):
            has = "no such column" if known is None else f"it as {known.dataType.simpleString()}"
            problem = f"version {snapshot.version} of {snapshot.table_root} has {has}; leave the schema out"
            raise InvalidOptionError(option="schema", value=wanted.simpleString(), problem=problem)
        fields.append(known)
    return StructType(fields)
