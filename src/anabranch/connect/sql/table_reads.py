"""What the names of tables in a query stand for, where that is Delta's: rows of one fixed version."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention
from pyspark.sql.types import StructField

from anabranch.commands.read.read_changes import to_milliseconds
from anabranch.commands.read.read_table import NEWEST, TimeTravel, parse_version, read_identified, strip_name_suffix
from anabranch.connect.sql.table_references import TableReference, table_references
from anabranch.connect.sql.temporary_views import temporary_view
from anabranch.connect.stream_patches import stream_identified
from anabranch.errors.arguments import UnsupportedOperationError
from anabranch.errors.schema import ColumnNotFoundError
from anabranch.errors.tables import InvalidIdentifierError
from anabranch.predicates.sql_lexer import tokenize
from anabranch.spark.session.catalog import CatalogEntry, StoredView
from anabranch.spark.session.delta_session import DeltaSession
from anabranch.spark.session.session_settings import own_sql
from anabranch.spark.session.table_identifiers import (
    NameIdentifier,
    PathIdentifier,
    TableIdentifier,
    identifier_of,
    quote,
)
from anabranch.sql.change_feed_functions import ARGUMENTS, changes_of_values
from anabranch.sql.parameters import Parameters, markers

# `table_changes('t', start[, end])` and `table_changes_by_path('/t', start[, end])` in a query.


def changes_of(
    session: DeltaSession, reference: TableReference, parameters: Parameters, view: StoredView | None
) -> tuple[TableIdentifier, DataFrame]:
    """The table that the function is asked about, and its changes. Names in a view's text are the view's.

    Raises as `changes_of_values`.
    """
    function = str(reference.function)
    values = None if len(reference.arguments) not in ARGUMENTS else _values(session, reference.arguments, parameters)
    return changes_of_values(
        session, function, reference.arguments, values, namespace=() if view is None else view.namespace
    )


def _values(session: DeltaSession, arguments: tuple[str, ...], parameters: Parameters) -> list[tuple[str, str | None]]:
    """The type of each argument, and its value as text in the session's time zone."""
    given = ", ".join(f"{argument} AS a{place}" for place, argument in enumerate(arguments))
    told = ", ".join(f"typeof(a{place}), CAST(a{place} AS STRING)" for place in range(len(arguments)))
    query = f"SELECT {told} FROM (SELECT {given})"  # noqa: S608 - the user's own words
    row = session.spark.sql(query, args=parameters.args).collect()[0]
    return [(row[2 * place], row[2 * place + 1]) for place in range(len(arguments))]


_PLACEHOLDER = "__anabranch_{}"
_NESTED_MAX = 100


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class DeltaRead:
    """A place of a text where Delta tables are read, and its rows."""

    reference: TableReference
    identifier: TableIdentifier
    frame: DataFrame

    @property
    def alias(self) -> str | None:
        """What the statement calls the table where it gives no alias of its own."""
        if self.reference.has_alias or isinstance(self.identifier, PathIdentifier):
            return None
        return self.identifier.parts[-1]


