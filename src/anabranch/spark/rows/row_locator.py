"""Locates rows of files that a winner rewrote in the new files. It takes two jobs, only after a lost race.

Rows are recognized by the ids and versions of row tracking, else by their values.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from py4j.protocol import Py4JError
from pyroaring import BitMap64
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DoubleType,
    FloatType,
    MapType,
    StructField,
    StructType,
    UserDefinedType,
    VariantType,
)

from anabranch.deletion_vectors.vector_descriptors import inline_descriptor
from anabranch.deletion_vectors.vector_reading import load_vectors
from anabranch.errors.base import DeltaError
from anabranch.log.file_columns import table_of_adds
from anabranch.protocol.actions import AddFile, row_count
from anabranch.schema.logical_types import without_void
from anabranch.schema.paths import contains_type, quote
from anabranch.snapshot.snapshot import Snapshot
from anabranch.spark.engine import FILE_ID_COLUMN, ROW_INDEX_COLUMN, ScanRequest
from anabranch.spark.rows.row_tracking import with_stable_ids, with_tracking
from anabranch.storage.external_files import allowed_prefixes_of
from anabranch.storage.log_store import LogStore
from anabranch.transactions.read_set import RowsOfFile
from anabranch.transactions.rows.located_rows import RowPositions

LOGGER = logging.getLogger("anabranch.spark")
_HASH, _DIGEST = "__anabranch_hash", "__anabranch_digest"
_AS_JSON = {
    "ignoreNullFields": "false",
    "dateFormat": "G yyyy-MM-dd",
    "timestampFormat": "G yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "G yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
"""Options for JSON in which different values are never the same text."""


class ScanEngine(Protocol):
    """Scans data files, as `NativeEngine` does."""

    def scan(self, request: ScanRequest) -> DataFrame:
        """The rows of the files without the hidden ones."""


class RowLocator:
    """Implements `FindRows` for one table of a session."""

    def __init__(
        self, spark: SparkSession, engine: ScanEngine, store: LogStore, *, root: str, storage: Mapping[str, str]
    ) -> None:
        self._spark = spark
        self._engine = engine
        self._store = store
        self._root = root
        self._storage = tuple(sorted(storage.items()))

    def __call__(
        self, snapshot: Snapshot, rows: Sequence[RowsOfFile], outputs: Sequence[AddFile]
    ) -> list[RowPositions] | None:
        shown = [add for file_rows in rows if (add := _showing(file_rows)) is not None]
        if len(shown) < len(rows) or not outputs:
            return None
        try:
            return self._by_ids(snapshot, shown, outputs) or self._by_values(snapshot, shown, outputs)
        except (DeltaError, PySparkException, Py4JError):
            # The old files may have been removed. Then the rows are unknown, and the commit is refused as without a
            # locator.
            LOGGER.warning("Rows that another commit moved in %s could not be located", self._root, exc_info=True)
        return None

    def _by_ids(
        self, snapshot: Snapshot, shown: Sequence[AddFile], outputs: Sequence[AddFile]
    ) -> list[RowPositions] | None:
        """The rows by their ids, if they have ids and the other commit kept them.

        A row that was changed has the same id and another version: it is not the row that was read.
        """
        tracking = snapshot.row_tracking
        if tracking is None:
            return None
        wanted, candidates = self._both(snapshot, shown, outputs, StructType([*tracking.fields]))
        return _matched(wanted, candidates, file_count=len(shown))

    def _by_values(
        self, snapshot: Snapshot, shown: Sequence[AddFile], outputs: Sequence[AddFile]
    ) -> list[RowPositions] | None:
        """The rows by their values, if values can be compared and none of the ids is in the new files.

        Otherwise one of two equal rows might be taken for the other, and the id of that would be written twice.
        """
        if not _can_be_compared(snapshot.schema):
            return None
        tracking = snapshot.row_tracking
        if tracking is not None:
            wanted, candidates = self._both(snapshot, shown, outputs, StructType([tracking.fields[0]]))
            if pc.any(pc.is_in(candidates[_DIGEST], value_set=wanted[_DIGEST].combine_chunks())).as_py():
                return None
        wanted, candidates = self._both(snapshot, shown, outputs, without_void(snapshot.schema))
        return _matched(wanted, candidates, file_count=len(shown))

    def _both(
        self, snapshot: Snapshot, shown: Sequence[AddFile], outputs: Sequence[AddFile], columns: StructType
    ) -> tuple[pa.Table, pa.Table]:
        """The rows to locate, and rows of the outputs that have the hash of one of them, both with digests."""
        wanted = self._described(snapshot, shown, columns).toArrow()
        hashes = self._spark.createDataFrame(pa.table({_HASH: pc.unique(wanted[_HASH])}))
        return wanted, self._described(snapshot, outputs, columns, only=hashes).toArrow()

    def _described(
        self, snapshot: Snapshot, files: Sequence[AddFile], columns: StructType, *, only: DataFrame | None = None
    ) -> DataFrame:
        tracking, request = snapshot.row_tracking, self._request(snapshot, files)
        frame = with_stable_ids(self._engine.scan(with_tracking(request, tracking)), request.files, tracking)
        fields = columns.fields
        if only is not None and tracking is not None and tracking.row_id in columns.names:
            # Two rows without an id are not the same row.
            frame = frame.where(frame[quote(tracking.row_id)].isNotNull())
        values = {field.name: _value(frame, field) for field in fields}
        plain = [values[field.name] for field in fields if _is_plain(field.dataType)]
        # To read columns only to hash them costs less than to make text of all.
        frame = frame.withColumn(_HASH, F.xxhash64(*plain) if plain else F.lit(0).cast("long"))
        if only is not None:
            frame = frame.join(F.broadcast(only), _HASH, "left_semi")
        whole = F.to_json(F.struct(*(value.alias(name) for name, value in values.items())), _AS_JSON)
        return frame.select(FILE_ID_COLUMN, ROW_INDEX_COLUMN, _HASH, F.sha2(whole, 256).alias(_DIGEST))

    def _request(self, snapshot: Snapshot, files: Sequence[AddFile]) -> ScanRequest:
        return ScanRequest(
            table_root=self._root,
            version=None,
            schema=snapshot.schema,
            partition_columns=snapshot.partition_columns,
            column_mapping=snapshot.column_mapping_mode,
            files=table_of_adds(files),
            load_vectors=functools.partial(load_vectors, self._store),
            with_positions=True,
            tracked=True,
            allowed_prefixes=allowed_prefixes_of(self._store),
            options=self._storage,
        )


def _matched(wanted: pa.Table, candidates: pa.Table, *, file_count: int) -> list[RowPositions] | None:
    """A different position for each wanted row; None if one of them has none."""
    free: dict[str, list[tuple[int, int]]] = {}
    for digest, output, position in sorted(_rows(candidates), reverse=True):
        free.setdefault(digest, []).append((output, position))
    positions_by_file: list[list[tuple[int, int]]] = [[] for _ in range(file_count)]
    for file, _, digest in sorted((file, position, digest) for digest, file, position in _rows(wanted)):
        left = free.get(digest)
        if not left:
            return None
        positions_by_file[file].append(left.pop())
    return [
        RowPositions(
            outputs=np.array([output for output, _ in located], dtype=np.int64),
            positions=np.array([position for _, position in located], dtype=np.uint64),
        )
        for located in positions_by_file
    ]


def _rows(table: pa.Table) -> list[tuple[Any, ...]]:
    columns = [table[name].to_pylist() for name in (_DIGEST, FILE_ID_COLUMN, ROW_INDEX_COLUMN)]
    return list(zip(*columns, strict=True))


def _showing(rows: RowsOfFile) -> AddFile | None:
    """The file with a vector that hides all other rows; None for a file whose number of rows is not known."""
    count = row_count(rows.file.stats)
    if count is None or rows.positions is None:
        return None
    others = BitMap64()
    others.add_range(0, count)
    others -= rows.positions
    return msgspec.structs.replace(rows.file, deletion_vector=inline_descriptor(others) if others else None)


def _can_be_compared(schema: StructType) -> bool:
    """Whether equal texts mean equal values in all columns."""
    return not any(contains_type(schema, kind) for kind in (VariantType, UserDefinedType))


def _is_plain(data_type: DataType) -> bool:
    return not isinstance(data_type, StructType | ArrayType | MapType)


def _value(frame: DataFrame, field: StructField) -> Column:
    """The column. A Parquet writer may store one of 0.0 and -0.0 for both, so a rewrite can change them."""
    column = frame[quote(field.name)]
    return column + F.lit(0).cast(field.dataType) if isinstance(field.dataType, FloatType | DoubleType) else column
