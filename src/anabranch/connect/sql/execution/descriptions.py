"""DESCRIBE TABLE and SHOW, run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from anabranch.commands.describe_json import describe_as_json
from anabranch.commands.show_create_table import show_create_table
from anabranch.commands.show_table import (
    describe_column,
    describe_table,
    show_columns,
    show_partitions,
    show_properties,
)
from anabranch.connect.sql.grammar.descriptions import (
    DescribeTable,
    ShowColumns,
    ShowCreateTable,
    ShowPartitions,
    ShowProperties,
)
from anabranch.errors.arguments import InvalidArgumentError, UnsupportedOperationError
from anabranch.sql.call import Call


def _table(call: Call, statement: DescribeTable) -> DataFrame:
    handle = call.table(statement.table)
    if statement.unsupported is not None:
        raise UnsupportedOperationError(operation=f"DESCRIBE TABLE … {statement.unsupported} of {handle.label}")
    if statement.as_json:
        if not statement.extended or statement.column is not None:
            problem = "AS JSON goes with EXTENDED, and with no column"
            raise InvalidArgumentError(argument="DESCRIBE TABLE", value=handle.label, problem=problem)
        return describe_as_json(handle)
    if statement.column is not None:
        return describe_column(handle, statement.column)
    return describe_table(handle, extended=statement.extended)


def _properties(call: Call, statement: ShowProperties) -> DataFrame:
    return show_properties(call.table(statement.table), statement.key)


def _columns(call: Call, statement: ShowColumns) -> DataFrame:
    return show_columns(call.table(statement.table))


def _partitions(call: Call, statement: ShowPartitions) -> DataFrame:
    values = {column: F.expr(call.expression(value)) for column, value in statement.partition}
    return show_partitions(call.table(statement.table), values)


def _create_table(call: Call, statement: ShowCreateTable) -> DataFrame:
    return show_create_table(call.table(statement.table))


SPARKS_DESCRIPTIONS: Mapping[type, Callable[[Call, Any], DataFrame]] = {
    DescribeTable: _table,
    ShowProperties: _properties,
    ShowColumns: _columns,
    ShowPartitions: _partitions,
    ShowCreateTable: _create_table,
}
