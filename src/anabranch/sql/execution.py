"""From statements to commands."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql import DataFrame

from anabranch.commands.table_access import is_delta_identifier
from anabranch.errors.arguments import UnsupportedOperationError
from anabranch.errors.tables import InvalidIdentifierError
from anabranch.spark.delta_session import DeltaSession
from anabranch.sql.call import Call
from anabranch.sql.execution_of_alterations import ALTERATIONS
from anabranch.sql.execution_of_descriptions import DESCRIPTIONS
from anabranch.sql.execution_of_inserts import insert
from anabranch.sql.execution_of_maintenance import MAINTENANCE
from anabranch.sql.execution_of_rows import ROW_CHANGES
from anabranch.sql.execution_of_tables import TABLES
from anabranch.sql.fields import filled
from anabranch.sql.grammar.cursor import TableName
from anabranch.sql.grammar.inserts import Insert
from anabranch.sql.grammar.statements import Opening, opening_of
from anabranch.sql.queries import OwnSql

_EXECUTIONS: Mapping[type, Callable[[Call, Any], DataFrame]] = {
    **TABLES,
    **ROW_CHANGES,
    **ALTERATIONS,
    **MAINTENANCE,
    **DESCRIPTIONS,
}


def execute_statement(
    session: DeltaSession, own_sql: OwnSql, opening: Opening, args: Any, fields: Mapping[str, Any]
) -> DataFrame | None:
    """Run a statement on a Delta table; None where it is not about one, and nothing was done.

    Raises `SqlSyntaxError`, `UnsupportedOperationError`, and whatever the command raises.
    """
    with Call(session, own_sql, args) as call:
        if fields:
            found = opening_of(filled(session.spark, opening.text, fields, call.view_of))
            if found is None:
                return None
            opening = found
        if not _is_about_delta(call, opening):
            return None
        _refuse_surroundings(opening)
        statement = opening.parse()
        if isinstance(statement, Insert):
            return insert(call, statement, opening.named_queries)
        return _EXECUTIONS[type(statement)](call, statement)


def _is_about_delta(call: Call, opening: Opening) -> bool:
    if opening.family.delta_only or opening.is_clone:
        return True
    if not opening.family.makes_table:
        return _is_delta(call, opening.table)
    if opening.provider is not None:
        return opening.provider == "delta"
    if opening.source is not None:
        return _is_delta(call, opening.source)
    by_default = call.session.setting("spark.sql.sources.default", "parquet") or ""
    return by_default.lower() == "delta" or _is_delta(call, opening.table)


def _is_delta(call: Call, name: TableName) -> bool:
    try:
        return is_delta_identifier(call.session, call.identifier(name))
    except InvalidIdentifierError:
        return False


def _refuse_surroundings(opening: Opening) -> None:
    """What Spark allows around some statements, and we have not."""
    name = f"The SQL statement {opening.family.name}"
    if opening.is_explained:
        raise UnsupportedOperationError(operation=f"EXPLAIN of the SQL statement {opening.family.name}")
    if opening.is_one_of_many:
        instead = "Write one INSERT after the other."
        raise UnsupportedOperationError(operation=f"{name} behind a FROM of its own", instead=instead)
    if opening.named_queries is not None and opening.family.name != "INSERT":
        instead = "Put the query into the statement, or make it a temporary view."
        raise UnsupportedOperationError(operation=f"{name} behind WITH", instead=instead)
