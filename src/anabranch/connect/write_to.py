"""`df.writeTo(name)` on Delta tables: its calls as the commands that `df.write` and SQL have."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from pyspark.sql import Column, DataFrame

from anabranch.commands.definition.create_table import CreationMode
from anabranch.commands.definition.create_table_as import create_table_as
from anabranch.commands.definition.table_definition import TableDefinition
from anabranch.commands.table_access import TableRef, is_delta_name, table_at, table_named, table_to_create
from anabranch.commands.write.write_options import ON, USING, SaveMode, WriteOptions
from anabranch.commands.write.write_rows import register_if_changed, write_frame
from anabranch.connect.builder_state import frame_of, means_delta, noted, session_of
from anabranch.errors.arguments import InvalidOptionError, UnsupportedOperationError
from anabranch.errors.dml import (
    FilterOverwriteError,
    IncompatibleOptionsError,
    PartitionOverwriteError,
    TableReplacementError,
)
from anabranch.schema.enforcement import WriteApi
from anabranch.spark.conditions.user_condition import text_of
from anabranch.spark.session.delta_session import DeltaSession
from anabranch.spark.session.table_identifiers import PathIdentifier, parse_identifier

Original = Callable[..., Any]


def create(original: Original, writer: Any) -> Any:
    """A new table with these rows; the table must not exist."""
    return _create(original, writer, CreationMode.CREATE)


def replace(original: Original, writer: Any) -> Any:
    """The table, which must exist, with another definition and these rows in the place of its own."""
    return _create(original, writer, CreationMode.REPLACE)


def create_or_replace(original: Original, writer: Any) -> Any:
    """The table with these rows and their columns, whether it exists or not."""
    return _create(original, writer, CreationMode.CREATE_OR_REPLACE)


def append(original: Original, writer: Any) -> Any:
    """The rows join those of the table."""
    return _write(original, writer, lambda options: options)


def overwrite(original: Original, writer: Any, condition: Column | str) -> Any:
    """The rows come in the place of those that satisfy the condition, and must satisfy it themselves."""

    def how(options: WriteOptions) -> WriteOptions:
        _check_chooses(writer, "overwrite(…)", FilterOverwriteError)
        return dataclasses.replace(options, mode=SaveMode.OVERWRITE, replace_where=condition)

    return _write(original, writer, how, condition)


def overwrite_partitions(original: Original, writer: Any) -> Any:
    """The rows come in the place of all rows of the partitions that they are in."""

    def how(options: WriteOptions) -> WriteOptions:
        _check_chooses(writer, "overwritePartitions()", PartitionOverwriteError)
        return dataclasses.replace(options, mode=SaveMode.OVERWRITE, dynamic_partition_overwrite=True)

    return _write(original, writer, how)


def _write(original: Original, writer: Any, how: Callable[[WriteOptions], WriteOptions], *arguments: Any) -> Any:
    session = DeltaSession.of(session_of(writer))
    name = _name(writer)
    if not is_delta_name(session, name):
        return original(writer, *arguments)
    handle = table_named(session, name)
    committed = write_frame(handle, frame_of(writer), how(_options(writer, session)), WriteApi.WRITE_TO)
    register_if_changed(handle, committed)
    return None


def _create(original: Original, writer: Any, mode: CreationMode) -> Any:
    session = DeltaSession.of(session_of(writer))
    told = noted(writer)
    known = told.format is None and is_delta_name(session, _name(writer))
    if not (known or means_delta(writer, None)):
        return original(writer)
    _check_chooses(writer, mode.value, TableReplacementError)
    frame = frame_of(writer)
    options = _options(writer, session)
    definition = TableDefinition(
        schema=frame.schema,
        partition_columns=tuple(_column_name(column, frame) for column in told.partition_by),
        clustering_columns=told.cluster_by,
        properties={**options.table_properties, **told.properties},
    )
    create_table_as(_to_create(session, _name(writer), options, mode), definition, lambda: frame, mode)
    return None


def _to_create(session: DeltaSession, name: str, options: WriteOptions, mode: CreationMode) -> TableRef:
    identifier = parse_identifier(name)
    if isinstance(identifier, PathIdentifier):
        return table_at(session, identifier.path, options.file_system)
    return table_to_create(session, identifier, location=options.path, replaces=mode.replaces)


def _name(writer: Any) -> str:
    name = noted(writer).table
    assert name is not None, "writeTo takes a name"
    return name


def _check_chooses(writer: Any, call: str, error: type[IncompatibleOptionsError]) -> None:
    """The call says which rows go; options that say so, too, are refused."""
    for option in noted(writer).options:
        for known in (ON, USING):
            if option.lower() == known.lower():
                raise error(option=known, other=call)


def _options(writer: Any, session: DeltaSession) -> WriteOptions:
    """What the writer was told; where rows go is said by the call that acts, and by no option."""
    told = noted(writer).options
    for option in told:
        if option.lower() == "replacewhere":
            problem = "with writeTo, the condition is the argument of overwrite(…)"
            raise InvalidOptionError(option=option, value=told[option], problem=problem)
    options = WriteOptions.parse(told, mode="append", partition_by=(), cluster_by=(), settings=session)
    return dataclasses.replace(options, dynamic_partition_overwrite=False)


def _column_name(column: Column | str, frame: DataFrame) -> str:
    """The column that is meant. Raises `UnsupportedOperationError` for transforms, which Delta does not have."""
    text = text_of(column)
    names = {name.lower(): name for name in frame.columns}
    if isinstance(column, str) or text.lower() in names:
        return names.get(text.lower(), text)
    raise UnsupportedOperationError(
        operation=f"Partitioning a Delta table by an expression ({text})",
        instead="Add a generated column, and partition by that.",
    )