class Reader:
    """The reads of one statement. A table that it names twice at one version is one DataFrame: one snapshot."""

    def __init__(self, session: DeltaSession, named: Mapping[str, DataFrame] | None = None) -> None:
        self._session = session
        self._named = named or {}
        self._frames: dict[tuple[TableIdentifier, TimeTravel], DataFrame] = {}
        self._known: dict[NameIdentifier, tuple[bool, CatalogEntry | None]] = {}
        self._depth = 0
        self.views: list[NameIdentifier] = []
        """The views that were read, also those behind others."""

    def reads(
        self, text: str, parameters: Parameters, *, is_expression: bool = False, view: StoredView | None = None
    ) -> list[DeltaRead]:
        """Every place where `text` reads a Delta table, or a view over some, in order.

        Where the text is that of a `view`, names without a schema belong to the view's, and other tables with such
        names are among the reads.
        """
        found: list[DeltaRead] = []
        others: list[tuple[TableReference, NameIdentifier]] = []
        for reference in table_references(text, is_expression=is_expression):
            if reference.function is not None:
                own = parameters.within(text, reference.start, reference.end)
                named, changes = changes_of(self._session, reference, own, view)
                found.append(DeltaRead(reference=reference, identifier=named, frame=changes))
                continue
            identifier = self._identifier(reference, text, parameters, view)
            if identifier is None:
                continue
            frame = self._frame(identifier, reference, text, parameters)
            if frame is not None:
                found.append(DeltaRead(reference=reference, identifier=identifier, frame=frame))
            elif isinstance(identifier, NameIdentifier) and identifier.parts != reference.parts:
                others.append((reference, identifier))
        if found:
            for reference, identifier in others:
                frame = self._session.spark.table(identifier.quoted)
                found.append(DeltaRead(reference=reference, identifier=identifier, frame=frame))
            found.sort(key=lambda read: read.reference.start)
        return found

    def is_delta(self, identifier: TableIdentifier) -> bool:
        """Whether reading it reads Delta tables."""
        if self._is_table(identifier):
            return True
        view = self._view(identifier)
        return view is not None and self._view_reads_delta(view)

    def touches_delta(self, text: str, parameters: Parameters, *, view: StoredView | None = None) -> bool:
        """Whether `text` reads a Delta table anywhere. Nothing is read for that."""
        for reference in table_references(text):
            if reference.function is not None:
                return True
            identifier = self._identifier(reference, text, parameters, view)
            if identifier is not None and self.is_delta(self._plain(identifier, reference)[0]):
                return True
        return False

    def rows_of_name(self, identifier: TableIdentifier) -> DataFrame | None:
        """What a view over Delta tables gives now; None for what is no such view."""
        view = self._view(identifier)
        return None if view is None else self.rows_of(view)

    def rows_of(self, view: StoredView) -> DataFrame | None:
        """What the view's query gives now, under the view's columns; None where it reads no Delta table."""
        self._depth += 1
        try:
            reads = [] if self._depth > _NESTED_MAX else self.reads(view.text, Parameters(), view=view)
        finally:
            self._depth -= 1
        if not reads:
            return None
        text, frames = with_placeholders(view.text, reads, has_fields=False)
        return _under_columns(own_sql(self._session.spark, text, **frames), view)

    def _identifier(
        self, reference: TableReference, text: str, parameters: Parameters, view: StoredView | None
    ) -> TableIdentifier | None:
        """None for what cannot be the name of a table."""
        parts = reference.parts
        try:
            if reference.name_sql is not None:
                parts = self._told(reference.name_sql, parameters.within(text, reference.start, reference.end))
            identifier = identifier_of(parts)
        except InvalidIdentifierError:
            return None
        if view is None or isinstance(identifier, PathIdentifier) or len(parts) > 1:
            return identifier
        if view.sees_temporary_views and self._lookup(identifier)[0]:
            return identifier
        return NameIdentifier((*view.namespace, *parts))

    def _told(self, name_sql: str, parameters: Parameters) -> tuple[str, ...]:
        """The name that the expression in `IDENTIFIER(…)` tells."""
        row = self._session.spark.sql(f"SELECT {name_sql}", args=parameters.args).first()
        told = tokenize("" if row is None or row[0] is None else str(row[0]))
        return tuple(token.name for token in told if token.is_name)

    def _frame(
        self, identifier: TableIdentifier, reference: TableReference, text: str, parameters: Parameters
    ) -> DataFrame | None:
        if len(reference.parts) == 1 and reference.parts[0].lower() in self._named:
            return self._named[reference.parts[0].lower()]
        if reference.is_stream:
            return self._stream(identifier, reference)
        plain, suffix = self._plain(identifier, reference)
        if self._is_table(plain):
            travel = self._time_travel(reference, text, parameters) if suffix.is_newest else suffix
            known = self._frames.get((plain, travel))
            if known is None:
                known = self._frames[plain, travel] = read_identified(self._session, plain, travel)
            return known
        view = self._view(plain)
        if view is None or isinstance(plain, PathIdentifier):
            return None
        self.views.append(plain)
        known = self._frames.get((plain, NEWEST))
        if known is None and (known := self.rows_of(view)) is not None:
            self._frames[plain, NEWEST] = known
        return known

    def _stream(self, identifier: TableIdentifier, reference: TableReference) -> DataFrame | None:
        if not self._is_table(identifier):
            return None
        if reference.has_options:
            instead = "Use spark.readStream with these options, and a view of it in SQL."
            raise UnsupportedOperationError(operation=f"STREAM {identifier} WITH (…)", instead=instead)
        return stream_identified(self._session, identifier, {})

    def _plain(self, identifier: TableIdentifier, reference: TableReference) -> tuple[TableIdentifier, TimeTravel]:
        """The name without `@v3`, and the version that this says."""
        says_version = reference.version is not None or reference.timestamp_sql is not None
        if isinstance(identifier, PathIdentifier) or says_version:
            return identifier, NEWEST
        return strip_name_suffix(self._session, identifier)

    def _view(self, identifier: TableIdentifier) -> StoredView | None:
        if isinstance(identifier, PathIdentifier):
            return None
        is_temporary, entry = self._lookup(identifier)
        if is_temporary:
            return temporary_view(self._session, identifier)
        return None if entry is None else entry.view

    def _is_table(self, identifier: TableIdentifier) -> bool:
        if isinstance(identifier, PathIdentifier):
            return True
        is_temporary, entry = self._lookup(identifier)
        return not is_temporary and entry is not None and entry.is_delta

    def _lookup(self, identifier: NameIdentifier) -> tuple[bool, CatalogEntry | None]:
        """Whether it is a temporary view, and what else the catalog has under that name; asked once."""
        known = self._known.get(identifier)
        if known is None:
            is_temporary = self._session.catalog.is_temporary_view(identifier)
            known = is_temporary, None if is_temporary else self._session.catalog.find(identifier)
            self._known[identifier] = known
        return known

    def _view_reads_delta(self, view: StoredView) -> bool:
        self._depth += 1
        try:
            return self._depth <= _NESTED_MAX and self.touches_delta(view.text, Parameters(), view=view)
        finally:
            self._depth -= 1

    def _time_travel(self, reference: TableReference, text: str, parameters: Parameters) -> TimeTravel:
        own = parameters.within(text, reference.start, reference.end)
        if reference.version is not None:
            if not markers(reference.version):
                return TimeTravel(version=parse_version(reference.version))
            row = self._session.spark.sql(f"SELECT CAST({reference.version} AS STRING)", args=own.args).first()
            return TimeTravel(version=parse_version(str(None if row is None else row[0])))
        if reference.timestamp_sql is not None:
            return TimeTravel(timestamp=self._evaluated(reference.timestamp_sql, own))
        return NEWEST

    def _evaluated(self, expression: str, parameters: Parameters) -> str:
        """What a timestamp expression of the statement gives, as text in the session's time zone."""
        query = f"SELECT CAST(CAST({expression} AS TIMESTAMP) AS STRING)"
        row = self._session.spark.sql(query, args=parameters.args).first()
        written = None if row is None else row[0]
        if written is None:
            to_milliseconds(self._session, expression)
        return str(written)


