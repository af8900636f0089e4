"""Reads data files by pyarrow, as rows of the table."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from pyroaring import BitMap64
from pyspark.sql.types import NullType, StructField, StructType

from anabranch.cli.rows.arrow_conversion import FindField, by_field_id, by_name, by_position, fit
from anabranch.cli.rows.arrow_types import FIELD_ID, arrow_type, file_schema, row_schema
from anabranch.deletion_vectors.vector_reading import to_words
from anabranch.errors.environment import DataFileMismatchError
from anabranch.protocol.partition_values import parse_partition_value
from anabranch.protocol.time_zones import TimeZone
from anabranch.schema.column_mapping import ColumnMappingMode, physical_name
from anabranch.schema.logical_types import without_void
from anabranch.storage.log_store import LogStore
from anabranch.storage.opening.store_opening import open_with_external_files


class DataFiles:
    """The data files of a table, by absolute plain path."""

    def __init__(self, table_root: str, storage_options: Mapping[str, str]) -> None:
        self.table_root = table_root.rstrip("/")
        self.storage_options = dict(storage_options)
        self._stores: dict[str, LogStore] = {}

    def open(self, name: str) -> pa.NativeFile:
        """The file for random access. Raises `FileMissingError`, `StorageError`."""
        root, relative = self._split(name)
        if root not in self._stores:
            self._stores[root] = open_with_external_files(root, self.storage_options)
        return self._stores[root].open(relative)

    def _split(self, name: str) -> tuple[str, str]:
        """The root of the store that has the file, and the path below it."""
        if name.startswith(self.table_root + "/"):
            return self.table_root, name[len(self.table_root) + 1 :]
        root, _, last = name.rpartition("/")
        return root, last


_BATCH_ROWS = 65_536


@dataclasses.dataclass(frozen=True, kw_only=True)
class DataFile:
    """A live file."""

    name: str
    """Absolute plain path."""
    partition_values: Mapping[str, str | None]
    """Values by physical name."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class RowReader:
    """Reads files of one table as rows with the columns of `schema`, in its order and under logical names."""

    data_files: DataFiles
    schema: StructType
    partition_columns: tuple[str, ...]
    column_mapping: ColumnMappingMode
    time_zone: TimeZone
    """The zone of partition values that are timestamps without one."""

    @functools.cached_property
    def row_schema(self) -> pa.Schema:
        """The schema of the batches that `read` yields."""
        return row_schema(self.schema)

    def read(self, file: DataFile, hidden: BitMap64 | None) -> Iterator[pa.RecordBatch]:
        """The rows that `hidden` does not hide, in the order of the file.

        Raises `DataFileMismatchError`, `StorageError`.
        """
        constants = [self._constant(file, field) for field in self.schema.fields]
        with (
            self.data_files.open(file.name) as source,
            pq.ParquetFile(source, coerce_int96_timestamp_unit="us", pre_buffer=True) as parquet,
        ):
            live = _live_rows(hidden, parquet.metadata.num_rows)
            start = 0
            for batch in self._stored_batches(parquet):
                end = start + batch.num_rows
                rows = batch if live is None else batch.filter(pa.array(live[start:end]))
                start = end
                if rows.num_rows:
                    yield self._rows(rows, constants, file)

    def _constant(self, file: DataFile, field: StructField) -> pa.Scalar | None:
        """The one value of a column that is not stored in the file; None for stored columns."""
        arrow = arrow_type(field.dataType)
        if isinstance(field.dataType, NullType):
            return pa.scalar(None, arrow)
        if field.name not in self.partition_columns:
            return None
        text = file.partition_values.get(physical_name(field, self.column_mapping))
        return pa.scalar(parse_partition_value(text, field.dataType, zone=self.time_zone), arrow)

    @functools.cached_property
    def _stored_schema(self) -> pa.Schema:
        """The columns that data files store."""
        stored = without_void(self.schema)
        kept = [field for field in stored.fields if field.name not in self.partition_columns]
        return file_schema(StructType(kept), self.column_mapping)

    def _stored_batches(self, parquet: pq.ParquetFile) -> Iterator[pa.RecordBatch]:
        """Batches with the columns of `_stored_schema` that the file has."""
        fields = list(parquet.schema_arrow)
        find = self._finder(fields)
        indices = {find(fields, stored, 0) for stored in self._stored_schema}
        names = [fields[index].name for index in sorted(index for index in indices if index is not None)]
        if not names:
            return _rows_without_columns(parquet.metadata.num_rows)
        # pyarrow would read a dot in a name as a step into a struct.
        columns = None if any("." in name for name in names) else names
        batches: Iterator[pa.RecordBatch] = parquet.iter_batches(_BATCH_ROWS, columns=columns)
        return batches

    def _finder(self, fields: Sequence[pa.Field]) -> FindField:
        has_ids = any(FIELD_ID in (field.metadata or {}) for field in fields)
        return by_field_id if self.column_mapping is ColumnMappingMode.ID and has_ids else by_name

    def _rows(self, batch: pa.RecordBatch, constants: Sequence[pa.Scalar | None], file: DataFile) -> pa.RecordBatch:
        file_fields = list(batch.schema)
        find = self._finder(file_fields)
        stored_fields = iter(self._stored_schema)
        arrays = []
        for field, arrow, constant in zip(self.schema.fields, self.row_schema.types, constants, strict=True):
            if constant is not None:
                arrays.append(pa.repeat(constant, batch.num_rows).cast(arrow))
                continue
            stored = next(stored_fields)
            index = find(file_fields, stored, 0)
            if index is None:
                arrays.append(pa.nulls(batch.num_rows, arrow))
            else:
                arrays.append(self._fitted(batch.column(index), stored, field, find, file))
        return pa.RecordBatch.from_arrays(arrays, schema=self.row_schema)

    def _fitted(
        self, array: pa.Array, stored: pa.Field, field: StructField, find: FindField, file: DataFile
    ) -> pa.Array:
        try:
            physical = fit(array, stored.type, find)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
            raise DataFileMismatchError(
                table=self.data_files.table_root,
                path=file.name,
                column=field.name,
                expected=field.dataType.simpleString(),
                problem=str(error),
            ) from error
        without = without_void(StructType([field])).fields[0]
        renamed = fit(physical, arrow_type(without.dataType), by_position)
        return renamed if without.dataType == field.dataType else fit(renamed, arrow_type(field.dataType), by_name)


def _rows_without_columns(count: int) -> Iterator[pa.RecordBatch]:
    for start in range(0, count, _BATCH_ROWS):
        length = min(_BATCH_ROWS, count - start)
        yield pa.RecordBatch.from_arrays([pa.nulls(length)], names=["nothing"])


def _live_rows(hidden: BitMap64 | None, num_rows: int) -> npt.NDArray[np.bool_] | None:
    """Which rows of the file are not hidden; None if all are live. A vector longer than the file is an error."""
    if not hidden:
        return None
    words = to_words(hidden, num_rows=num_rows)
    return np.asarray(np.unpackbits(words.view(np.uint8), bitorder="little")[:num_rows] == 0)
