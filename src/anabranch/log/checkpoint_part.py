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

from anabranch.arrow_pool import release_unused
from anabranch.cached_property import cached_property
from anabranch.log.checkpoint_columns import CAMEL, statistics_json
from anabranch.log.file_columns import DELETION_VECTOR, LIVE_FILE_SCHEMA, STRING_MAP, TOMBSTONE_SCHEMA
from anabranch.protocol.actions import Action
from anabranch.protocol.actions_json import parse_action

ROWS_MAX = 200_000_000
"""A part that claims more rows is treated as damaged or hostile."""
ROWS_ALWAYS, ROWS_PER_BYTE = 1_000_000, 8
"""The limit of rows by the size of a part. No writer comes near it, since no path occurs twice."""
DECODED_ALWAYS, DECODED_PER_BYTE = 1 << 30, 100
"""The limit of bytes of the decoded columns, by the size of a part."""
BATCH_ROWS = 65_536

_NON_FILE_ACTIONS = ("protocol", "metaData", "txn", "domainMetadata", "sidecar", "checkpointMetadata")
_REQUIRED_FIELDS = {
    "add": "path",
    "remove": "path",
    "protocol": "minReaderVersion",
    "metaData": "id",
    "txn": "appId",
    "domainMetadata": "domain",
    "sidecar": "path",
    "checkpointMetadata": "version",
}
"""For each kind of action, a field that every action of that kind has."""


class DamagedPartError(Exception):
    """The file is no Parquet file, or is not part of a checkpoint."""


class CheckpointPart:
    """A Parquet file of a checkpoint.

    It holds the file as it is stored, compressed, so that columns can be decoded later, also after log
    cleanup has deleted the file.
    """

    def __init__(self, path: str, data: bytes) -> None:
        self.path = path
        self._data = pa.py_buffer(data)
        with self._damage():
            self._metadata = pq.read_metadata(pa.BufferReader(self._data))
            self._schema: pa.Schema = self._metadata.schema.to_arrow_schema()
        self._decoded_max = DECODED_ALWAYS + DECODED_PER_BYTE * len(data)
        if not 0 <= self._metadata.num_rows <= min(ROWS_MAX, ROWS_ALWAYS + ROWS_PER_BYTE * len(data)):
            raise DamagedPartError(f"it claims {self._metadata.num_rows} rows in {len(data)} bytes")

    @cached_property
    def has_removes(self) -> bool:
        """Whether there are tombstones. Raises `DamagedPartError`."""
        return any("remove" in kinds for kinds in self._kinds_by_group)

    def check(self) -> None:
        """Raises `DamagedPartError` if the kinds of actions in the part cannot be determined."""
        _ = self._kinds_by_group

    def actions(self) -> Iterator[Action]:
        """All actions that are not files. Raises `DamagedPartError`."""
        for name in _NON_FILE_ACTIONS:
            yield from self._actions_of(name)

    def adds(self, columns: Sequence[str]) -> pa.Table:
        """These columns of `LIVE_FILE_SCHEMA`, one row per `add`. Raises `DamagedPartError`."""
        schema = pa.schema([LIVE_FILE_SCHEMA.field(name) for name in columns])
        return pa.concat_tables([schema.empty_table(), *map(_copied, self._files("add", schema))])

    def statistics(self) -> Iterator[pa.ChunkedArray]:
        """The column `stats` of `adds`, some rows at a time. Raises `DamagedPartError`."""
        schema = pa.schema([LIVE_FILE_SCHEMA.field("stats")])
        return (table["stats"] for table in self._files("add", schema))

    def removes(self) -> pa.Table:
        """The tombstones as in `TOMBSTONE_SCHEMA`, one row per `remove`. Raises `DamagedPartError`."""
        return pa.concat_tables([TOMBSTONE_SCHEMA.empty_table(), *self._files("remove", TOMBSTONE_SCHEMA)])

    def _actions_of(self, name: str) -> Iterator[Action]:
        for group, kinds in enumerate(self._kinds_by_group):
            if name in kinds:
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

    def _files(self, name: str, schema: pa.Schema) -> Iterator[pa.Table]:
        """The actions of one kind, batch by batch: the buffer for a whole column of strings doubles as it grows."""
        if name not in self._schema.names:
            return
        kind = self._schema.field(name).type
        leaves = _leaves_to_decode(name, kind, schema)
        file = self._open()
        with self._damage():
            groups = [group for group, kinds in enumerate(self._kinds_by_group) if name in kinds]
            remaining_bytes = self._decoded_max
            for batch in file.iter_batches(BATCH_ROWS, row_groups=groups, columns=leaves, use_threads=False):
                table = _table_of(_valid_rows(batch[name]), schema)
                if name == "add" and "size" in schema.names:
                    _check_sizes(table["size"])
                remaining_bytes -= table.nbytes
                if remaining_bytes < 0:
                    raise DamagedPartError(f"its {len(self._data)} bytes decode to more than {self._decoded_max}")
                yield table
                if batch.num_rows == BATCH_ROWS:
                    release_unused()

    @cached_property
    def _kinds_by_group(self) -> list[frozenset[str]]:
        """The kinds of actions in each row group.

        One leaf of each kind is decoded, which is quick where all values are null. The null counts in the
        footer have the same information, but reading them from a damaged footer makes pyarrow abort the process.
        """
        leaves = {name: leaf for name, leaf in _REQUIRED_FIELDS.items() if self._has_leaf(name, leaf)}
        columns = [f"{name}.{leaf}" for name, leaf in leaves.items()]
        groups = []
        file = self._open()
        with self._damage():
            for group in range(self._metadata.num_row_groups):
                kinds: set[str] = set()
                for batch in file.iter_batches(BATCH_ROWS, row_groups=[group], columns=columns, use_threads=False):
                    kinds |= {name for name in leaves if batch[name].null_count < batch.num_rows}
                groups.append(frozenset(kinds))
        return groups

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