def with_placeholders(text: str, reads: list[DeltaRead], *, has_fields: bool) -> tuple[str, dict[str, DataFrame]]:
    """The text with a format field in the place of each read, and what is to be filled in.

    With `has_fields` the text is a format string already, in which braces are doubled.
    """
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
    return "".join(pieces), frames


def _under_columns(frame: DataFrame, view: StoredView) -> DataFrame:
    """The query's columns as the view has them: those there were when it was made, by name."""
    if view.evolves:
        return frame
    now = frame.schema.fields
    places = _places(now, view)
    aligned = [(now[place], field) for place, field in zip(places, view.schema.fields, strict=True)]
    if len(now) == len(places) and all(_is_same(one, other) for one, other in aligned):
        return frame
    # Names may be there twice; places are not.
    by_place = frame.toDF(*[f"c{place}" for place in range(len(now))])
    columns = []
    for place, (one, field) in zip(places, aligned, strict=True):
        column = F.col(f"c{place}")
        if one.dataType != field.dataType:
            column = column.cast(field.dataType)
        columns.append(column.alias(field.name, metadata=field.metadata))
    return by_place.select(*columns)


def _is_same(one: StructField, other: StructField) -> bool:
    return one.name == other.name and one.dataType == other.dataType


def _places(now: list[StructField], view: StoredView) -> list[int]:
    """Where the view's columns are among the query's."""
    if view.output is None:
        return list(range(len(view.schema.fields)))
    free: dict[str, list[int]] = {}
    for place, field in enumerate(now):
        free.setdefault(field.name.lower(), []).append(place)
    found = []
    for name in view.output:
        if not free.get(name.lower()):
            names = tuple(field.name for field in now)
            raise ColumnNotFoundError(table="The query of the view", column=name, available=names)
        found.append(free[name.lower()].pop(0))
    return found


def _escaped(text: str, *, has_fields: bool) -> str:
    return text if has_fields else text.replace("{", "{{").replace("}", "}}")
