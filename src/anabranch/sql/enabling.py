"""`spark.sql` learns Delta tables."""

from __future__ import annotations

import functools
import threading
from typing import Any

from pyspark.sql import SparkSession

from anabranch.spark.delta_session import DeltaSession
from anabranch.spark.session_identity import identity
from anabranch.sql.queries import rewrite_query, run_query
from anabranch.sql.refusals import refuse_unsupported, refuse_view

_enabled: set[str] = set()
"""Identities of sessions."""
_wrapped: set[type] = set()
_lock = threading.Lock()


def enable_sql(spark: SparkSession) -> None:
    """Let `spark.sql` read Delta tables. Calling it again changes nothing."""
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
        refuse_unsupported(delta, sqlQuery)
        rewritten = rewrite_query(delta, sqlQuery, has_fields=bool(kwargs))
        if rewritten is None:
            return original(self, sqlQuery, args, **kwargs)
        refuse_view(sqlQuery)
        return run_query(original, self, rewritten, args, kwargs)

    session.sql = sql  # type: ignore[method-assign]
