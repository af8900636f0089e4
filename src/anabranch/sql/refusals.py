"""Statements that would go past a Delta table's log, refused by name.

Spark would run some of them on the catalog's entry alone, and others end in errors that say nothing.
"""

from __future__ import annotations

import re

from anabranch.commands.table_access import is_delta_name
from anabranch.errors.arguments import UnsupportedOperationError
from anabranch.spark.delta_session import DeltaSession

_COMMENTS = re.compile(r"(?:\s|--[^\n]*(?:\n|$)|/\*.*?\*/)+", re.DOTALL)
_NAME = r"(?P<name>(?:`(?:[^`]|``)*`|[\w@]+)(?:\s*\.\s*(?:`(?:[^`]|``)*`|[\w@]+))*)"
_WRITE = 'Use df.write.format("delta") or DeltaTable.'

_DELTA_ONLY = {
    r"OPTIMIZE\b": "OPTIMIZE",
    r"VACUUM\b": "VACUUM",
    r"REORG\s+TABLE\b": "REORG TABLE",
    r"RESTORE\b": "RESTORE",
    r"CONVERT\s+TO\s+DELTA\b": "CONVERT TO DELTA",
    r"GENERATE\s+\w+\s+FOR\s+TABLE\b": "GENERATE",
    r"DESC(?:RIBE)?\s+HISTORY\b": "DESCRIBE HISTORY",
    r"DESC(?:RIBE)?\s+DETAIL\b": "DESCRIBE DETAIL",
}
_ON_A_TABLE = {
    rf"INSERT\s+(?:WITH\s+SCHEMA\s+EVOLUTION\s+)?(?:INTO|OVERWRITE)\s+(?:TABLE\s+)?{_NAME}": "INSERT",
    rf"DELETE\s+FROM\s+{_NAME}": "DELETE",
    rf"UPDATE\s+{_NAME}": "UPDATE",
    rf"MERGE\s+(?:WITH\s+SCHEMA\s+EVOLUTION\s+)?INTO\s+{_NAME}": "MERGE",
    rf"TRUNCATE\s+TABLE\s+{_NAME}": "TRUNCATE TABLE",
    rf"ALTER\s+TABLE\s+{_NAME}": "ALTER TABLE",
    rf"COMMENT\s+ON\s+TABLE\s+{_NAME}": "COMMENT ON TABLE",
}
_CREATE = re.compile(
    rf"(?:CREATE\s+(?:OR\s+REPLACE\s+)?|REPLACE\s+)TABLE\s+(?:IF\s+NOT\s+EXISTS\s+)?{_NAME}", re.IGNORECASE
)
_USING = re.compile(r"\bUSING\s+(`?)(\w+)\1", re.IGNORECASE)
_VIEW = re.compile(r"CREATE\s+(?:OR\s+REPLACE\s+)?(?:GLOBAL\s+)?(?:TEMP(?:ORARY)?\s+)?VIEW\b", re.IGNORECASE)
_INSTEAD = {
    "DESCRIBE HISTORY": "Use DeltaTable.forName(spark, name).history().",
    "DESCRIBE DETAIL": "Use DeltaTable.forName(spark, name).detail().",
}


def refuse_unsupported(session: DeltaSession, text: str) -> None:
    """Raises `UnsupportedOperationError` for a statement on a Delta table that this version does not run."""
    statement = _without_leading_comments(text)
    for pattern, name in _DELTA_ONLY.items():
        if re.match(pattern, statement, re.IGNORECASE):
            raise UnsupportedOperationError(operation=f"The SQL statement {name}", instead=_INSTEAD.get(name, ""))
    for pattern, name in _ON_A_TABLE.items():
        match = re.match(pattern, statement, re.IGNORECASE)
        if match and is_delta_name(session, match["name"]):
            operation = f"The SQL statement {name} on the Delta table {match['name']}"
            raise UnsupportedOperationError(operation=operation, instead=_WRITE)
    match = _CREATE.match(statement)
    if match and _makes_delta(session, statement, match):
        operation = f"The SQL statement CREATE TABLE for the Delta table {match['name']}"
        instead = "Use DeltaTable.create(spark), or saveAsTable."
        raise UnsupportedOperationError(operation=operation, instead=instead)


def refuse_view(text: str) -> None:
    """Raises `UnsupportedOperationError` for a view, which would outlive the version it was made of."""
    if _VIEW.match(_without_leading_comments(text)):
        raise UnsupportedOperationError(
            operation="CREATE VIEW over a Delta table", instead="Use spark.sql(query).createOrReplaceTempView(name)."
        )


def _makes_delta(session: DeltaSession, statement: str, match: re.Match[str]) -> bool:
    using = _USING.search(statement, match.end())
    if using:
        return using[2].lower() == "delta"
    by_default = (session.setting("spark.sql.sources.default", "parquet") or "").lower() == "delta"
    return by_default or is_delta_name(session, match["name"])


def _without_leading_comments(text: str) -> str:
    match = _COMMENTS.match(text)
    return text[match.end() :] if match else text
