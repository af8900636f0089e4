"""Execution of INSERT."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from anabranch.commands.dml.assignments import default_keyword_value
from anabranch.commands.table_access import TableRef
from anabranch.commands.write.replace_on import ReplaceOn, ReplaceUsing, replacing
from anabranch.commands.write.write_command import write_frame
from anabranch.commands.write.write_options import WriteOptions
from anabranch.errors.arguments import (
    InvalidColumnListError,
    StaticPartitionColumnListedError,
    UnsupportedOperationError,
)
from anabranch.errors.schema import InvalidPartitioningError
from anabranch.schema.paths import fold, quote
from anabranch.schema.write_rules import WriteApi
from anabranch.sql.grammar.cursor import Fragment
from anabranch.sql.grammar.insert_grammar import Insert, Row
from anabranch.sql.parameters import Parameters
from anabranch.sql.statement_context import StatementContext


def insert(context: StatementContext, statement: Insert, *before: Fragment) -> DataFrame:
    """`INSERT INTO` and `INSERT OVERWRITE`; `before` is a WITH before the statement, which belongs to its query."""
    prepared(context, statement, *before)()
    return context.nothing()


def prepared(context: StatementContext, statement: Insert, *before: Fragment) -> Callable[[], None]:
    """Prepare an INSERT. The returned function writes its rows."""
    table = context.table(statement.table)
    if statement.if_not_exists:
        raise UnsupportedOperationError(operation=f"INSERT … IF NOT EXISTS on the Delta table {table.label}")
    options = _options(context, table, statement)
    if statement.replace_on is not None or statement.replace_using:
        return _prepared_replacing(context, table, statement, options, before)
    frame, by_name = _rows(context, table, statement, before)
    api = WriteApi.SQL_BY_NAME if by_name else WriteApi.SQL_BY_POSITION

    def write() -> None:
        write_frame(table, frame, options, api)

    return write


def _prepared_replacing(
    context: StatementContext, table: TableRef, statement: Insert, options: WriteOptions, before: Sequence[Fragment]
) -> Callable[[], None]:
    """`REPLACE ON` and `REPLACE USING`, whose rows are evaluated once."""
    names = None if statement.by_name else table.latest().schema.fieldNames()
    replacement = replacing(
        table,
        context.query(*before, statement.query),
        _replacement(context, statement),
        options,
        view_of=context.view_of,
        renamed=lambda frame: _filled(
            frame if names is None else _named(frame, names, table), statement.defaults, table
        ),
    )

    def write() -> None:
        try:
            write_frame(table, replacement.rows, replacement.options, WriteApi.SQL_BY_NAME)
        finally:
            replacement.close()

    return write


def _replacement(context: StatementContext, statement: Insert) -> ReplaceOn | ReplaceUsing:
    condition = statement.replace_on
    if condition is None:
        return ReplaceUsing(columns=statement.replace_using, written=", ".join(statement.replace_using))
    return ReplaceOn(
        condition=context.expression(condition),
        written=condition.text,
        target_alias=context.alias(statement.table, statement.alias),
        source_alias=statement.query_alias,
    )


def _options(context: StatementContext, table: TableRef, statement: Insert) -> WriteOptions:
    static = [(part.column, part.value) for part in statement.partition if part.value is not None]
    replaces = any((statement.replace_where, statement.replace_on, statement.replace_using))
    options = WriteOptions.parse(
        {},
        mode="overwrite" if statement.overwrite or replaces else "append",
        partition_by=(),
        cluster_by=(),
        settings=context.session,
    )
    if statement.evolves:
        options = dataclasses.replace(options, merge_schema=True)
    if statement.replace_where is not None:
        condition = context.expression(statement.replace_where)
        return dataclasses.replace(options, replace_where=condition, dynamic_partition_overwrite=False)
    # In dynamic mode exactly the partitions of the rows are replaced, so PARTITION is no condition.
    if statement.overwrite and static and not options.dynamic_partition_overwrite:
        spelling = {fold(name): name for name in table.latest().partition_columns}
        equals = [_equals(spelling.get(fold(name), name), context.expression(value)) for name, value in static]
        condition = " AND ".join(equals)
        return dataclasses.replace(options, replace_where=condition, dynamic_partition_overwrite=False)
    return options


def _equals(column: str, value: str) -> str:
    is_null = value.strip().upper() == "NULL"
    return f"{quote(column)} IS NULL" if is_null else f"{quote(column)} = ({value})"


def _rows(
    context: StatementContext, table: TableRef, statement: Insert, before: Sequence[Fragment]
) -> tuple[DataFrame, bool]:
    """The rows, and whether their columns are matched by name."""
    _check_no_column_has_two_values(table, statement)
    names = statement.columns
    if names is None and statement.partition and not statement.by_name:
        names = _columns_besides(table, statement)
    if statement.rows is not None:
        return _rows_with_default(context, table, statement, names or tuple(table.latest().schema.fieldNames()))
    frame = context.query(*before, statement.query)
    if names is None and statement.defaults and not statement.by_name:
        names = tuple(table.latest().schema.fieldNames())
    if names is not None:
        frame = _named(frame, names, table)
    # Columns that are DEFAULT in every row are left out, so that the write fills them.
    frame = frame.drop(*(frame.columns[index] for index in statement.defaults))
    frame = _with_partition(context, table, frame, statement)
    return frame, statement.by_name or names is not None


def _check_no_column_has_two_values(table: TableRef, statement: Insert) -> None:
    """Raises `StaticPartitionColumnListedError`."""
    static = {fold(part.column) for part in statement.partition if part.value is not None}
    for name in statement.columns or ():
        if fold(name) in static:
            raise StaticPartitionColumnListedError(table=table.label, column=name)


def _filled(frame: DataFrame, defaults: Sequence[int], table: TableRef) -> DataFrame:
    """The rows with the default values of these columns."""
    names = [frame.columns[index] for index in defaults]
    return frame.withColumns({name: default_keyword_value(table, (name,)) for name in names})


def _columns_besides(table: TableRef, statement: Insert) -> tuple[str, ...]:
    """The table's columns without a value in PARTITION, in order."""
    static = {fold(part.column) for part in statement.partition if part.value is not None}
    return tuple(name for name in table.latest().schema.fieldNames() if fold(name) not in static)


