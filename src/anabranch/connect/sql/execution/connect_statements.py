"""From statements to commands."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from pyspark.sql import DataFrame

from anabranch.connect.sql.execution.connect_alterations import ALL_ALTERATIONS
from anabranch.connect.sql.execution.connect_descriptions import NAMES, SPARKS_DESCRIPTIONS
from anabranch.connect.sql.execution.connect_rows import EXPLAINED, ROW_CHANGES, insert_many
from anabranch.connect.sql.execution.connect_views import CACHING, VIEWS
from anabranch.connect.sql.grammar.connect_statement_grammar import Unsupported, header_of
from anabranch.connect.sql.grammar.script_grammar import Inserts
from anabranch.connect.sql.query_rewriting import RewritingContext, filled
from anabranch.connect.sql.table_reads import Reader
from anabranch.errors.arguments import UnsupportedOperationError
from anabranch.errors.tables import InvalidIdentifierError
from anabranch.spark.session.delta_session import DeltaSession
from anabranch.sql.execute.execute_alterations import DESCRIPTIONS
from anabranch.sql.execute.execute_inserts import insert
from anabranch.sql.execute.execute_maintenance import MAINTENANCE
from anabranch.sql.execute.execute_tables import TABLES, makes_delta_table
from anabranch.sql.grammar.cursor import TableName
from anabranch.sql.grammar.insert_grammar import Insert
from anabranch.sql.grammar.statement_grammar import StatementHeader
from anabranch.sql.statement_context import OwnSql, StatementContext
from anabranch.sql.statement_explanations import explain

_ABOUT_WHAT_THEY_NAME = frozenset({"CACHE TABLE", "UNCACHE TABLE", "REFRESH TABLE"})
_BEHIND_WITH = frozenset({"INSERT", "DELETE", "UPDATE", "MERGE"})


def execute_statement(
    session: DeltaSession, own_sql: OwnSql, opening: StatementHeader, args: Any, fields: Mapping[str, Any]
) -> DataFrame | None:
    """Run a statement on a Delta table; None where it is not about one, and nothing was done.

    Raises `SqlSyntaxError`, `UnsupportedOperationError`, and whatever the command raises.
    """
    with RewritingContext(session, own_sql, args) as context:
        if fields:
            found = header_of(filled(session.spark, opening.text, fields, context.view_of))
            if found is None:
                return None
            opening = found
        if not is_about_delta(context, opening):
            return None
        if opening.named_queries is not None and opening.family.name not in _BEHIND_WITH:
            operation = f"The SQL statement {opening.family.name} behind WITH"
            raise UnsupportedOperationError(operation=operation, instead="Put the query into the statement.")
        return _run(context, opening, opening.parse())


def is_about_delta(context: StatementContext, opening: StatementHeader) -> bool:
    """Whether what the statement works on, or what it reads, is Delta's."""
    if opening.family.reads:
        return opening.provider == "delta" or _reads_delta(context, opening)
    if opening.family.delta_only:
        return True
    if opening.targets:
        return any(context.is_delta(table) for table in opening.targets)
    return makes_delta_table(context, opening) if opening.family.makes_table else context.is_delta(opening.table)


def _run(context: StatementContext, opening: StatementHeader, statement: object) -> DataFrame:
    before = () if opening.named_queries is None else (opening.named_queries,)
    if opening.explained is not None:
        return explain(context, opening, statement, EXPLAINED)
    if isinstance(statement, Insert):
        return insert(context, statement, *before)
    if isinstance(statement, Inserts):
        return insert_many(context, statement, *before)
    if opening.named_queries is not None:
        context.name_queries(opening.named_queries)
    return _EXECUTIONS[type(statement)](context, statement)


def _reads_delta(context: StatementContext, opening: StatementHeader) -> bool:
    reader = Reader(context.session)
    if reader.touches_delta(opening.text, context.parameters):
        return True
    return opening.family.name in _ABOUT_WHAT_THEY_NAME and _is_read(context, reader, opening.table)


def _is_read(context: StatementContext, reader: Reader, name: TableName) -> bool:
    try:
        return reader.is_delta(context.identifier(name))
    except InvalidIdentifierError:
        return False


def _refuse(_: StatementContext, statement: Unsupported) -> NoReturn:
    raise UnsupportedOperationError(operation=f"{statement.name} of a Delta table", instead=statement.instead)


_EXECUTIONS: Mapping[type, Callable[[StatementContext, Any], DataFrame]] = {
    **TABLES,
    **ROW_CHANGES,
    **NAMES,
    **ALL_ALTERATIONS,
    **MAINTENANCE,
    **DESCRIPTIONS,
    **SPARKS_DESCRIPTIONS,
    **VIEWS,
    **CACHING,
    Unsupported: _refuse,
}
