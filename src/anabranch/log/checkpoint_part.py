"""One Parquet file of a checkpoint, decoded column by column. See "Checkpoint Schema"."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from anabranch.log.checkpoint_columns import CAMEL, statistics_json
from anabranch.log.file_columns import DELETION_VECTOR, LIVE_FILE_SCHEMA, STRING_MAP, TOMBSTONE_SCHEMA
from anabranch.protocol.actions import Action
from anabranch.protocol.actions_json import parse_action

ROWS_MAX = 200_000_000
"""A part that claims more rows is taken for damaged or hostile."""
ROWS_ANYWAY, ROWS_A_BYTE = 1_000_000, 8
"""What a part may hold, too, by its size: every path is another, so that no writer comes near."""
DECODED_ANYWAY, DECODED_A_BYTE = 1 << 30, 100
"""Bytes that the columns of a part may come to, by its size."""
BATCH_ROWS = 131_072

_FEW = ("protocol", "metaData", "txn", "domainMetadata", "sidecar", "checkpointMetadata")
_TELLING_LEAVES = {
    "add": "path",
    "remove": "path",
    "protocol": "minReaderVersion",
    "metaData": "id",
    "txn": "appId",
    "domainMetadata": "domain",
    "sidecar": "path",
    "checkpointMetadata": "version",
}
"""A field that every action of the kind has."""


class DamagedPartError(Exception):
    """The file is no Parquet file, or not that of a checkpoint."""


class CheckpointPart:
    """A Parquet file of a checkpoint.

    Holds the file as it is stored, compressed, so that columns can be decoded later even when a log
    clean-up has deleted the file meanwhile.
    """

    def __init__(self, path: str, data: bytes) -> None:
        self.path = path
        self._data = pa.py_buffer(data)
        with self._damage():
            self._metadata = pq.read_metadata(pa.BufferReader(self._data))
            self._schema: pa.Schema = self._metadata.schema.to_arrow_schema()
        self._decoded_max = DECODED_ANYWAY + DECODED_A_BYTE * len(data)
        if not 0 <= self._metadata.num_rows <= min(ROWS_MAX, ROWS_ANYWAY + ROWS_A_BYTE * len(data)):
            raise DamagedPartError(f"it claims {self._metadata.num_rows} rows in {len(data)} bytes")

    @functools.cached_property
    def has_removes(self) -> bool:
        """Whether there are tombstones. Raises `DamagedPartError`."""
        return any("remove" in held for held in self._held)

    def check(self) -> None:
        """Whether what kinds of actions there are can be told. Raises `DamagedPartError`."""
        _ = self._held

    def actions(self) -> Iterator[Action]:
        """All but file actions. Raises `DamagedPartError`."""
        for name in _FEW:
            yield from self._actions_of(name)

    def adds(self, columns: Sequence[str]) -> pa.Table:
        """Some columns of `LIVE_FILE_SCHEMA`, one row an `add`. Raises `DamagedPartError`."""
        schema = pa.schema([LIVE_FILE_SCHEMA.field(name) for name in columns])
        return self._files("add", schema)

    def removes(self) -> pa.Table:
        """`TOMBSTONE_SCHEMA`, one row a `remove`. Raises `DamagedPartError`."""
        return self._files("remove", TOMBSTONE_SCHEMA)

    def _actions_of(self, name: str) -> Iterator[Action]:
        for group, held in enumerate(self._held):
            if name in held:
                for value in self._rows_of(name, group):
                    yield self._action(name, value)

    def _rows_of(self, name: str, group: int) -> list[Any]:
        rows: list[Any] = []
        with self._damage():
            for batch in self._open().iter_batches(BATCH_ROWS, row_groups=[group], columns=[name]):
                column = batch[name]
                if column.null_count < len(column):
                    rows += [_jsonable(value, column.type) for value in _valid_rows(column).to_pylist()]
        return rows

    def _action(self, name: str, value: Any) -> Action:
        with self._damage():
            action = parse_action(msgspec.json.encode({name: value}))
        if action is None:
            raise DamagedPartError(f"its {name} is not an action")
        return action

    def _files(self, name: str, schema: pa.Schema) -> pa.Table:
        if name not in self._schema.names:
            return schema.empty_table()
        kind = self._schema.field(name).type
        wanted = _leaves_wanted(name, kind, schema)
        file = self._open()
        tables = [schema.empty_table()]
        with self._damage():
            # Batch by batch, since the buffer for a whole column of strings would double while it grows.
            groups = [group for group, held in enumerate(self._held) if name in held]
            left = self._decoded_max
            for batch in file.iter_batches(BATCH_ROWS, row_groups=groups, columns=wanted):
                tables.append(_table_of(_valid_rows(batch[name]), schema))
                if name == "add" and "size" in schema.names:
                    _check_sizes(tables[-1]["size"])
                left -= tables[-1].nbytes
                if left < 0:
                    raise DamagedPartError(f"its {len(self._data)} bytes come to more than {self._decoded_max}")
        return pa.concat_tables(tables)

    @functools.cached_property
    def _held(self) -> list[frozenset[str]]:
        """The kinds of actions in each row group.

        Found by decoding one leaf of each kind, which is quick where all are null. The null counts in the
        footer would say it too, but pyarrow aborts the process over a damaged footer when asked for them.
        """
        leaves = {name: leaf for name, leaf in _TELLING_LEAVES.items() if self._has_leaf(name, leaf)}
        columns = [f"{name}.{leaf}" for name, leaf in leaves.items()]
        held = []
        file = self._open()
        with self._damage():
            for group in range(self._metadata.num_row_groups):
                found: set[str] = set()
                for batch in file.iter_batches(BATCH_ROWS, row_groups=[group], columns=columns):
                    found |= {name for name in leaves if batch[name].null_count < batch.num_rows}
                held.append(frozenset(found))
        return held

    def _has_leaf(self, name: str, leaf: str) -> bool:
        if name not in self._schema.names:
            return False
        kind = self._schema.field(name).type
        if not pa.types.is_struct(kind) or leaf not in _names(kind):
            raise DamagedPartError(f"its column {name} is not a struct with the field {leaf}")
        return True

    def _open(self) -> pq.ParquetFile:
        with self._damage():
            return pq.ParquetFile(pa.BufferReader(self._data), metadata=self._metadata)

    @contextlib.contextmanager
    def _damage(self) -> Iterator[None]:
        try:
            yield
        except (pa.ArrowException, OSError, ValueError, KeyError, TypeError) as error:
            raise DamagedPartError(f"it cannot be decoded ({error})") from error


def _names(kind: pa.StructType) -> list[str]:
    return [kind.field(position).name for position in range(kind.num_fields)]


def _leaves_wanted(name: str, kind: pa.StructType, schema: pa.Schema) -> list[str]:
    """What must be decoded. The path is always there: it tells the rows apart from those of other actions."""
    wanted = {CAMEL.get(field, field) for field in schema.names} | {"path"}
    if "stats" in wanted and "stats" not in _names(kind):
        wanted.add("stats_parsed")
    return [f"{name}.{field}" for field in _names(kind) if field in wanted]


def _valid_rows(column: pa.StructArray) -> pa.StructArray:
    """The rows that are not null; mostly they stand together and need no copy."""
    if column.null_count == 0:
        return column
    positions = np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False))
    if not len(positions):
        return column.slice(0, 0)
    first, last = int(positions[0]), int(positions[-1])
    if last - first + 1 == len(positions):
        return column.slice(first, len(positions))
    return column.take(pa.array(positions))


def _table_of(rows: pa.StructArray, schema: pa.Schema) -> pa.Table:
    names = _names(rows.type)
    # `flatten` heeds the slice that `field` would ignore.
    children = dict(zip(names, rows.flatten(), strict=True))
    if children["path"].null_count:
        raise ValueError("a file has no path")
    return pa.Table.from_arrays([_column(children, field, len(rows)) for field in schema], schema=schema)


def _check_sizes(sizes: pa.ChunkedArray) -> None:
    """A file without a size, or with one below zero, would be read as if it had no rows."""
    if sizes.null_count or (len(sizes) and pc.min(sizes).as_py() < 0):
        raise ValueError("a file has no size, or one below zero")


def _column(children: dict[str, pa.Array], field: pa.Field, length: int) -> pa.Array:
    found = children.get(CAMEL.get(field.name, field.name))
    if field.name == "stats" and found is None and "stats_parsed" in children:
        return statistics_json(children["stats_parsed"])
    if found is None or found.null_count == length:
        return pa.nulls(length, field.type)
    if field.type == STRING_MAP:
        return _as_map(found)
    if field.type == DELETION_VECTOR:
        return _as_vector(found)
    return found.cast(field.type)


def _as_map(column: pa.Array) -> pa.MapArray:
    """Writers name the parts of a map as they like, and some leave out that it is one."""
    if column.type == STRING_MAP:
        return column
    if pa.types.is_map(column.type):
        return column.cast(STRING_MAP)
    entries = column.flatten()
    keys, values = entries.flatten()
    lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    missing = np.append(column.is_null().to_numpy(zero_copy_only=False), False)
    return pa.MapArray.from_arrays(
        pa.array(offsets, pa.int32(), mask=missing), keys.cast(pa.string()), values.cast(pa.string())
    )


def _as_vector(column: pa.StructArray) -> pa.StructArray:
    children = dict(zip(_names(column.type), column.flatten(), strict=True))
    fields = [
        children[CAMEL.get(field.name, field.name)].cast(field.type)
        if CAMEL.get(field.name, field.name) in children
        else pa.nulls(len(column), field.type)
        for field in DELETION_VECTOR
    ]
    return pa.StructArray.from_arrays(fields, fields=list(DELETION_VECTOR), mask=column.is_null())


def _jsonable(value: Any, kind: pa.DataType) -> Any:
    """A decoded row as the JSON of a commit would have it: maps as objects, and no nulls outside of maps."""
    if value is None:
        return None
    if pa.types.is_struct(kind):
        fields = {name: _jsonable(value[name], kind.field(name).type) for name in _names(kind)}
        return {name: nested for name, nested in fields.items() if nested is not None}
    if pa.types.is_map(kind):
        return dict(value)
    return value
