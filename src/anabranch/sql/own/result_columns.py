"""The columns of the results of statements, known before they run."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql.types import StructType

from anabranch.commands.clone import clone_table
from anabranch.commands.describe.describe_table import DETAIL_SCHEMA, HISTORY_SCHEMA
from anabranch.commands.optimize import optimize_metrics
from anabranch.commands.restore import restore_table
from anabranch.commands.vacuum import vacuum_command
from anabranch.sql import statement_explanations
from anabranch.sql.grammar.alteration_grammar import AlterTable
from anabranch.sql.grammar.definition_grammar import CloneTable, CreateTable, CreateTableLike
from anabranch.sql.grammar.insert_grammar import Insert
from anabranch.sql.grammar.maintenance_grammar import (
    Convert,
    DescribeDetail,
    DescribeHistory,
    Generate,
    Optimize,
    Reorganize,
    Restore,
    Vacuum,
)
from anabranch.sql.grammar.statement_grammar import StatementHeader

NOTHING = StructType([])


def result_columns(header: StatementHeader, statement: object) -> StructType:
    """The columns of the result of `OwnStatement.run`."""
    return statement_explanations.SCHEMA if header.explained is not None else _COLUMNS[type(statement)]


_COLUMNS: Mapping[type, StructType] = {
    Optimize: optimize_metrics.RESULT,
    Reorganize: optimize_metrics.RESULT,
    Vacuum: vacuum_command.RESULT,
    Restore: restore_table.RESULT,
    Convert: NOTHING,
    Generate: NOTHING,
    DescribeDetail: DETAIL_SCHEMA,
    DescribeHistory: HISTORY_SCHEMA,
    CloneTable: clone_table.RESULT,
    CreateTable: NOTHING,
    CreateTableLike: NOTHING,
    AlterTable: NOTHING,
    Insert: NOTHING,
}
