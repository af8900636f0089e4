"""What a Python worker does with its share of the rows: writes data files and says which.

Files of an attempt that fails, or that Spark runs twice, are never told of; VACUUM removes them.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import secrets
import string
import uuid
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark import TaskContext
from pyspark.sql.types import DataType

from anabranch.protocol.data_paths import encode_path, partition_path
from anabranch.protocol.partition_values import serialize
from anabranch.protocol.statistics import LeafPath
from anabranch.spark.portable.arrow_types import by_position, fit
from anabranch.spark.portable.data_output import ColumnBounds, DataOutput
from anabranch.storage.store_opening import open_store

ROW_GROUP_BYTES = 128 << 20
"""Of Arrow data, so that no open file holds more in memory."""
ROW_GROUP_ROWS_MAX = 1 << 20
WRITTEN_FILES = pa.schema(
    [
        pa.field("path", pa.string()),
        pa.field("partition_values", pa.map_(pa.string(), pa.string())),
        pa.field("size", pa.int64()),
        pa.field("modification_time", pa.int64()),
        pa.field("num_rows", pa.int64()),
        pa.field("stats", pa.string()),
    ]
)
_PREFIX_CHARACTERS = string.ascii_letters + string.digits


@dataclasses.dataclass(frozen=True, kw_only=True)
class WriteTask:
    """Runs as `mapInArrow`: rows in, `WRITTEN_FILES` out."""

    table_root: str
    storage_options: Mapping[str, str]
    file_schema: pa.Schema
    """Physical; with the partition columns at its end where the table has files hold them."""
    data_columns: Sequence[int]
    """Where the columns of `file_schema` stand among the columns of the rows."""
    partition_columns: Mapping[str, tuple[int, DataType]]
    """By physical name: where it stands among the columns of the rows, and its type."""
    stats_types: Mapping[LeafPath, DataType]
    string_prefix_length: int
    compression: str
    page_version: str
    """Of data pages, as PyArrow has it: 1.0 or 2.0."""
    random_prefix_length: int | None
    """None for partition directories."""
    max_records_per_file: int | None
    open_files_max: int = 1
    """How many partitions are written at once; 1 is enough where rows come sorted by partition."""
    partition_values: Mapping[str, str | None] | None = None
    """Of all rows, where these do not say them themselves."""
    directory: str = ""
    """The folder of the table below which files go."""
    tags: Mapping[str, str] | None = None
    """What the log is to say of every file."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        writer = _TaskWriter(self)
        with writer.abandoning_on_failure():
            for batch in batches:
                for values, rows in self._by_partition(batch):
                    writer.write(values, rows)
            writer.finish_all()
        if writer.written:
            yield pa.RecordBatch.from_pylist(writer.written, schema=WRITTEN_FILES)

    def _by_partition(self, batch: pa.RecordBatch) -> Iterator[tuple[dict[str, str | None], pa.RecordBatch]]:
        """Runs of rows with the same partition values, with these as strings."""
        arrays = [
            fit(self._column(batch, index, field.name), field.type, by_position)
            for index, field in zip(self.data_columns, self.file_schema, strict=True)
        ]
        stored = pa.RecordBatch.from_arrays(arrays, schema=self.file_schema)
        if self.partition_values is not None:
            yield dict(self.partition_values), stored
            return
        edges = _run_starts([batch.column(index) for index, _ in self.partition_columns.values()], batch.num_rows)
        for start, end in zip(edges, [*edges[1:], batch.num_rows], strict=True):
            values = {
                name: _text(batch.column(index)[start], kind) for name, (index, kind) in self.partition_columns.items()
            }
            yield values, stored.slice(start, end - start)

    def _column(self, batch: pa.RecordBatch, index: int, name: str) -> pa.Array:
        """The values for a column of the file; in a partition column that it holds, an empty string is null."""
        column = batch.column(index)
        if name not in self.partition_columns or not pa.types.is_string(column.type):
            return column
        return pc.if_else(pc.equal(column, ""), pa.scalar(None, column.type), column)


class _TaskWriter:
    """The files that are open, and those that are done."""

    def __init__(self, task: WriteTask) -> None:
        self._task = task
        self._store = open_store(task.table_root, task.storage_options)
        context = TaskContext.get()
        self._stem = f"part-{context.partitionId() if context else 0:05d}-{uuid.uuid4()}"
        self._numbers = itertools.count()
        self._open: OrderedDict[tuple[str | None, ...], _OpenFile] = OrderedDict()
        """By partition values, the one last written to at the end."""
        self.written: list[dict[str, object]] = []

    def write(self, values: dict[str, str | None], rows: pa.RecordBatch) -> None:
        """Append the rows to the files of that partition."""
        key, limit = tuple(values.values()), self._task.max_records_per_file
        while rows.num_rows:
            file = self._open.get(key) or self._new_file(key, values)
            self._open.move_to_end(key)
            room = rows.num_rows if limit is None else limit - file.num_rows
            file.write(rows.slice(0, room))
            rows = rows.slice(room)
            if file.num_rows == limit:
                self._finish(key)

    def finish_all(self) -> None:
        """Complete the open files."""
        while self._open:
            self._finish(next(iter(self._open)))

    @contextlib.contextmanager
    def abandoning_on_failure(self) -> Iterator[None]:
        """Leave no half files behind."""
        try:
            yield
        except BaseException:
            for file in self._open.values():
                file.output.abandon()
            raise

    def _finish(self, key: tuple[str | None, ...]) -> None:
        self.written.append(self._open[key].finish())
        del self._open[key]

    def _new_file(self, key: tuple[str | None, ...], values: dict[str, str | None]) -> _OpenFile:
        while len(self._open) >= self._task.open_files_max:
            self._finish(next(iter(self._open)))
        name = f"{self._stem}-c{next(self._numbers):03d}{_suffix(self._task.compression)}.parquet"
        directory = self._directory(values)
        path = f"{directory}/{name}" if directory else name
        file = self._open[key] = _OpenFile(self._task, DataOutput(self._store, path), path, values)
        return file

    def _directory(self, values: dict[str, str | None]) -> str:
        length = self._task.random_prefix_length
        if length is None:
            below = partition_path(values)
        else:
            below = "".join(secrets.choice(_PREFIX_CHARACTERS) for _ in range(length))
        return "/".join(filter(None, (self._task.directory, below)))


