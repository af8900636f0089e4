"""The change data files of a transaction of several statements, written by Spark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from anabranch.change_feed.feed_columns import CHANGE_TYPE, DELETE, INSERT
from anabranch.commands.dml.row_changes import write_changed_rows
from anabranch.commands.dml.target_table import TargetRows, with_row_counts
from anabranch.commands.table_access import TableRef
from anabranch.protocol.actions import AddCDCFile, AddFile
from anabranch.schema.logical_types import without_void
from anabranch.schema.paths import quote
from anabranch.snapshot.snapshot import Snapshot
from anabranch.transactions.read_set import RowsOfFile
from anabranch.transactions.rows.deletion_vector_actions import StoredVectors

_KEY, _NUMBER = "__anabranch_row", "__anabranch_number"


class ChangedRows:
    """Rows of the table, as change data files: a `ChangeDataWriter`."""

    def __init__(self, table: TableRef, snapshot: Snapshot) -> None:
        self._table, self._snapshot = table, snapshot
        self._names = tuple(map(quote, without_void(snapshot.schema).fieldNames()))

    def changes(self, *, deleted: Sequence[RowsOfFile], inserted: Sequence[RowsOfFile]) -> tuple[AddCDCFile, ...]:
        target = self._target()
        return self._written(
            target.read_rows(with_row_counts(rows, target.table)).frame.withColumn(CHANGE_TYPE, F.lit(change))
            for rows, change in ((deleted, DELETE), (inserted, INSERT))
            if rows
        )

    def differences(self, before: Sequence[AddFile], after: Sequence[AddFile]) -> tuple[AddCDCFile, ...]:
        old, new = self._numbered(before), self._numbered(after)
        return self._written(
            ours.join(theirs.select(_KEY, _NUMBER), [_KEY, _NUMBER], "left_anti").withColumn(CHANGE_TYPE, F.lit(change))
            for ours, theirs, change in ((old, new, DELETE), (new, old, INSERT))
        )

    def _target(self) -> TargetRows:
        vectors = StoredVectors(self._table.committed_log.store, self._table.session.random)
        return TargetRows(self._table, self._snapshot, vectors)

    def _numbered(self, files: Sequence[AddFile]) -> DataFrame:
        """The rows with a text of all values, and a number among the rows with the same."""
        frame = self._target().read_rows([RowsOfFile(file=file, positions=None) for file in files]).frame
        text = F.to_json(F.struct(*self._names), {"ignoreNullFields": "false"})
        return frame.withColumn(_KEY, text).withColumn(
            _NUMBER, F.row_number().over(Window.partitionBy(_KEY).orderBy(_KEY))
        )

    def _written(self, frames: Iterator[DataFrame]) -> tuple[AddCDCFile, ...]:
        files: list[AddCDCFile] = []
        for frame in frames:
            rows = frame.select(*self._names, CHANGE_TYPE)
            files += write_changed_rows(self._table, self._snapshot, rows)
        return tuple(files)
