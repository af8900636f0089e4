"""Data skipping: the files that can hold a row for which a condition is true.

A file is skipped only if no row of it can make the condition true; a file without statistics is read. See
"Per-file Statistics" and "Partition Value Serialization" of PROTOCOL.md.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import StructType

from anabranch.data_skipping.column_bounds import ColumnBounds
from anabranch.data_skipping.skipping_columns import SkippingColumns
from anabranch.log.file_columns import FileMask, table_of_adds
from anabranch.predicates.expressions import (
    And,
    Column,
    ColumnPath,
    Comparison,
    In,
    IsNotNull,
    IsNull,
    Literal,
    Not,
    Or,
    Predicate,
    StartsWith,
    Truth,
    Unknown,
    columns_named_by,
    nodes_of,
    references,
)
from anabranch.predicates.normalization import normalise
from anabranch.protocol.actions import AddFile


def files_to_read(
    files: pa.Table,
    predicate: Predicate,
    *,
    physical_schema: StructType,
    partition_columns: Iterable[str],
) -> FileMask:
    """One entry a file: whether `predicate`, in physical names, can be true for a row of it."""
    columns = SkippingColumns(files, physical_schema=physical_schema, partition_columns=partition_columns)
    return can_be_true(predicate, columns)


def files_wholly_true(
    files: pa.Table,
    predicate: Predicate,
    *,
    physical_schema: StructType,
    partition_columns: Iterable[str],
    columns: SkippingColumns | None = None,
) -> FileMask:
    """One entry a file: whether `predicate` is true for every row of it, by partition values alone.

    Statistics are not used: if another writer's were wrong, rows would be kept or dropped wrongly.
    """
    columns = columns or SkippingColumns(files, physical_schema=physical_schema, partition_columns=partition_columns)
    return _certainly_true(normalise(predicate), columns)


def added_files_to_read(
    predicate: Predicate, adds: Sequence[AddFile], *, physical_schema: StructType, partition_columns: Iterable[str]
) -> FileMask:
    """`files_to_read` for files that commits added: one entry an action."""
    return files_to_read(
        table_of_adds(adds), predicate, physical_schema=physical_schema, partition_columns=partition_columns
    )


def can_be_true(predicate: Predicate, columns: SkippingColumns) -> FileMask:
    """One entry a file: whether the predicate can be true for a row of it."""
    normal = normalise(predicate)
    return _possible(normal, columns.bounds(_informative_columns(normal)), columns.count)


def live_row_count(columns: SkippingColumns, files: FileMask | None = None) -> int | None:
    """The number of rows that are not hidden; None if a file lacks its number of rows."""
    total = columns.num_records()
    hidden = columns.hidden_rows()
    if files is not None:
        total, hidden = total.filter(pa.array(files)), hidden[files]
    if total.null_count:
        return None
    return int(pc.sum(total).as_py() or 0) - int(hidden.sum())


def _informative_columns(predicate: Predicate) -> list[ColumnPath]:
    """The columns whose bounds can exclude files: all but those of `Unknown` parts."""
    return [
        column.path
        for node in nodes_of(predicate)
        if not isinstance(node, Unknown)
        for column in columns_named_by(node)
    ]


def _possible(predicate: Predicate, columns: dict[ColumnPath, ColumnBounds], count: int) -> FileMask:
    """Whether a normal predicate can be true. It is monotone, so its parts are evaluated one by one."""
    if isinstance(predicate, And | Or):
        mask = _possible(predicate.operands[0], columns, count)
        for operand in predicate.operands[1:]:
            if isinstance(predicate, And):
                mask = mask & _possible(operand, columns, count)
            else:
                mask = mask | _possible(operand, columns, count)
        return mask
    if isinstance(predicate, Truth):
        return np.full(count, predicate.value is True, dtype=np.bool_)
    leaf = _possible_leaf(predicate, columns)
    return np.ones(count, dtype=np.bool_) if leaf is None else leaf


def _possible_leaf(predicate: Predicate, columns: dict[ColumnPath, ColumnBounds]) -> FileMask | None:
    """Whether a condition on columns can be true; None where bounds do not help."""
    if isinstance(predicate, Comparison):
        bounds = columns[predicate.left.path]
        if isinstance(predicate.right, Literal):
            return bounds.can_compare(predicate.operator, predicate.right)
        return (
            bounds.can_relate(predicate.operator, columns[predicate.right.path]) if _both_present(predicate) else None
        )
    if isinstance(predicate, IsNull):
        return columns[predicate.column.path].can_be_null()
    if isinstance(predicate, IsNotNull):
        return columns[predicate.column.path].can_be_present()
    if isinstance(predicate, In):
        return columns[predicate.column.path].can_be_in(predicate.values)
    if isinstance(predicate, StartsWith):
        return columns[predicate.column.path].can_start_with(predicate.prefix)
    if isinstance(predicate, Not) and isinstance(predicate.operand, In):
        return columns[predicate.operand.column.path].can_differ_from_all(predicate.operand.values)
    if isinstance(predicate, Not) and isinstance(predicate.operand, StartsWith):
        return columns[predicate.operand.column.path].can_start_otherwise(predicate.operand.prefix)
    return None


def _both_present(comparison: Comparison) -> bool:
    # `<=>` is true of two NULLs; every other comparison needs two values.
    return comparison.operator.negated is not None


def _certainly_true(predicate: Predicate, columns: SkippingColumns) -> FileMask:
    """Whether a normal predicate is true for every row of a file."""
    if isinstance(predicate, And):
        return ~_any(~_certainly_true(operand, columns) for operand in predicate.operands)
    if isinstance(predicate, Or):
        return _any(_certainly_true(operand, columns) for operand in predicate.operands)
    if isinstance(predicate, Truth):
        return np.full(columns.count, predicate.value is True, dtype=np.bool_)
    named = references(predicate)
    if isinstance(predicate, Unknown) or not all(map(columns.is_partition_column, named)):
        return np.zeros(columns.count, dtype=np.bool_)
    # It is true for every row if it is false for none and NULL for none.
    not_true = Or((Not(predicate), *_null_cases(predicate, named)))
    return ~can_be_true(not_true, columns)


def _any(masks: Iterable[FileMask]) -> FileMask:
    return functools.reduce(np.bitwise_or, masks)


def _null_cases(predicate: Predicate, named: Iterable[ColumnPath]) -> Iterable[Predicate]:
    never_null = isinstance(predicate, IsNull | IsNotNull)
    return [] if never_null else [IsNull(Column(path)) for path in named]