class _OpenFile:
    """A Parquet file that is being written."""

    def __init__(self, task: WriteTask, output: DataOutput, path: str, values: dict[str, str | None]) -> None:
        self.values = values
        self.output = output
        self.num_rows = 0
        self._task = task
        self._path = path
        self._bounds = ColumnBounds(task.stats_types)
        self._pending: list[pa.RecordBatch] = []
        self._pending_bytes = self._pending_rows = 0
        self._parquet = pq.ParquetWriter(
            output.sink,
            task.file_schema,
            compression=task.compression,
            data_page_version=task.page_version,
            # Parquet leaves NaN out of the bounds of a column, and Spark would then skip rows that hold it.
            write_statistics=_columns_with_statistics(task.file_schema),
            store_schema=False,
        )

    def write(self, rows: pa.RecordBatch) -> None:
        self.num_rows += rows.num_rows
        self._bounds.add(rows)
        self._pending.append(rows)
        self._pending_rows += rows.num_rows
        self._pending_bytes += rows.nbytes
        if self._pending_bytes >= ROW_GROUP_BYTES or self._pending_rows >= ROW_GROUP_ROWS_MAX:
            self._flush()

    def finish(self) -> dict[str, object]:
        """A row of `WRITTEN_FILES`."""
        self._flush()
        self._parquet.close()
        size, modified_ms = self.output.finish()
        # Wide bounds are for files with hidden rows, and a new file has none.
        statistics = self._bounds.statistics(string_prefix_length=self._task.string_prefix_length, tight_bounds=True)
        return {
            "path": encode_path(self._path),
            "partition_values": list(self.values.items()),
            "size": size,
            "modification_time": modified_ms,
            "num_rows": self.num_rows,
            "stats": statistics.to_json(),
        }

    def _flush(self) -> None:
        if self._pending:
            table = pa.Table.from_batches(self._pending, schema=self._task.file_schema)
            self._parquet.write_table(table, row_group_size=ROW_GROUP_ROWS_MAX)
        self._pending, self._pending_bytes, self._pending_rows = [], 0, 0


def _run_starts(columns: Sequence[pa.Array], count: int) -> list[int]:
    """Where the values of any column differ from the row before; the first row always does."""
    if not count:
        return []
    differs = np.zeros(count, dtype=np.bool_)
    differs[0] = True
    for column in columns:
        differs[1:] |= _differs_from_previous(column)
    starts: list[int] = np.flatnonzero(differs).tolist()
    return starts


def _differs_from_previous(column: pa.Array) -> npt.NDArray[np.bool_]:
    # Dictionary codes compare null and NaN as values like any other.
    codes = column.dictionary_encode(null_encoding="encode").indices.to_numpy(zero_copy_only=False)
    return np.asarray(codes[1:] != codes[:-1], dtype=np.bool_)


def _text(value: pa.Scalar, data_type: DataType) -> str | None:
    if value.is_valid and (pa.types.is_timestamp(value.type) or pa.types.is_date32(value.type)):
        return serialize(value.value, data_type)
    return serialize(value.as_py(), data_type)


def _columns_with_statistics(schema: pa.Schema) -> list[str] | bool:
    leaves = [leaf for field in schema for leaf in _leaves(field.name, field.type)]
    if not any(is_float for _, is_float in leaves):
        return True
    return [path for path, is_float in leaves if not is_float]


def _leaves(path: str, kind: pa.DataType) -> Iterator[tuple[str, bool]]:
    """Parquet's paths of the columns below a field, and whether they hold floats."""
    if pa.types.is_struct(kind):
        for field in kind:
            yield from _leaves(f"{path}.{field.name}", field.type)
    elif pa.types.is_map(kind):
        yield from _leaves(f"{path}.key_value.key", kind.key_type)
        yield from _leaves(f"{path}.key_value.value", kind.item_type)
    elif pa.types.is_list(kind):
        yield from _leaves(f"{path}.list.element", kind.value_type)
    else:
        yield path, pa.types.is_floating(kind)


def _suffix(compression: str) -> str:
    return {"none": "", "gzip": ".gz"}.get(compression, f".{compression}")
