"""Execution of CREATE TABLE and REPLACE TABLE."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.types import StructField, StructType

from anabranch.commands.clone.clone_definition import clone_source
from anabranch.commands.clone.clone_table import check_target_path, clone_frame, shallow_clone
from anabranch.commands.create.create_table import CreationMode, create_table, definition_like
from anabranch.commands.create.create_table_as import create_table_as
from anabranch.commands.definition.table_definition import TableDefinition
from anabranch.commands.read.read_table import parse_version
from anabranch.commands.table_access import TableRef, TimeTravel, table_at, table_to_create
from anabranch.errors.arguments import InvalidArgumentError, UnsupportedOperationError
from anabranch.errors.tables import CloneTargetError, DeepCloneError
from anabranch.schema.computed_columns import default_column, generated_column, identity_column
from anabranch.schema.paths import quoted
from anabranch.spark.session.table_identifiers import PathIdentifier
from anabranch.sql.grammar.clauses import Check, ColumnDefinition, Properties
from anabranch.sql.grammar.cursor import Fragment, TableName
from anabranch.sql.grammar.definition_grammar import CloneTable, CreateTable, CreateTableLike, TableClauses
from anabranch.sql.grammar.statement_grammar import StatementHeader
from anabranch.sql.literals import types_of
from anabranch.sql.statement_context import StatementContext

_OPTION_PATH = "path"
_TIME_TRAVEL = re.compile(r"(?:FOR\s+)?(?:SYSTEM_)?(VERSION|TIMESTAMP|TIME)\s+AS\s+OF\s*", re.IGNORECASE)


def makes_delta_table(context: StatementContext, header: StatementHeader) -> bool:
    """Whether a CREATE or REPLACE makes a Delta table."""
    if header.is_clone:
        return True
    if header.provider is not None:
        return header.provider == "delta"
    if header.source is not None:
        return context.is_delta(header.source)
    by_default = context.session.setting("spark.sql.sources.default", "parquet") or ""
    return by_default.lower() == "delta" or context.is_delta(header.table)


def create(context: StatementContext, statement: CreateTable) -> DataFrame:
    """`CREATE [OR REPLACE] TABLE`, `REPLACE TABLE`, with or without AS SELECT."""
    for unsupported in (statement.unsupported, statement.clauses.unsupported):
        if unsupported is not None:
            raise UnsupportedOperationError(operation=f"{unsupported} of a Delta table in CREATE TABLE")
    location, properties = _location_and_properties(statement.clauses)
    table = _table(context, statement.table, location, replaces=statement.replaces)
    definition = _definition(statement, properties)
    mode = _mode(statement)
    query = statement.query
    if query is None:
        create_table(table, definition, mode)
        return context.nothing()
    if definition.schema.fields:
        problem = "CREATE TABLE … AS takes its columns from the query; leave their definitions out"
        raise InvalidArgumentError(argument="columns", value=definition.schema.simpleString(), problem=problem)
    create_table_as(table, definition, lambda: context.query(query), mode)
    return context.nothing()


def create_like(context: StatementContext, statement: CreateTableLike) -> DataFrame:
    """`CREATE TABLE … LIKE …`."""
    if statement.clauses.unsupported is not None:
        raise UnsupportedOperationError(operation=f"{statement.clauses.unsupported} in CREATE TABLE LIKE")
    location, properties = _location_and_properties(statement.clauses)
    definition = definition_like(context.session, context.identifier(statement.source), dict(properties))
    mode = CreationMode.CREATE_IF_NOT_EXISTS if statement.if_not_exists else CreationMode.CREATE
    create_table(_table(context, statement.table, location), definition, mode)
    return context.nothing()


def clone(context: StatementContext, statement: CloneTable) -> DataFrame:
    """`CREATE [OR REPLACE] TABLE … SHALLOW CLONE`."""
    target = context.identifier(statement.table)
    if not statement.is_shallow:
        raise DeepCloneError(target=str(target))
    clauses = statement.clauses
    if clauses != TableClauses(location=clauses.location, properties=clauses.properties):
        problem = (
            "only TBLPROPERTIES and LOCATION can follow; partitioning, clustering and comment are those of the source"
        )
        raise CloneTargetError(target=str(target), problem=problem)
    if clauses.location is not None:
        check_target_path(clauses.location)
    source = clone_source(
        context.session, context.identifier(statement.source), _travel(context, statement.time_travel)
    )
    table = _table(context, statement.table, clauses.location, replaces=statement.replaces)
    return clone_frame(context.session, shallow_clone(table, source, _mode(statement), dict(clauses.properties)))


def _travel(context: StatementContext, piece: Fragment | None) -> TimeTravel:
    """The version or timestamp of `VERSION AS OF …` or `TIMESTAMP AS OF …`."""
    if piece is None:
        return TimeTravel()
    match = _TIME_TRAVEL.match(piece.text)
    assert match is not None, "the grammar has checked it"
    value = Fragment(source=piece.source, start=piece.start + match.end(), end=piece.end)
    if match[1].upper() == "TIME" or match[1].upper() == "TIMESTAMP":
        return TimeTravel(timestamp=context.timestamp(value))
    return TimeTravel(version=parse_version(str(context.constant(value))))


def _mode(statement: CreateTable | CloneTable) -> CreationMode:
    if statement.replaces:
        return CreationMode.CREATE_OR_REPLACE if statement.creates else CreationMode.REPLACE
    return CreationMode.CREATE_IF_NOT_EXISTS if statement.if_not_exists else CreationMode.CREATE


def _table(context: StatementContext, table: TableName, location: str | None, *, replaces: bool = False) -> TableRef:
    identifier = context.identifier(table)
    if not isinstance(identifier, PathIdentifier):
        return table_to_create(context.session, identifier, location=location, replaces=replaces)
    if location is not None and context.session.qualified_path(location) != context.session.qualified_path(
        identifier.path
    ):
        problem = f"the table is named by the path {identifier.path}"
        raise InvalidArgumentError(argument="LOCATION", value=location, problem=problem)
    return table_at(context.session, identifier.path)


def _location_and_properties(clauses: TableClauses) -> tuple[str | None, Properties]:
    """The location and the properties, some of which may be in OPTIONS. Other options raise an error."""
    location = clauses.location
    properties = list(clauses.properties)
    for name, value in clauses.options:
        if name.lower() == _OPTION_PATH and location in {None, value}:
            location = value
        elif name.lower().startswith("delta."):
            properties.append((name, value))
        else:
            problem = "OPTIONS accepts path and keys that begin with delta.; other properties belong in TBLPROPERTIES"
            raise InvalidArgumentError(argument=f"OPTIONS {name}", value=value, problem=problem)
    return location, tuple(properties)


def _definition(statement: CreateTable, properties: Properties) -> TableDefinition:
    clauses = statement.clauses
    columns = [*statement.columns]
    partition_columns: list[str] = []
    for column in clauses.partition_columns:
        if isinstance(column, ColumnDefinition):
            columns.append(column)
            partition_columns.append(column.path[-1])
        else:
            partition_columns.append(column)
    return TableDefinition(
        schema=_schema(columns),
        partition_columns=tuple(partition_columns),
        clustering_columns=tuple(quoted(path) for path in clauses.clustering_columns),
        properties=dict(properties),
        description=clauses.comment,
        constraints=_constraints(statement.checks),
    )


def _schema(columns: Sequence[ColumnDefinition]) -> StructType:
    types = types_of([column.type for column in columns])
    return StructType([_field(column, kind) for column, kind in zip(columns, types, strict=True)])


def _field(column: ColumnDefinition, kind: Any) -> StructField:
    if len(column.path) > 1:
        problem = "the name of a new column has one part; put a name with dots in backticks"
        raise InvalidArgumentError(argument="column", value=".".join(column.path), problem=problem)
    metadata = {} if column.comment is None else {"comment": column.comment}
    field = StructField(column.path[0], kind, column.nullable, metadata)
    if column.default is not None:
        field = default_column(field, column.default.text)
    if column.generated is not None:
        field = generated_column(field, column.generated.text)
    if column.identity is not None:
        of = column.identity
        if of.step == 0:
            raise InvalidArgumentError(argument="INCREMENT BY", value="0", problem="it must not be zero")
        field = identity_column(field, start=of.start, step=of.step, allow_explicit=of.allow_explicit)
    return field


def _constraints(checks: Sequence[Check]) -> Mapping[str, str]:
    """Conditions by name. One without a name is named by its number."""
    conditions: dict[str, str] = {}
    for number, check in enumerate(checks, start=1):
        name = f"check_{number}" if check.name is None else check.name
        if name in conditions:
            problem = "there are two constraints of that name"
            raise InvalidArgumentError(argument="CONSTRAINT", value=name, problem=problem)
        conditions[name] = check.condition.text
    return conditions


TABLES: Mapping[type, Callable[[StatementContext, Any], DataFrame]] = {
    CreateTable: create,
    CreateTableLike: create_like,
    CloneTable: clone,
}
