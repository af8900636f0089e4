"""`spark.sql` over Delta tables: each table a query reads becomes a DataFrame of one fixed version."""

from __future__ import annotations

import dataclasses
from typing import Any

from pyspark.sql import DataFrame

from anabranch.commands.read import (
    NEWEST,
    TimeTravel,
    parse_version,
    read_identified,
    strip_name_suffix,
    to_milliseconds,
)
from anabranch.commands.table_access import is_delta_identifier
from anabranch.errors.tables import InvalidIdentifierError
from anabranch.spark.delta_session import DeltaSession
from anabranch.spark.table_identifiers import PathIdentifier, TableIdentifier, identifier_of, quote
from anabranch.sql.references import TableReference, table_references

_PLACEHOLDER = "__anabranch_{}"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RewrittenQuery:
    """A statement whose Delta tables are placeholders, for PySpark to fill with DataFrames."""

    text: str
    frames: dict[str, DataFrame]


def rewrite_query(session: DeltaSession, text: str, *, has_fields: bool) -> RewrittenQuery | None:
    """The statement with its Delta tables replaced; None where it reads none.

    With `has_fields` the text is a format string already: `{df}` stands for a DataFrame and braces are
    doubled. Tables named twice at one version become one DataFrame, so that a statement sees one snapshot.
    """
    pieces: list[str] = []
    frames: dict[str, DataFrame] = {}
    names: dict[tuple[TableIdentifier, TimeTravel], str] = {}
    at = 0
    for reference in table_references(text):
        found = _delta_table(session, reference)
        if found is None:
            continue
        if found not in names:
            names[found] = _PLACEHOLDER.format(len(names))
            frames[names[found]] = read_identified(session, *found)
        pieces += [_escaped(text[at : reference.start], has_fields=has_fields), "{", names[found], "}"]
        if not reference.has_alias and not isinstance(found[0], PathIdentifier):
            pieces += [" AS ", _escaped(quote(found[0].parts[-1]), has_fields=False)]
        at = reference.end
    if not frames:
        return None
    pieces.append(_escaped(text[at:], has_fields=has_fields))
    return RewrittenQuery(text="".join(pieces), frames=frames)


def _delta_table(session: DeltaSession, reference: TableReference) -> tuple[TableIdentifier, TimeTravel] | None:
    try:
        identifier = identifier_of(reference.parts)
    except InvalidIdentifierError:
        return None
    travel = _time_travel(session, reference)
    if not isinstance(identifier, PathIdentifier) and travel.is_newest:
        identifier, travel = strip_name_suffix(session, identifier)
    return (identifier, travel) if is_delta_identifier(session, identifier) else None


def _time_travel(session: DeltaSession, reference: TableReference) -> TimeTravel:
    if reference.version is not None:
        return TimeTravel(version=parse_version(reference.version))
    if reference.timestamp_sql is not None:
        return TimeTravel(timestamp=_evaluated(session, reference.timestamp_sql))
    return NEWEST


def _evaluated(session: DeltaSession, expression: str) -> str:
    """What a timestamp expression of the statement gives, as text in the session's time zone."""
    row = session.spark.sql(f"SELECT CAST(CAST({expression} AS TIMESTAMP) AS STRING)").first()
    written = None if row is None else row[0]
    if written is None:
        to_milliseconds(session, expression)
    return str(written)


def _escaped(text: str, *, has_fields: bool) -> str:
    return text if has_fields else text.replace("{", "{{").replace("}", "}}")


def run_query(original: Any, spark: Any, rewritten: RewrittenQuery, args: Any, fields: dict[str, Any]) -> DataFrame:
    """Hand the statement to PySpark's own `sql`, its DataFrames as format fields."""
    return original(spark, rewritten.text, args, **fields, **rewritten.frames)  # type: ignore[no-any-return]
