"""Statements over Delta tables that Spark would run, and that would do something else than they say."""

from __future__ import annotations

from anabranch.errors.arguments import UnsupportedOperationError
from anabranch.sql.grammar.cursor import Cursor


def refuse_view(text: str) -> None:
    """Raises `UnsupportedOperationError` for a view, which would outlive the version it was made of."""
    cursor = Cursor(text)
    if not cursor.takes("CREATE"):
        return
    cursor.takes("OR", "REPLACE")
    cursor.takes("GLOBAL")
    cursor.takes("TEMP|TEMPORARY")
    if cursor.sees("VIEW"):
        raise UnsupportedOperationError(
            operation="CREATE VIEW over a Delta table", instead="Use spark.sql(query).createOrReplaceTempView(name)."
        )
