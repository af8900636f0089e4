"""SQL that a definition keeps, and that must mean the same to every session that reads it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from anabranch.spark.delta_session import DeltaSession
from anabranch.sql.session_grammar import as_quoted_names

_KEPT = frozenset({"default", "generated", "check"})


def with_sql_to_keep(session: DeltaSession, facts: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Facts of columns, constraints or changes, their SQL with names in backticks whatever quotes the session takes."""
    return [
        {key: as_quoted_names(session, value) if key in _KEPT and value else value for key, value in each.items()}
        for each in facts
    ]
