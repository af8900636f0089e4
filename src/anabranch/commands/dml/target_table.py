"""The rows of one version of a table, as a statement that changes some of them sees them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyroaring import BitMap64
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from anabranch.commands.data_files import tracking_of
from anabranch.commands.read.read_table import scan_request
from anabranch.commands.table_access import TableRef
from anabranch.data_skipping.scan_plan import can_be_true, files_wholly_true
from anabranch.deletion_vectors.vector_writing import inline_descriptor
from anabranch.log.file_columns import FileMask, adds_of_table, table_of_adds
from anabranch.predicates.expressions import Predicate
from anabranch.protocol.actions import AddFile
from anabranch.protocol.data_paths import decode_path
from anabranch.snapshot.snapshot import Snapshot
from anabranch.spark.conditions.column_names import RowNames, check_resolved, metadata_columns, named
from anabranch.spark.conditions.user_condition import ReadCondition, resolve_condition
from anabranch.spark.engine import FILE_ID_COLUMN, ScanRequest
from anabranch.spark.native.plan_reading import versions_read
from anabranch.spark.rows.hidden_rows import marked_positions
from anabranch.spark.rows.row_tracking import metadata_with_ids, with_stable_ids, with_tracking
from anabranch.spark.session.table_identifiers import quote
from anabranch.storage.external_files import allowed_prefixes_of
from anabranch.transaction.read_set import EvaluateRows, FileKey, RowsOfFile
from anabranch.transaction.rows.row_access import Vectors
from anabranch.transaction.rows.row_ids import row_count

EXAMPLE_COLUMNS_MAX = 4
EXAMPLE_LENGTH_MAX = 100


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class ReadFiles:
    """Some files of the table and their rows."""

    files: pa.Table
    """Live files; see `anabranch.log.file_columns`."""
    frame: DataFrame
    """The columns of the table, those in which rows keep their ids, if they have some, with the ids and versions of all
    rows, and, last, the position columns of `ScanRequest`; file ids are rows of `files`."""

    def rows(self, positions: Mapping[int, BitMap64]) -> list[RowsOfFile]:
        """The rows at these positions, by file id."""
        ids = sorted(positions)
        adds = adds_of_table(self.files.take(pa.array(ids, pa.int64())), data_change=False)
        return [RowsOfFile(file=add, positions=positions[file_id]) for add, file_id in zip(adds, ids, strict=True)]


class TargetRows:
    """Reads rows of one snapshot, with the names that the statement has for them."""

    def __init__(self, table: TableRef, snapshot: Snapshot, vectors: Vectors, *, alias: RowNames = None) -> None:
        check_resolved(alias, snapshot)
        self.table = table
        self.snapshot = snapshot
        self.vectors = vectors
        self.alias = alias
        self.tracking = tracking_of(table, snapshot)

    def candidates(self, predicate: Predicate) -> FileMask:
        """The files that can hold a row for which the predicate, in physical names, is true."""
        return can_be_true(predicate, self.snapshot.skipping_columns)

    def fully_matching(self, predicate: Predicate) -> FileMask:
        """The files of which every row satisfies the predicate, for certain."""
        return files_wholly_true(
            self.snapshot.files.table,
            predicate,
            physical_schema=self.snapshot.physical_schema,
            partition_columns=self.snapshot.physical_partition_columns,
            columns=self.snapshot.skipping_columns,
        )

    def read(self, files: FileMask) -> ReadFiles:
        """The live rows of these files of the snapshot."""
        chosen = np.flatnonzero(files)
        columns = self.snapshot.skipping_columns

        def prune(predicate: Predicate) -> FileMask:
            return can_be_true(predicate, columns)[chosen]

        return self._read(dataclasses.replace(self._request(self.snapshot.files.table.take(chosen)), prune=prune))

    def read_rows(self, rows: Sequence[RowsOfFile]) -> ReadFiles:
        """Just these rows, of any files of the table, also newer ones; file ids count `rows`.

        Where only some rows of a file are meant, it must say how many rows it has.
        """
        hidden = self.vectors.hidden([each.file for each in rows])
        shown = [_showing(each, vector) for each, vector in zip(rows, hidden, strict=True)]
        return self._read(self._request(table_of_adds(shown)))

    def all_rows(self, files: Sequence[AddFile]) -> dict[FileKey, BitMap64] | None:
        """Every live row of the files; None where one does not say how many rows it has."""
        counts = [row_count(file.stats) for file in files]
        found = {}
        for file, count, hidden in zip(files, counts, self.vectors.hidden(files), strict=True):
            if count is None:
                return None
            found[file.key] = BitMap64(range(count)) - hidden
        return found

    def asking(self, condition: Column | str) -> EvaluateRows:
        """Asks the condition of any rows of the table."""

        def matching(rows: Sequence[RowsOfFile]) -> list[BitMap64 | None]:
            return self.answers(rows, lambda frame: frame.where(condition))

        return matching

    def answers(self, rows: Sequence[RowsOfFile], ask: Callable[[DataFrame], DataFrame]) -> list[BitMap64 | None]:
        """Which of these rows `ask` leaves, one entry each; None for a file of unknown length.

        `ask` must keep the position columns.
        """
        known = [place for place, each in enumerate(rows) if _can_be_told_apart(each)]
        answers: list[BitMap64 | None] = [None] * len(rows)
        found = marked_positions(ask(self.read_rows([rows[place] for place in known]).frame)) if known else {}
        for file_id, place in enumerate(known):
            answers[place] = found.get(file_id, BitMap64())
        return answers

    def described(self, rows: Sequence[RowsOfFile], *, columns: Sequence[str] = ()) -> list[str]:
        """The rows in words, `id = 5, name = x`, for messages; by the first columns unless others are named."""
        names = (list(columns) or self.snapshot.schema.fieldNames())[:EXAMPLE_COLUMNS_MAX]
        values = [F.substring(F.col(quote(name)).cast("string"), 1, EXAMPLE_LENGTH_MAX) for name in names]
        told = [
            F.concat(F.lit(f"{name} = "), F.coalesce(value, F.lit("NULL")))
            for name, value in zip(names, values, strict=True)
        ]
        frame = self.read_rows(rows).frame.select(FILE_ID_COLUMN, F.concat_ws(", ", *told)).orderBy(FILE_ID_COLUMN)
        return [row[1] for row in frame.collect()]

    def _request(self, files: pa.Table) -> ScanRequest:
        everything = np.ones(len(files), dtype=bool)
        return dataclasses.replace(
            scan_request(self.table, self.snapshot, with_positions=True),
            files=files,
            prune=lambda _: everything,
            tracked=True,
        )

    def _read(self, request: ScanRequest) -> ReadFiles:
        asks = bool(metadata_columns(self.alias))
        scanned = dataclasses.replace(request, with_metadata=asks)
        frame = self.table.session.engine.scan(with_tracking(scanned, self.tracking))
        if asks and self.tracking is not None:
            frame = frame.withColumn("_metadata", metadata_with_ids(frame, request.files, self.tracking))
        rows = with_stable_ids(frame, request.files, self.tracking)
        return ReadFiles(files=request.files, frame=named(rows, self.alias))


def understand(
    table: TableRef, snapshot: Snapshot, condition: Column | str, *, alias: RowNames = None
) -> ReadCondition:
    """What the condition asks of rows of the table.

    Raises Spark's `AnalysisException`, and `SchemaChangedSinceAnalysisError`.
    """
    check_resolved(alias, snapshot)
    return resolve_condition(
        table.session.spark,
        condition,
        schema=snapshot.schema,
        column_mapping=snapshot.column_mapping_mode,
        alias=alias,
        now_ms=table.session.clock.now_ms(),
        reads_table=lambda frame: bool(versions_read(frame, table.path)),
    )


def with_row_counts(rows: Sequence[RowsOfFile], table: TableRef) -> list[RowsOfFile]:
    """The same rows, of files that say how many rows they have wherever only some are meant.

    See "Deletion Vectors": a file with a vector must say so. What another writer left out is in the Parquet file.
    """
    return [
        each
        if each.positions is None or row_count(each.file.stats) is not None
        else dataclasses.replace(each, file=with_counted_rows(each.file, table))
        for each in rows
    ]


def with_counted_rows(file: AddFile, table: TableRef) -> AddFile:
    """The file, with statistics that say how many rows it has: where they did not, it is opened."""
    if row_count(file.stats) is not None:
        return file
    store = table.delta_log.store
    path = decode_path(file.path, table_root=table.path, allowed_prefixes=allowed_prefixes_of(store))
    with store.open(path) as source:
        count = pq.ParquetFile(source).metadata.num_rows
    try:
        told = msgspec.json.decode(file.stats or "{}", type=dict[str, Any])
    except msgspec.MsgspecError:
        told = {}
    return msgspec.structs.replace(file, stats=msgspec.json.encode({**told, "numRecords": count}).decode())


def _can_be_told_apart(rows: RowsOfFile) -> bool:
    return rows.positions is None or row_count(rows.file.stats) is not None


def _showing(rows: RowsOfFile, hidden: BitMap64) -> AddFile:
    """The file with a vector that hides all other rows."""
    if rows.positions is None:
        return rows.file
    count = row_count(rows.file.stats)
    assert count is not None, "rows of a file of unknown length cannot be told apart"
    others = hidden | (BitMap64(range(count)) - rows.positions)
    return msgspec.structs.replace(rows.file, deletion_vector=inline_descriptor(others) if others else None)
