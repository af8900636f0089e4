"""`spark.sql` over Delta tables: each table a query reads becomes a DataFrame of one fixed version."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
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
from anabranch.sql.parameters import Parameters, markers
from anabranch.sql.references import TableReference, table_references

OwnSql = Callable[..., DataFrame]
"""PySpark's own `sql`, without the session."""
_PLACEHOLDER = "__anabranch_{}"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class DeltaRead:
    """A place of a text where a Delta table is read, and its rows."""

    reference: TableReference
    table: TableIdentifier
    frame: DataFrame

    @property
    def alias(self) -> str | None:
        """What the statement calls the table where it gives no alias of its own."""
        if self.reference.has_alias or isinstance(self.table, PathIdentifier):
            return None
        return self.table.parts[-1]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RewrittenQuery:
    """A statement whose Delta tables are placeholders, for PySpark to fill with DataFrames."""

    text: str
    frames: dict[str, DataFrame]
    parameters: Parameters

    def run(self, own_sql: OwnSql, fields: Mapping[str, Any]) -> DataFrame:
        """Hand the statement to PySpark, its DataFrames as format fields."""
        return own_sql(self.text, self.parameters.args, **fields, **self.frames)


def rewrite_query(
    session: DeltaSession, text: str, *, has_fields: bool, parameters: Parameters | None = None
) -> RewrittenQuery | None:
    """The statement with its Delta tables replaced; None where it reads none.

    With `has_fields` the text is a format string already: `{df}` stands for a DataFrame and braces are
    doubled. Tables named twice at one version become one DataFrame, so that a statement sees one snapshot.
    """
    given = parameters or Parameters()
    reads = delta_reads(session, text, given)
    if not reads:
        return None
    pieces: list[str] = []
    names: dict[int, str] = {}
    frames: dict[str, DataFrame] = {}
    at = 0
    for read in reads:
        name = names.setdefault(id(read.frame), _PLACEHOLDER.format(len(names)))
        frames[name] = read.frame
        reference = read.reference
        pieces += [_escaped(text[at : reference.start], has_fields=has_fields), "{", name, "}"]
        pieces.append(_escaped(text[reference.end : reference.alias_at], has_fields=has_fields))
        if read.alias is not None:
            pieces += [" AS ", _escaped(quote(read.alias), has_fields=False)]
        at = reference.alias_at
    pieces.append(_escaped(text[at:], has_fields=has_fields))
    return RewrittenQuery(
        text="".join(pieces), frames=frames, parameters=given.without(_used_for_time_travel(text, reads))
    )


def delta_reads(
    session: DeltaSession, text: str, parameters: Parameters, *, is_expression: bool = False
) -> list[DeltaRead]:
    """Every place where `text` reads a Delta table, in order, with the rows of one version."""
    found: list[DeltaRead] = []
    frames: dict[tuple[TableIdentifier, TimeTravel], DataFrame] = {}
    for reference in table_references(text, is_expression=is_expression):
        meant = _delta_table(session, reference, text, parameters)
        if meant is None:
            continue
        if meant not in frames:
            frames[meant] = read_identified(session, *meant)
        found.append(DeltaRead(reference=reference, table=meant[0], frame=frames[meant]))
    return found


def _delta_table(
    session: DeltaSession, reference: TableReference, text: str, parameters: Parameters
) -> tuple[TableIdentifier, TimeTravel] | None:
    try:
        identifier = identifier_of(reference.parts)
    except InvalidIdentifierError:
        return None
    plain = identifier
    suffix = NEWEST
    if not isinstance(identifier, PathIdentifier) and reference.version is None and reference.timestamp_sql is None:
        plain, suffix = strip_name_suffix(session, identifier)
    if not is_delta_identifier(session, plain):
        return None
    return plain, _time_travel(session, reference, text, parameters) if suffix.is_newest else suffix


def _time_travel(session: DeltaSession, reference: TableReference, text: str, parameters: Parameters) -> TimeTravel:
    own = parameters.within(text, reference.start, reference.end)
    if reference.version is not None:
        if not markers(reference.version):
            return TimeTravel(version=parse_version(reference.version))
        row = session.spark.sql(f"SELECT CAST({reference.version} AS STRING)", args=own.args).first()
        return TimeTravel(version=parse_version(str(None if row is None else row[0])))
    if reference.timestamp_sql is not None:
        return TimeTravel(timestamp=_evaluated(session, reference.timestamp_sql, own))
    return NEWEST


def _evaluated(session: DeltaSession, expression: str, parameters: Parameters) -> str:
    """What a timestamp expression of the statement gives, as text in the session's time zone."""
    query = f"SELECT CAST(CAST({expression} AS TIMESTAMP) AS STRING)"
    row = session.spark.sql(query, args=parameters.args).first()
    written = None if row is None else row[0]
    if written is None:
        to_milliseconds(session, expression)
    return str(written)


def _used_for_time_travel(text: str, reads: list[DeltaRead]) -> list[int]:
    """Numbers of the `?` that stand where the text is replaced."""
    places = [marker.start for marker in markers(text) if marker.name is None]
    gone = [(read.reference.start, read.reference.end) for read in reads]
    return [number for number, at in enumerate(places) if any(start <= at < end for start, end in gone)]


def _escaped(text: str, *, has_fields: bool) -> str:
    return text if has_fields else text.replace("{", "{{").replace("}", "}}")
