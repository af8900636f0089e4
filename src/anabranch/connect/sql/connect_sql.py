"""`spark.sql` learns Delta tables, and `spark.table` the views over them."""

from __future__ import annotations

import functools
import re
import threading
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from anabranch.connect.sql.execution.connect_statements import execute_statement
from anabranch.connect.sql.grammar.connect_statement_grammar import header_of
from anabranch.connect.sql.query_rewriting import RewritingContext, rewrite_query
from anabranch.connect.sql.refused_statements import refuse_what_spark_would_do
from anabranch.connect.sql.scripts import execute_immediate, is_script, refuse_in_script
from anabranch.connect.sql.table_reads import Reader
from anabranch.errors.tables import InvalidIdentifierError
from anabranch.spark.session.delta_session import DeltaSession
from anabranch.spark.session.session_settings import identity, is_session
from anabranch.spark.session.table_identifiers import parse_identifier
from anabranch.sql.grammar.cursor import Cursor
from anabranch.sql.literals import as_quoted_names
from anabranch.sql.parameters import Parameters
from anabranch.sql.statement_context import OwnSql

_RARE = re.compile(r"\b(BEGIN|IMMEDIATE|FUNCTION|DIRECTORY|STREAM|CHANGES)\b", re.IGNORECASE)
"""Texts without these words are queries, or statements of Spark's own, and looked at no closer."""
_enabled: set[str] = set()
"""Identities of sessions."""
_wrapped: set[type] = set()
_lock = threading.Lock()


def enable_sql(spark: SparkSession) -> None:
    """Let `spark.sql` work on Delta tables. Calling it again changes nothing."""
    with _lock:
        session = type(spark)
        if session not in _wrapped:
            _wrap(session)
            _wrap_table(session)
            _wrap_table(type(spark.read))
            _wrapped.add(session)
        _enabled.add(identity(spark))


def disable_sql(spark: SparkSession) -> None:
    """From now on the session's texts go to Spark as they are."""
    with _lock:
        _enabled.discard(identity(spark))


def _wrap(session: type[SparkSession]) -> None:
    original = session.sql

    @functools.wraps(original)
    def sql(self: SparkSession, sqlQuery: str, args: Any = None, **kwargs: Any) -> Any:
        if identity(self) not in _enabled or not isinstance(sqlQuery, str):
            return original(self, sqlQuery, args, **kwargs)
        found = _run(DeltaSession.of(self), functools.partial(original, self), sqlQuery, args, kwargs)
        return original(self, sqlQuery, args, **kwargs) if found is None else found

    session.sql = sql  # type: ignore[method-assign]


def _run(session: DeltaSession, own_sql: OwnSql, written: str, args: Any, fields: dict[str, Any]) -> DataFrame | None:
    """The result of what is about a Delta table; None for everything else, of which nothing was done."""
    text = as_quoted_names(session, written)
    opening = header_of(text)
    if opening is not None:
        result = execute_statement(session, own_sql, opening, args, fields)
        if result is not None:
            return result
    if _RARE.search(text):
        cursor = Cursor(text)
        with RewritingContext(session, own_sql, args) as context:
            if is_script(cursor):
                refuse_in_script(context, cursor)
            elif cursor.sees("EXECUTE", "IMMEDIATE"):
                return execute_immediate(context, text, session.spark.sql)
            refuse_what_spark_would_do(context, cursor)
    rewritten = rewrite_query(session, text, has_fields=bool(fields), parameters=Parameters.of(args))
    return None if rewritten is None else rewritten.run(own_sql, fields)


def _wrap_table(owner: Any) -> None:
    """`spark.table` and `spark.read.table`."""
    original = owner.table

    @functools.wraps(original)
    def table(self: Any, tableName: str) -> Any:
        spark = self if is_session(self) else next(filter(is_session, vars(self).values()), None)
        if spark is not None and identity(spark) in _enabled:
            rows = _rows_of_view(DeltaSession.of(spark), tableName)
            if rows is not None:
                return rows
        return original(self, tableName)

    owner.table = table


def _rows_of_view(session: DeltaSession, name: str) -> DataFrame | None:
    """What a view over Delta tables gives now; None for everything else."""
    try:
        identifier = parse_identifier(name)
    except InvalidIdentifierError:
        return None
    return Reader(session).rows_of_name(identifier)
