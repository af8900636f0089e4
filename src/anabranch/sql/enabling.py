"""`spark.sql` learns Delta tables."""

from __future__ import annotations

import functools
import threading
from typing import Any

from pyspark.sql import SparkSession

from anabranch.spark.delta_session import DeltaSession
from anabranch.spark.session_identity import identity
from anabranch.sql.execution import execute_statement
from anabranch.sql.grammar.statements import opening_of
from anabranch.sql.parameters import Parameters
from anabranch.sql.queries import rewrite_query
from anabranch.sql.refusals import refuse_view

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
            _wrapped.add(session)
        _enabled.add(identity(spark))


def _wrap(session: type[SparkSession]) -> None:
    original = session.sql

    @functools.wraps(original)
    def sql(self: SparkSession, sqlQuery: str, args: Any = None, **kwargs: Any) -> Any:  # noqa: N803 - PySpark's name
        if identity(self) not in _enabled or not isinstance(sqlQuery, str):
            return original(self, sqlQuery, args, **kwargs)
        delta = DeltaSession.of(self)
        own_sql = functools.partial(original, self)
        opening = opening_of(sqlQuery)
        if opening is not None:
            result = execute_statement(delta, own_sql, opening, args, kwargs)
            if result is not None:
                return result
        rewritten = rewrite_query(delta, sqlQuery, has_fields=bool(kwargs), parameters=Parameters.of(args))
        if rewritten is None:
            return own_sql(sqlQuery, args, **kwargs)
        refuse_view(sqlQuery)
        return rewritten.run(own_sql, kwargs)

    session.sql = sql  # type: ignore[method-assign]
