"""The table that a statement changes: its rows at one version, by the names that the statement has for them.

DELETE and UPDATE begin on that version with the rows that their condition selects (`select_rows`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol, TypeVar

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyroaring import BitMap64
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from anabranch.commands.dml.statement import check_resolved
from anabranch.commands.read.read_table import scan_request
from anabranch.commands.table_access import TableRef
from anabranch.data_skipping.file_skipping import can_be_true, files_wholly_true
from anabranch.deletion_vectors.vector_descriptors import inline_descriptor
from anabranch.errors.commits import RowValues
from anabranch.log.file_columns import FileMask, adds_of_table, table_of_adds
from anabranch.predicates.expressions import Predicate, is_opaque
from anabranch.progress.progress_events import expect_files
from anabranch.protocol.actions import AddFile, row_count, with_num_records
from anabranch.protocol.data_paths import decode_path
from anabranch.schema.paths import quote
from anabranch.snapshot.snapshot import Snapshot
from anabranch.spark.conditions.column_names import RowNames, metadata_columns, named
from anabranch.spark.conditions.user_condition import ReadCondition, resolve_condition
from anabranch.spark.engine import FILE_ID_COLUMN, ScanRequest
from anabranch.spark.native.plan_reading import versions_read
from anabranch.spark.rows.hidden_rows import marked_positions
from anabranch.spark.rows.row_tracking import metadata_with_ids, with_stable_ids, with_tracking
from anabranch.storage.external_files import allowed_prefixes_of
from anabranch.transactions.proposed_commit import Operation
from anabranch.transactions.read_set import EvaluateRows, FileKey, RowsOfFile
from anabranch.transactions.rows.deletion_vector_actions import Vectors
from anabranch.transactions.transaction import Transaction

EXAMPLE_COLUMNS_MAX = 4
EXAMPLE_LENGTH_MAX = 100


class Begun(Protocol):
    """A statement begun on one version of its table."""

    @property
    def snapshot(self) -> Snapshot:
        """The version that it changes."""

    def versions_read(self) -> Collection[int]:
        """The versions of the same table that its own subqueries read."""


B = TypeVar("B", bound=Begun)


def begin_at_version_read(table: TableRef, snapshot: Snapshot, begin: Callable[[Snapshot], B]) -> B:
    """What `begin` returns for this version or, where the statement reads an older one of the same table, for that.

    A subquery may use a frame of the table that was made before. The statement depends on what that frame has read, so
    commits since then must count as winners.
    """
    while True:
        begun = begin(snapshot)
        oldest = min(begun.versions_read(), default=snapshot.version)
        if oldest >= begun.snapshot.version:
            return begun
        snapshot = table.delta_log.snapshots.at_version(oldest)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class ReadFiles:
    """Some files of the table and their rows."""

    files: pa.Table
    """Live files; see `anabranch.log.file_columns`."""
    frame: DataFrame
    """The columns of the table, then the row id and row version columns where the table tracks rows, and last the
    position columns of `ScanRequest`, whose file ids are rows of `files`."""

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
        self.tracking = snapshot.row_tracking

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

    def read(self, files: FileMask, *, pruned: bool = True) -> ReadFiles:
        """The live rows of these files of the snapshot; `pruned` leaves out files by the filters of the frame's use."""
        chosen = np.flatnonzero(files)
        expect_files(len(chosen))
        columns = self.snapshot.skipping_columns

        def prune(predicate: Predicate) -> FileMask:
            return can_be_true(predicate, columns)[chosen]

        request = self._request(self.snapshot.files.rows(chosen))
        return self._read(dataclasses.replace(request, prune=prune if pruned else None))

    def read_rows(self, rows: Sequence[RowsOfFile]) -> ReadFiles:
        """Only these rows, which may be of newer files than the snapshot's; file ids are indexes into `rows`.

        The statistics of a file of which only some rows are read must count its rows.
        """
        hidden = self.vectors.hidden([selected.file for selected in rows])
        shown = [_showing(selected, vector) for selected, vector in zip(rows, hidden, strict=True)]
        return self._read(self._request(table_of_adds(shown)))

    def all_rows(self, files: Sequence[AddFile]) -> dict[FileKey, BitMap64] | None:
        """The positions of every live row; None where the statistics of one of the files do not count its rows."""
        counts = [row_count(file.stats) for file in files]
        positions = {}
        for file, count, hidden in zip(files, counts, self.vectors.hidden(files), strict=True):
            if count is None:
                return None
            positions[file.key] = BitMap64(range(count)) - hidden
        return positions

    def evaluating(self, condition: Column | str) -> EvaluateRows:
        """A function that evaluates the condition for any rows of the table."""

        def matching(rows: Sequence[RowsOfFile]) -> list[BitMap64 | None]:
            return self.matching(rows, lambda frame: frame.where(condition))

        return matching

    def matching(self, rows: Sequence[RowsOfFile], filtered: Callable[[DataFrame], DataFrame]) -> list[BitMap64 | None]:
        """The positions that `filtered` leaves of these rows, by file; None for a file of unknown length.

        `filtered` must keep the position columns.
        """
        readable = [index for index, selected in enumerate(rows) if _is_readable(selected)]
        matches: list[BitMap64 | None] = [None] * len(rows)
        frame = self.read_rows([rows[index] for index in readable]).frame if readable else None
        positions = {} if frame is None else marked_positions(filtered(frame))
        for file_id, index in enumerate(readable):
            matches[index] = positions.get(file_id, BitMap64())
        return matches

    def described(self, rows: Sequence[RowsOfFile], *, columns: Sequence[str] = ()) -> list[RowValues]:
        """The values of the rows, for messages; of the first columns unless others are named."""
        names = (list(columns) or self.snapshot.schema.fieldNames())[:EXAMPLE_COLUMNS_MAX]
        values = [F.substring(F.col(quote(name)).cast("string"), 1, EXAMPLE_LENGTH_MAX) for name in names]
        texts = F.array(*(F.coalesce(value, F.lit("NULL")) for value in values))
        frame = self.read_rows(rows).frame.select(FILE_ID_COLUMN, texts).orderBy(FILE_ID_COLUMN)
        return [tuple(zip(names, row[1], strict=True)) for row in frame.collect()]

    def _request(self, files: pa.Table) -> ScanRequest:
        request = scan_request(self.table, self.snapshot, with_positions=True)
        return dataclasses.replace(request, files=files, prune=None, tracked=True)

    def _read(self, request: ScanRequest) -> ReadFiles:
        with_metadata = bool(metadata_columns(self.alias))
        scanned = dataclasses.replace(request, with_metadata=with_metadata)
        engine, files = self.table.session.engine, request.files
        if self.tracking is None:
            return ReadFiles(files=files, frame=named(engine.scan(scanned), self.alias))
        frame = engine.scan(with_tracking(scanned, self.tracking))
        if with_metadata:
            frame = frame.withColumn("_metadata", metadata_with_ids(frame, files, self.tracking))
        return ReadFiles(files=files, frame=named(with_stable_ids(frame, files, self.tracking), self.alias))


