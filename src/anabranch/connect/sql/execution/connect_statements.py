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
from anabranch.connect.sql.query_rewriting import RewritingCall, filled
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
from anabranch.sql.statement_context import Call, OwnSql
from anabranch.sql.statement_explanations import explain

_ABOUT_WHAT_THEY_NAME = frozenset({"CACHE TABLE", "UNCACHE TABLE", "REFRESH TABLE"})
_BEHIND_WITH = frozenset({"INSERT", "DELETE", "UPDATE", "MERGE"})


def execute_statement(
    session: DeltaSession, own_sql: OwnSql, opening: StatementHeader, args: Any, fields: Mapping[str, Any]
) -> DataFrame | None:
    """Run a statement on a Delta table; None where it is not about one, and nothing was done.

    Raises `SqlSyntaxError`, `UnsupportedOperationError`, and whatever the command raises.
    """
    with RewritingCall(session, own_sql, args) as call:
        if fields:
            found = header_of(filled(session.spark, opening.text, fields, call.view_of))
            if found is None:
                return None
            opening = found
        if not is_about_delta(call, opening):
            return None
        if opening.named_queries is not None and opening.family.name not in _BEHIND_WITH:
            operation = f"The SQL statement {opening.family.name} behind WITH"
            raise UnsupportedOperationError(operation=operation, instead="Put the query into the statement.")
        return _run(call, opening, opening.parse())


def is_about_delta(call: Call, opening: StatementHeader) -> bool:
    """Whether what the statement works on, or what it reads, is Delta's."""
    if opening.family.reads:
        return opening.provider == "delta" or _reads_delta(call, opening)
    if opening.family.delta_only:
        return True
    if opening.targets:
        return any(call.is_delta(table) for table in opening.targets)
    return makes_delta_table(call, opening) if opening.family.makes_table else call.is_delta(opening.table)


def _run(call: Call, opening: StatementHeader, statement: object) -> DataFrame:
    before = () if opening.named_queries is None else (opening.named_queries,)
    if opening.explained is not None:
        return explain(call, opening, statement, EXPLAINED)
    if isinstance(statement, Insert):
        return insert(call, statement, *before)
    if isinstance(statement, Inserts):
        return insert_many(call, statement, *before)
    if opening.named_queries is not None:
        call.name_queries(opening.named_queries)
    return _EXECUTIONS[type(statement)](call, statement)


def _reads_delta(call: Call, opening: StatementHeader) -> bool:
    reader = Reader(call.session)
    if reader.touches_delta(opening.text, call.parameters):
        return True
    return opening.family.name in _ABOUT_WHAT_THEY_NAME and _is_read(call, reader, opening.table)


def _is_read(call: Call, reader: Reader, name: TableName) -> bool:
    try:
        return reader.is_delta(call.identifier(name))
    except InvalidIdentifierError:
        return False


def _refuse(_: Call, statement: Unsupported) -> NoReturn:
    raise UnsupportedOperationError(operation=f"{statement.name} of a Delta table", instead=statement.instead)


_EXECUTIONS: Mapping[type, Callable[[Call, Any], DataFrame]] = {
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
