"""Which files a condition can touch.

A file may be left out only if no row of it can make the condition true; whatever is not known keeps it in. See
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
    columns_of,
    references,
    walk,
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
    """One entry a file: whether `predicate` is certainly true for every row of it, told by partition values alone.

    Statistics are left aside: a row kept or dropped by them would be kept or dropped on another writer's word.
    """
    columns = columns or SkippingColumns(files, physical_schema=physical_schema, partition_columns=partition_columns)
    return _surely_true(normalise(predicate), columns)


def can_match(
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
    """Rows of the files that are not hidden; None where a file does not say how many it has."""
    total = columns.num_records()
    hidden = columns.hidden_rows()
    if files is not None:
        total, hidden = total.filter(pa.array(files)), hidden[files]
    if total.null_count:
        return None
    return int(pc.sum(total).as_py() or 0) - int(hidden.sum())


def _informative_columns(predicate: Predicate) -> list[ColumnPath]:
    """The columns whose bounds can make a difference: those of `Unknown` parts cannot."""
    return [column.path for node in walk(predicate) if not isinstance(node, Unknown) for column in columns_of(node)]


def _possible(predicate: Predicate, known: dict[ColumnPath, ColumnBounds], count: int) -> FileMask:
    """Whether a normal predicate can be true. It grows with its parts, so the parts may be judged apart."""
    if isinstance(predicate, And | Or):
        mask = _possible(predicate.operands[0], known, count)
        for operand in predicate.operands[1:]:
            if isinstance(predicate, And):
                mask = mask & _possible(operand, known, count)
            else:
                mask = mask | _possible(operand, known, count)
        return mask
    if isinstance(predicate, Truth):
        return np.full(count, predicate.value is True, dtype=np.bool_)
    found = _possible_leaf(predicate, known)
    return np.ones(count, dtype=np.bool_) if found is None else found


def _possible_leaf(predicate: Predicate, known: dict[ColumnPath, ColumnBounds]) -> FileMask | None:
    """The same for a condition on columns; None where nothing can be told."""
    if isinstance(predicate, Comparison):
        bounds = known[predicate.left.path]
        if isinstance(predicate.right, Literal):
            return bounds.can_compare(predicate.operator, predicate.right)
        return bounds.can_relate(predicate.operator, known[predicate.right.path]) if _both_present(predicate) else None
    if isinstance(predicate, IsNull):
        return known[predicate.column.path].can_be_null()
    if isinstance(predicate, IsNotNull):
        return known[predicate.column.path].can_be_present()
    if isinstance(predicate, In):
        return known[predicate.column.path].can_be_in(predicate.values)
    if isinstance(predicate, StartsWith):
        return known[predicate.column.path].can_start_with(predicate.prefix)
    if isinstance(predicate, Not) and isinstance(predicate.operand, In):
        return known[predicate.operand.column.path].can_differ_from_all(predicate.operand.values)
    if isinstance(predicate, Not) and isinstance(predicate.operand, StartsWith):
        return known[predicate.operand.column.path].can_start_otherwise(predicate.operand.prefix)
    return None


def _both_present(comparison: Comparison) -> bool:
    # `<=>` is true of two NULLs; every other comparison needs two values.
    return comparison.operator.negated is not None


def _surely_true(predicate: Predicate, columns: SkippingColumns) -> FileMask:
    """Whether a normal predicate is true for every row."""
    if isinstance(predicate, And):
        return ~_any(~_surely_true(operand, columns) for operand in predicate.operands)
    if isinstance(predicate, Or):
        return _any(_surely_true(operand, columns) for operand in predicate.operands)
    if isinstance(predicate, Truth):
        return np.full(columns.count, predicate.value is True, dtype=np.bool_)
    named = references(predicate)
    if isinstance(predicate, Unknown) or not all(map(columns.is_partition_column, named)):
        return np.zeros(columns.count, dtype=np.bool_)
    # True of every row is: for no row false, and for no row NULL.
    doubts = Or((Not(predicate), *_null_cases(predicate, named)))
    return ~can_be_true(doubts, columns)


def _any(masks: Iterable[FileMask]) -> FileMask:
    return functools.reduce(np.bitwise_or, masks)


def _null_cases(predicate: Predicate, named: Iterable[ColumnPath]) -> Iterable[Predicate]:
    never_null = isinstance(predicate, IsNull | IsNotNull)
    return [] if never_null else [IsNull(Column(path)) for path in named]
