"""EXPLAIN of a statement that changes a Delta table: the files and plans that it would read. Nothing is changed."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.types import StringType, StructField, StructType

from anabranch.commands.dml.target_table import resolve_row_condition
from anabranch.commands.table_access import TableRef, table_at
from anabranch.data_skipping.file_skipping import can_be_true
from anabranch.schema.paths import quote
from anabranch.spark.session.table_identifiers import PathIdentifier
from anabranch.sql.grammar.cursor import Fragment, TableName
from anabranch.sql.grammar.definition_grammar import CreateTable
from anabranch.sql.grammar.insert_grammar import Insert
from anabranch.sql.grammar.maintenance_grammar import Optimize, Reorganize
from anabranch.sql.grammar.statement_grammar import StatementHeader
from anabranch.sql.statement_context import StatementContext

SCHEMA = StructType([StructField("plan", StringType())])
_TITLE = "== Delta =="
Pieces = tuple[Fragment | str, ...]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The rows of its table that a statement selects."""

    condition: Fragment | None
    """None for all of them."""
    alias: str | None = None
    """The name of the table in the condition."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """The parts of an explanation of one statement."""

    queries: tuple[Pieces, ...] = ()
    """The queries whose plans are shown."""
    chooses: Choice | None = None
    """The existing rows of the statement: the number of files that may hold them is shown."""


Explanations = Mapping[type, Callable[[StatementContext, Any], Explanation]]
"""Functions by the class of the statement; other statements have no plan."""


def explain(
    context: StatementContext, header: StatementHeader, statement: object, explained: Explanations
) -> DataFrame:
    """One row with one text, as Spark's EXPLAIN returns."""
    before = () if header.named_queries is None else (header.named_queries,)
    assert header.explained is not None
    explain_one = explained.get(type(statement))
    explanation = Explanation() if explain_one is None else explain_one(context, statement)
    lines = [_TITLE, *_about(context, header, explanation.chooses)]
    for query in explanation.queries:
        row = context.query(header.explained, *before, *query).first()
        lines += ["", "" if row is None else str(row[0]).rstrip("\n")]
    return context.session.spark.createDataFrame([("\n".join(lines) + "\n",)], SCHEMA)


def _about(context: StatementContext, header: StatementHeader, chooses: Choice | None) -> Iterator[str]:
    """The kind of the statement, its table and version, and the number of its files."""
    table = header.table
    if not context.is_delta(table):
        yield f"{header.family.name} {'.'.join(table.parts)}"
        return
    identifier = context.identifier(table)
    table_ref = (
        table_at(context.session, identifier.path) if isinstance(identifier, PathIdentifier) else context.table(table)
    )
    snapshot = table_ref.delta_log.snapshots.latest_or_none()
    if snapshot is None:
        yield f"{header.family.name} {table_ref.label}: the table does not exist yet"
        return
    yield f"{header.family.name} {table_ref.label} at version {snapshot.version}"
    if chooses is not None:
        yield _files(context, table_ref, chooses)


def _files(context: StatementContext, table: TableRef, choice: Choice) -> str:
    snapshot = table.latest()
    sizes = snapshot.files.table.column("size").to_numpy()
    chosen = sizes
    if choice.condition is not None:
        resolved = resolve_row_condition(table, snapshot, context.expression(choice.condition), alias=choice.alias)
        chosen = sizes[can_be_true(resolved.predicate, snapshot.skipping_columns)]
    return f"Files that may hold its rows: {len(chosen)} of {len(sizes)}, {chosen.sum()} of {sizes.sum()} bytes"


def _of_files(context: StatementContext, statement: Optimize | Reorganize) -> Explanation:
    query = rows_where(named(context, statement.table, None), statement.condition)
    return Explanation(queries=(query,), chooses=Choice(condition=statement.condition))


def rows_where(table: str, condition: Fragment | None) -> Pieces:
    """A query for the rows of a table."""
    return ("SELECT * FROM", table) if condition is None else ("SELECT * FROM", table, "WHERE", condition)


def named(context: StatementContext, name: TableName, alias: str | None) -> str:
    """The table in the form that FROM takes."""
    identifier = context.identifier(name)
    written = f"delta.{quote(identifier.path)}" if isinstance(identifier, PathIdentifier) else identifier.quoted
    return written if alias is None else f"{written} AS {quote(alias)}"


def _of_insert(_: StatementContext, statement: Insert) -> Explanation:
    # Spark cannot explain VALUES with DEFAULT.
    return Explanation(queries=((statement.query,),) if statement.rows is None else ())


def of_query(_: StatementContext, statement: Any) -> Explanation:
    """The explanation of a statement by its query, if it has one."""
    return Explanation(queries=() if statement.query is None else ((statement.query,),))


EXPLAINED: Explanations = {
    Optimize: _of_files,
    Reorganize: _of_files,
    Insert: _of_insert,
    CreateTable: of_query,
}
