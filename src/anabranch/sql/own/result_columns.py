"""The columns of the results of statements, known before they run."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql.types import StructType

from anabranch.commands import clone, optimize_metrics, restore, vacuum
from anabranch.commands.describe import DETAIL_SCHEMA, HISTORY_SCHEMA
from anabranch.sql import explanations
from anabranch.sql.grammar.alteration_forms import AlterTable
from anabranch.sql.grammar.descriptions import DescribeDetail, DescribeHistory
from anabranch.sql.grammar.inserts import Insert
from anabranch.sql.grammar.maintenance import Convert, Generate, Optimize, Reorganize, Restore, Vacuum
from anabranch.sql.grammar.statements import Opening
from anabranch.sql.grammar.table_definitions import CloneTable, CreateTable, CreateTableLike

NOTHING = StructType([])


def result_columns(opening: Opening, statement: object) -> StructType:
    """The columns that `OwnStatement.run` will give."""
    return explanations.SCHEMA if opening.explained is not None else _COLUMNS[type(statement)]


_COLUMNS: Mapping[type, StructType] = {
    Optimize: optimize_metrics.RESULT,
    Reorganize: optimize_metrics.RESULT,
    Vacuum: vacuum.RESULT,
    Restore: restore.RESULT,
    Convert: NOTHING,
    Generate: NOTHING,
    DescribeDetail: DETAIL_SCHEMA,
    DescribeHistory: HISTORY_SCHEMA,
    CloneTable: clone.RESULT,
    CreateTable: NOTHING,
    CreateTableLike: NOTHING,
    AlterTable: NOTHING,
    Insert: NOTHING,
}