def _named(frame: DataFrame, names: Sequence[str], table: TableRef) -> DataFrame:
    if len(frame.columns) != len(names):
        raise InvalidColumnListError(table=table.label, columns=tuple(names), found=len(frame.columns))
    return frame.toDF(*names)


def _with_partition(context: StatementContext, table: TableRef, frame: DataFrame, statement: Insert) -> DataFrame:
    """The rows with the values of PARTITION."""
    partition_columns = {fold(name) for name in table.latest().partition_columns}
    for part in statement.partition:
        if fold(part.column) not in partition_columns:
            reason = f"{part.column} is not among its partition columns"
            raise InvalidPartitioningError(table=table.label, columns=(part.column,), reason=reason)
        if part.value is not None:
            frame = frame.withColumn(part.column, F.expr(context.expression(part.value)))
    return frame


def _rows_with_default(
    context: StatementContext, table: TableRef, statement: Insert, names: Sequence[str]
) -> tuple[DataFrame, bool]:
    """Rows of VALUES with DEFAULT for some values."""
    assert statement.rows is not None
    for row in statement.rows:
        if len(row) != len(names):
            raise InvalidColumnListError(table=table.label, columns=tuple(names), found=len(row))
    groups: dict[tuple[bool, ...], list[Row]] = {}
    for row in statement.rows:
        groups.setdefault(tuple(value is None for value in row), []).append(row)
    frames = []
    for left_out, rows in groups.items():
        frame = _values(context, rows, names)
        if len(groups) > 1:
            # Other rows have a value, so the frame has the column, and the write does not fill it.
            for name, missing in zip(names, left_out, strict=True):
                if missing:
                    frame = frame.withColumn(name, default_keyword_value(table, (name,)))
        frames.append(frame)
    merged = functools.reduce(lambda one, other: one.unionByName(other), frames)
    return _with_partition(context, table, merged, statement), True


def _values(context: StatementContext, rows: Sequence[Row], names: Sequence[str]) -> DataFrame:
    """Rows that have DEFAULT in the same columns."""
    columns = [name for name, value in zip(names, rows[0], strict=True) if value is not None]
    if not columns:
        return context.session.spark.range(len(rows)).select()
    parameters = Parameters.of(None)
    texts = []
    for row in rows:
        values = [value for value in row if value is not None]
        for value in values:
            own = context.parameters.within(value.source, value.start, value.end)
            parameters = own if parameters.args is None else parameters.followed_by(own)
        texts.append(f"({', '.join(value.text for value in values)})")
    query = f"SELECT * FROM VALUES {', '.join(texts)}"  # noqa: S608 - the user's own words
    return context.select(query, parameters).toDF(*columns)
