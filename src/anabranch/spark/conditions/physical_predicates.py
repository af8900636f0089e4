"""Predicates of a query, renamed to the column names of data files and their statistics."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from pyspark.sql.types import StructType

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
    Operand,
    Or,
    Predicate,
    StartsWith,
    Unknown,
    columns_named_by,
)
from anabranch.schema.column_mapping import ColumnMappingMode, physical_paths


class PhysicalNames:
    """Renames the columns of predicates from logical to physical names."""

    def __init__(self, schema: StructType, mode: ColumnMappingMode) -> None:
        self._paths: Mapping[ColumnPath, ColumnPath] = physical_paths(schema, mode)

    def of(self, predicate: Predicate) -> Predicate:
        """The same condition. Parts with a column that the table does not have become `Unknown`."""
        match predicate:
            case And(operands):
                return And(tuple(map(self.of, operands)))
            case Or(operands):
                return Or(tuple(map(self.of, operands)))
            case Not(operand):
                return Not(self.of(operand))
            case Unknown():
                paths = [self._paths.get(column.path) for column in predicate.columns]
                return dataclasses.replace(predicate, columns=tuple(Column(path) for path in paths if path))
        if any(column.path not in self._paths for column in columns_named_by(predicate)):
            return Unknown(str(predicate))
        match predicate:
            case Comparison(operator, left, right):
                return Comparison(operator, self._column(left), self._operand(right))
            case In(column, literals):
                return In(self._column(column), literals)
            case IsNull(column) | IsNotNull(column):
                return type(predicate)(self._column(column))
            case StartsWith(column, prefix):
                return StartsWith(self._column(column), prefix)
        return predicate

    def _column(self, column: Column) -> Column:
        return Column(self._paths[column.path])

    def _operand(self, operand: Operand) -> Operand:
        return operand if isinstance(operand, Literal) else self._column(operand)