def _leaves_to_decode(name: str, kind: pa.StructType, schema: pa.Schema) -> list[str]:
    """The leaves that must be decoded. They include the path, which is null in the rows of other actions."""
    wanted = {CAMEL.get(field, field) for field in schema.names} | {"path"}
    if "stats" in wanted and "stats" not in _names(kind):
        wanted.add("stats_parsed")
    return [f"{name}.{field}" for field in _names(kind) if field in wanted]


def _valid_rows(column: pa.StructArray) -> pa.StructArray:
    """The rows that are not null; mostly they are consecutive and need no copy."""
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
    # `flatten` respects the slice, which `field` would ignore.
    children = dict(zip(names, rows.flatten(), strict=True))
    if children["path"].null_count:
        raise ValueError("a file has no path")
    return pa.Table.from_arrays([_column(children, field, len(rows)) for field in schema], schema=schema)


def _copied(table: pa.Table) -> pa.Table:
    """The table in other memory than that in which it was decoded, most of which is free now.

    Arrow's own allocator could not return that memory to the system, since a part of each of its pages would be in use.
    """
    pool = pa.system_memory_pool()
    columns = [
        column if column.null_count == len(column) else pa.concat_arrays(column.chunks, memory_pool=pool)
        for column in table.columns
    ]
    return pa.Table.from_arrays(columns, schema=table.schema)


def _check_sizes(sizes: pa.ChunkedArray) -> None:
    """Raises ValueError for a file without a size or with a negative one: it would be read as if it had no rows."""
    if sizes.null_count or (len(sizes) and pc.min(sizes).as_py() < 0):
        raise ValueError("a file has no size, or a negative one")


def _column(children: dict[str, pa.Array], field: pa.Field, length: int) -> pa.Array:
    column = children.get(CAMEL.get(field.name, field.name))
    if field.name == "stats" and column is None and "stats_parsed" in children:
        return statistics_json(children["stats_parsed"])
    if column is None or column.null_count == length:
        return _nulls(length, field.type)
    if field.type == STRING_MAP:
        return _as_map(column)
    if field.type == DELETION_VECTOR:
        return _as_vector(column)
    return column.cast(field.type)


@functools.lru_cache(maxsize=32)
def _nulls(length: int, kind: pa.DataType) -> pa.Array:
    """Nulls, which take the memory of values. Most batches have one length, so that they share them."""
    return pa.nulls(length, kind)


def _as_map(column: pa.Array) -> pa.MapArray:
    """A map with our names of its fields. Writers choose these names, and some write a list of pairs instead."""
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
    """A decoded row as in the JSON of a commit: maps as objects, and no nulls outside of maps."""
    if value is None:
        return None
    if pa.types.is_struct(kind):
        fields = {name: _jsonable(value[name], kind.field(name).type) for name in _names(kind)}
        return {name: nested for name, nested in fields.items() if nested is not None}
    if pa.types.is_map(kind):
        return dict(value)
    return value