def resolve_row_condition(
    table: TableRef, snapshot: Snapshot, condition: Column | str, *, alias: RowNames = None
) -> ReadCondition:
    """What the condition means for rows of the table.

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
    """The same rows; where only some rows of a file are selected, its statistics count its rows.

    See "Deletion Vectors": statistics of a file with a vector must count its rows. A count that another writer left
    out is read from the Parquet file.
    """
    return [
        selected
        if selected.positions is None or row_count(selected.file.stats) is not None
        else dataclasses.replace(selected, file=with_counted_rows(selected.file, table))
        for selected in rows
    ]


def with_counted_rows(file: AddFile, table: TableRef) -> AddFile:
    """The file with statistics that count its rows; the Parquet file is opened where they did not."""
    if row_count(file.stats) is not None:
        return file
    store = table.delta_log.store
    path = decode_path(file.path, table_root=table.path, allowed_prefixes=allowed_prefixes_of(store))
    with store.open(path) as source:
        count = pq.ParquetFile(source).metadata.num_rows
    return with_num_records(file, count)


def _is_readable(rows: RowsOfFile) -> bool:
    """Whether `_showing` can hide the other rows of the file."""
    return rows.positions is None or row_count(rows.file.stats) is not None


def _showing(rows: RowsOfFile, hidden: BitMap64) -> AddFile:
    """The file with a vector that hides all other rows."""
    if rows.positions is None:
        return rows.file
    count = row_count(rows.file.stats)
    assert count is not None, "some rows of a file can be selected only where its rows are counted"
    others = hidden | (BitMap64(range(count)) - rows.positions)
    return msgspec.structs.replace(rows.file, deletion_vector=inline_descriptor(others) if others else None)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class RowSelection:
    """The rows that a statement selects, before Spark has searched for them."""

    condition: ReadCondition | None
    """None selects all rows."""
    candidates: FileMask
    """Every selected row is in one of these files."""
    fully_matching: FileMask
    """The candidates of which every row is selected, for certain."""

    @property
    def partly_matching(self) -> FileMask:
        """The candidates that must be read to know."""
        return self.candidates & ~self.fully_matching


def select_rows(target: TargetRows, condition: ReadCondition | None) -> RowSelection:
    """Divide the files by what partition values and statistics say about the condition."""
    everything = np.ones(target.snapshot.files.count, dtype=bool)
    if condition is None:
        return RowSelection(condition=None, candidates=everything, fully_matching=everything)
    candidates = target.candidates(condition.predicate)
    return RowSelection(
        condition=condition,
        candidates=candidates,
        fully_matching=target.fully_matching(condition.predicate) & candidates,
    )


def read_candidates(target: TargetRows, selection: RowSelection, files: FileMask) -> ReadFiles:
    """The rows of these files of the selection.

    Spark's filters leave out none that the condition has not left out, unless they know more: the time, or the rows of
    a subquery.
    """
    condition = selection.condition
    return target.read(files, pruned=condition is not None and not condition.repeatable)


def satisfying(read: ReadFiles, condition: ReadCondition | None) -> DataFrame:
    """The rows for which the condition is true, position columns included."""
    return read.frame if condition is None else read.frame.where(condition.condition)


def rows_of_frame(read: ReadFiles, frame: DataFrame) -> list[RowsOfFile]:
    """Run the frame, which was made from `read.frame`, and return which rows of the files it has."""
    return read.rows(marked_positions(frame))


def selected_rows(target: TargetRows, selection: RowSelection) -> list[RowsOfFile]:
    """The selected rows. Spark reads the files for which statistics do not decide."""
    rows = []
    if selection.fully_matching.any():
        rows += whole_files(target, selection.fully_matching)
    if selection.partly_matching.any():
        read = read_candidates(target, selection, selection.partly_matching)
        rows += rows_of_frame(read, satisfying(read, selection.condition))
    return rows


def whole_files(target: TargetRows, files: FileMask) -> list[RowsOfFile]:
    """All rows of these files."""
    return [RowsOfFile(file=add, positions=None) for add in target.snapshot.files.to_actions(files)]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BegunStatement:
    """A DELETE or UPDATE on one version of the table, begun and not yet run."""

    transaction: Transaction
    target: TargetRows
    selection: RowSelection

    @property
    def snapshot(self) -> Snapshot:
        return self.target.snapshot

    def versions_read(self) -> frozenset[int]:
        """The versions of the table that subqueries of the condition read."""
        condition = self.selection.condition
        if condition is None or not condition.has_subquery:
            return frozenset()
        rows = satisfying(self.target.read(self.selection.candidates), condition)
        return versions_read(rows, self.target.table.path)


def begin_statement(
    name: str, table: TableRef, snapshot: Snapshot, condition: Column | str | None, *, alias: RowNames
) -> BegunStatement:
    """Begin a statement of that name on the rows for which the condition is true.

    Raises Spark's `AnalysisException` for a condition that makes no sense.
    """
    resolved = None if condition is None else resolve_row_condition(table, snapshot, condition, alias=alias)
    operation = Operation(name=name, parameters={"predicate": [] if resolved is None else [resolved.text]})
    transaction = table.begin_at(operation, snapshot=snapshot)
    target = TargetRows(table, snapshot, transaction.vectors, alias=alias)
    transaction.describe_rows = target.described
    return BegunStatement(transaction=transaction, target=target, selection=select_rows(target, resolved))


def record_selection(
    transaction: Transaction, target: TargetRows, selection: RowSelection, rows: Sequence[RowsOfFile]
) -> None:
    """Record the condition and the rows that it selected, which are all in `rows`."""
    condition = selection.condition
    if condition is None:
        transaction.record_whole_table()
        return
    files = selection.candidates
    if condition.repeatable:
        again = target.evaluating(condition.condition)
        transaction.record_scan(condition.predicate, files=files, rows=_positions(target, rows), reevaluate=again)
    elif condition.has_subquery and not is_opaque(condition.predicate):
        # The subquery has read other tables at one version; evaluated for new rows, it would read newer ones.
        transaction.record_scan(condition.predicate, files=files, rows=_positions(target, rows))
    else:
        transaction.record_scan(condition.predicate, files=files)


def _positions(target: TargetRows, rows: Sequence[RowsOfFile]) -> dict[FileKey, BitMap64] | None:
    """The positions of the rows by file; None where statistics of a whole file do not count its rows."""
    whole = target.all_rows([selected.file for selected in rows if selected.positions is None])
    if whole is None:
        return None
    return whole | {selected.file.key: selected.positions for selected in rows if selected.positions is not None}
