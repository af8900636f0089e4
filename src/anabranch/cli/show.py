"""`anabranch show`: rows of a table, read by pyarrow, no Spark involved."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.types import StructType

from anabranch.cli.output import cells, console, count, json_values, plain, table_of
from anabranch.cli.rows.condition_filter import Condition, RowFilter, column_paths, condition_on
from anabranch.cli.rows.data_file_reading import DataFile, DataFiles, RowReader
from anabranch.cli.rows.local_time_zone import local_time_zone
from anabranch.deletion_vectors.vector_reading import load_vector
from anabranch.log.file_columns import adds_of_table
from anabranch.predicates.expressions import TRUE
from anabranch.protocol.actions import AddFile
from anabranch.protocol.data_paths import locate
from anabranch.schema.merging import visible_schema
from anabranch.snapshot.snapshot import Snapshot
from anabranch.storage.external_files import allowed_prefixes_of
from anabranch.storage.log_store import LogStore
from anabranch.transaction.rows.row_ids import row_count

CELL_CHARACTERS = 60


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ShownRows:
    """The first rows that satisfy a condition, in the order of the files."""

    snapshot: Snapshot
    condition: Condition
    schema: StructType
    """Of `rows`."""
    rows: pa.Table
    files_opened: int
    more: bool
    """Whether there may be more rows than were asked for."""


def first_rows(
    snapshot: Snapshot,
    store: LogStore,
    *,
    limit: int,
    columns: str | None,
    where: str | None,
    options: dict[str, str],
) -> ShownRows:
    """Up to `limit` rows.

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
    opened = found = 0
    for add in _files(snapshot, condition):
        if found > limit:
            break
        opened += 1
        for rows in _rows_of(reader, store, snapshot, add):
            kept = rows if keep is None else keep.of(rows)
            # One row more than asked for tells whether there are more.
            kept = kept.slice(0, limit + 1 - found)
            batches.append(kept)
            found += kept.num_rows
            if found > limit:
                break
    fields = [snapshot.schema[name] for name in chosen]
    whole = pa.Table.from_batches(batches, schema=reader.row_schema).select(chosen)
    return ShownRows(
        snapshot=snapshot,
        condition=condition,
        schema=visible_schema(StructType(fields)),
        rows=whole.slice(0, limit),
        files_opened=opened,
        more=found > limit,
    )


def rows_document(shown: ShownRows) -> dict[str, Any]:
    """For programs."""
    values = [json_values(shown.rows[field.name], field.dataType) for field in shown.schema.fields]
    names = shown.schema.fieldNames()
    return {
        "table": shown.snapshot.table_root,
        "version": shown.snapshot.version,
        "where": shown.condition.text or None,
        "columns": [{"name": field.name, "type": field.dataType.simpleString()} for field in shown.schema.fields],
        "rows": [dict(zip(names, row, strict=True)) for row in zip(*values, strict=True)],
        "more": shown.more,
        "files": {
            "total": shown.snapshot.files.count,
            "mayMatch": int(shown.condition.may_match.sum()),
            "opened": shown.files_opened,
        },
    }


def print_rows(shown: ShownRows) -> None:
    """For people."""
    out = console()
    numbers = {"tinyint", "smallint", "int", "bigint", "float", "double"}
    right = [
        plain(field.name)
        for field in shown.schema.fields
        if field.dataType.simpleString() in numbers or field.dataType.typeName() == "decimal"
    ]
    table = table_of(*(plain(field.name) for field in shown.schema.fields), right=right)
    columns = [cells(shown.rows[field.name], field.dataType, CELL_CHARACTERS) for field in shown.schema.fields]
    for row in zip(*columns, strict=True):
        table.add_row(*row)
    if shown.rows.num_rows:
        out.print(table)
    out.print(_summary(shown), style="dim")


def _summary(shown: ShownRows) -> str:
    total, may_match = shown.snapshot.files.count, int(shown.condition.may_match.sum())
    first = "The first " if shown.more else ""
    told = f"{first}{count(shown.rows.num_rows, 'row')} of version {shown.snapshot.version}"
    if not shown.condition.text:
        return f"{told}; opened {shown.files_opened:,} of {count(total, 'file')}."
    skipped = f", skipped {total - may_match:,} by their statistics and partitions" if may_match < total else ""
    return (
        f"{told} where {plain(shown.condition.text)}; opened {shown.files_opened:,} of {count(total, 'file')}{skipped}."
    )


def _files(snapshot: Snapshot, condition: Condition) -> Iterator[AddFile]:
    """Those to read, made into actions one at a time: of a large table only the first few are looked at."""
    table = snapshot.files.table
    for index in np.flatnonzero(condition.may_match).tolist():
        yield from adds_of_table(table.slice(index, 1), data_change=False)


def _rows_of(reader: RowReader, store: LogStore, snapshot: Snapshot, add: AddFile) -> Iterator[pa.RecordBatch]:
    vector, num_rows = add.deletion_vector, row_count(add.stats)
    hidden = None if vector is None else load_vector(store, vector, num_rows=num_rows)
    place = locate(add.path, table_root=snapshot.table_root, allowed_prefixes=allowed_prefixes_of(store))
    file = DataFile(name=place.absolute, partition_values=add.partition_values)
    yield from reader.read(file, hidden)
