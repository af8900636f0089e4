"""Where Python workers put new data files: complete and durable before they are told of."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import BinaryType, DataType

from anabranch.errors.environment import StorageError
from anabranch.protocol.statistics import FileStatistics, LeafPath, has_bounds
from anabranch.storage.local import durable_files
from anabranch.storage.local.local_store import LocalStore
from anabranch.storage.log_store import LogStore


class DataOutput:
    """One new file of a table, written from front to back.

    On a local disk it grows in its final place: no commit names it yet, and nobody looks for it; where a file of its
    name is, that raises `StorageError`. Elsewhere it is kept in memory and stored when it is complete, since object
    stores know no half-written objects.
    """

    def __init__(self, store: LogStore, path: str) -> None:
        self._store = store
        self._path = path
        self._local = os.path.join(store.root, *path.split("/")) if isinstance(store, LocalStore) else None
        self.sink = self._open()

    def finish(self) -> tuple[int, int]:
        """Make the file durable. Its size in bytes and when it was modified, in milliseconds since the epoch."""
        if self._local is None:
            data = self.sink.getvalue().to_pybytes()
            self._store.put(self._path, data)
            return len(data), time.time_ns() // 1_000_000
        self.sink.close()
        with open(self._local, "rb") as file:
            os.fsync(file.fileno())
        durable_files.sync_directory(os.path.dirname(self._local))
        found = os.stat(self._local)
        return found.st_size, found.st_mtime_ns // 1_000_000

    def abandon(self) -> None:
        """Drop what was written; whatever cannot be dropped is left to VACUUM."""
        with contextlib.suppress(OSError, pa.ArrowException):
            self.sink.close()
        if self._local is not None:
            with contextlib.suppress(OSError):
                os.unlink(self._local)

    def _open(self) -> pa.NativeFile:
        if self._local is None:
            return pa.BufferOutputStream()
        durable_files.make_directories(os.path.dirname(self._local), durable_below=self._store.root)
        try:
            os.close(os.open(self._local, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
        except FileExistsError as error:
            cause = "there is a file of that name"
            raise StorageError(root=self._store.root, path=self._path, doing="write", cause=cause) from error
        return pa.OSFile(self._local, "wb")


# Statistics of the rows of one file, gathered while they are written. See "Per-file Statistics".


class ColumnBounds:
    """Smallest value, largest value and number of nulls of some leaf columns, by physical path.

    The file's own statistics would not do: Parquet leaves NaN out of them, and Spark takes NaN for the
    largest number of all.
    """

    def __init__(self, types: Mapping[LeafPath, DataType]) -> None:
        self._types = types
        self._lows: dict[LeafPath, Any] = {}
        self._highs: dict[LeafPath, Any] = {}
        self._nulls = dict.fromkeys(types, 0)
        self._with_nan: set[LeafPath] = set()
        self._num_rows = 0

    def add(self, rows: pa.RecordBatch) -> None:
        """Count those rows in. Their columns have physical names."""
        self._num_rows += rows.num_rows
        for path, data_type in self._types.items():
            values = _leaf(rows, path)
            self._nulls[path] += values.null_count
            if has_bounds(data_type) and values.null_count < len(values):
                self._widen(path, values)

    def statistics(self, *, string_prefix_length: int, tight_bounds: bool | None) -> FileStatistics:
        """Of all rows so far."""
        leaves = {
            path: (
                _as_text(self._lows.get(path), data_type),
                None if path in self._with_nan else _as_text(self._highs.get(path), data_type),
                self._nulls[path],
            )
            for path, data_type in self._types.items()
        }
        return FileStatistics.of_leaves(
            self._num_rows,
            leaves,
            types=self._types,
            string_prefix_length=string_prefix_length,
            tight_bounds=tight_bounds,
        )

    def _widen(self, path: LeafPath, values: pa.Array) -> None:
        if pa.types.is_floating(values.type):
            values = self._without_nan(path, values)
        if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
            # Spark's strings are bytes and are ordered as such; nobody checks that they are UTF-8.
            values = values.cast(pa.large_binary())
        bounds = pc.min_max(values)
        low, high = _plain(bounds["min"]), _plain(bounds["max"])
        if low is None:
            return
        self._lows[path] = min(low, self._lows.get(path, low))
        self._highs[path] = max(high, self._highs.get(path, high))

    def _without_nan(self, path: LeafPath, values: pa.Array) -> pa.Array:
        not_a_number = pc.is_nan(values)
        if not pc.any(not_a_number).as_py():
            return values
        self._with_nan.add(path)
        return values.filter(pc.invert(not_a_number))


def _leaf(rows: pa.RecordBatch, path: LeafPath) -> pa.Array:
    """The values at `path`; a field of a null struct is null."""
    values = rows.column(path[0])
    for name in path[1:]:
        values = pc.struct_field(values, [_index(values.type, name)])
    return values


def _index(struct: pa.StructType, name: str) -> int:
    return [field.name for field in struct].index(name)


def _plain(bound: pa.Scalar) -> Any:
    """A value that compares as in Spark: timestamps and dates as numbers, strings as bytes."""
    if not bound.is_valid:
        return None
    if pa.types.is_timestamp(bound.type) or pa.types.is_date32(bound.type):
        return bound.value
    value = bound.as_py()
    # Of the two zeros, the negative one is the smaller in files and the same in queries.
    return value + 0.0 if isinstance(value, float) else value


def _as_text(bound: Any, data_type: DataType) -> Any:
    """The bound as statistics tell it; none for a string that is no text, which JSON cannot hold."""
    if isinstance(data_type, BinaryType) or not isinstance(bound, bytes):
        return bound
    try:
        return bound.decode()
    except UnicodeDecodeError:
        return None
