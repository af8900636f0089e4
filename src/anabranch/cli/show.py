"""`anabranch show`: rows of a table, read by pyarrow without Spark."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark.sql.types import StructType

from anabranch.cli.output import table_of
from anabranch.cli.rows.condition_filter import Condition, column_paths, condition_on
from anabranch.cli.rows.data_file_reading import DataFile, DataFiles, RowReader
from anabranch.cli.rows.display_values import cells, json_values
from anabranch.cli.rows.local_time_zone import local_time_zone
from anabranch.cli.rows.row_filter import RowFilter
from anabranch.deletion_vectors.vector_reading import load_vector
from anabranch.log.file_columns import adds_of_table
from anabranch.predicates.expressions import TRUE
from anabranch.protocol.actions import AddFile, row_count
from anabranch.protocol.data_paths import locate
from anabranch.schema.schema_evolution import visible_schema
from anabranch.snapshot.snapshot import Snapshot
from anabranch.storage.external_files import allowed_prefixes_of
from anabranch.storage.log_store import LogStore
from anabranch.text_format import count, plain

if TYPE_CHECKING:
    from rich.console import Console

CELL_CHARACTERS = 60
FILES_AT_ONCE = 16
_NUMBERS = {"tinyint", "smallint", "int", "bigint", "float", "double"}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ShownRows:
    """The first rows that satisfy a condition, in the order of the files."""

    snapshot: Snapshot
    condition: Condition
    schema: StructType
    """The schema of `rows`."""
    rows: pa.Table
    files_opened: int
    more: bool
    """Whether the table has more such rows than the limit."""

    def document(self) -> dict[str, Any]:
        values = [json_values(self.rows[field.name], field.dataType) for field in self.schema.fields]
        names = self.schema.fieldNames()
        return {
            "table": self.snapshot.table_root,
            "version": self.snapshot.version,
            "where": self.condition.text or None,
            "columns": [{"name": field.name, "type": field.dataType.simpleString()} for field in self.schema.fields],
            "rows": [dict(zip(names, row, strict=True)) for row in zip(*values, strict=True)],
            "more": self.more,
            "files": {
                "total": self.snapshot.files.count,
                "mayMatch": int(self.condition.may_match.sum()),
                "opened": self.files_opened,
            },
        }

    def print_to(self, out: Console) -> None:
        fields = self.schema.fields
        right = [
            plain(field.name)
            for field in fields
            if field.dataType.simpleString() in _NUMBERS or field.dataType.typeName() == "decimal"
        ]
        table = table_of(*(plain(field.name) for field in fields), right=right)
        columns = [cells(self.rows[field.name], field.dataType, CELL_CHARACTERS) for field in fields]
        for row in zip(*columns, strict=True):
            table.add_row(*row)
        if self.rows.num_rows:
            out.print(table)
        out.print(_summary(self), style="dim")


def first_rows(
    snapshot: Snapshot,
    store: LogStore,
    *,
    limit: int,
    columns: str | None,
    where: str | None,
    options: dict[str, str],
) -> ShownRows:
    """The first rows that satisfy `where`, at most `limit`.

    Raises `ColumnNotFoundError`, `PredicateSyntaxError`, `ConditionNeedsSparkError`, `DataFileMismatchError`,
    `DeletionVectorError`, `UnsafePathError`, `StorageError`.
    """
    condition = condition_on(snapshot, where)
    chosen = list(dict.fromkeys(path[0] for path in column_paths(snapshot, columns))) or snapshot.schema.fieldNames()
    needed = {*chosen, *(path[0] for path in condition.columns)}
    schema = StructType([field for field in snapshot.schema.fields if field.name in needed])
    keep = None if condition.predicate == TRUE else RowFilter(condition.predicate, schema, text=condition.text)
    reader = RowReader(
        data_files=DataFiles(snapshot.table_root, options),
        schema=schema,
        partition_columns=snapshot.partition_columns,
        column_mapping=snapshot.column_mapping_mode,
        time_zone=local_time_zone(),
    )
    batches: list[pa.RecordBatch] = []
    files_opened = num_rows = 0
    for add in _files(snapshot, condition):
        if num_rows > limit:
            break
        files_opened += 1
        for batch in _rows_of(reader, store, snapshot, add):
            kept = batch if keep is None else keep.of(batch)
            # One row beyond the limit shows that there are more.
            kept = kept.slice(0, limit + 1 - num_rows)
            batches.append(kept)
            num_rows += kept.num_rows
            if num_rows > limit:
                break
    fields = [snapshot.schema[name] for name in chosen]
    rows = pa.Table.from_batches(batches, schema=reader.row_schema).select(chosen)
    return ShownRows(
        snapshot=snapshot,
        condition=condition,
        schema=visible_schema(StructType(fields)),
        rows=rows.slice(0, limit),
        files_opened=files_opened,
        more=num_rows > limit,
    )


def _summary(shown: ShownRows) -> str:
    total, may_match = shown.snapshot.files.count, int(shown.condition.may_match.sum())
    first = "The first " if shown.more else ""
    where = f" where {plain(shown.condition.text)}" if shown.condition.text else ""
    skipped = f", skipped {total - may_match:,} by their statistics and partitions" if may_match < total else ""
    return (
        f"{first}{count(shown.rows.num_rows, 'row')} of version {shown.snapshot.version}{where}; "
        f"opened {shown.files_opened:,} of {count(total, 'file')}{skipped}."
    )


def _files(snapshot: Snapshot, condition: Condition) -> Iterator[AddFile]:
    """The files that can match, as actions made a few at a time: the first of a large table are often enough."""
    positions = np.flatnonzero(condition.may_match)
    for start in range(0, len(positions), FILES_AT_ONCE):
        yield from adds_of_table(snapshot.files.rows(positions[start : start + FILES_AT_ONCE]), data_change=False)


def _rows_of(reader: RowReader, store: LogStore, snapshot: Snapshot, add: AddFile) -> Iterator[pa.RecordBatch]:
    vector, num_rows = add.deletion_vector, row_count(add.stats)
    hidden = None if vector is None else load_vector(store, vector, num_rows=num_rows)
    location = locate(add.path, table_root=snapshot.table_root, allowed_prefixes=allowed_prefixes_of(store))
    file = DataFile(name=location.absolute, partition_values=add.partition_values)
    yield from reader.read(file, hidden)
