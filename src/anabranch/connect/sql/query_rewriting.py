"""`spark.sql` over Delta tables: each table a query reads becomes a DataFrame of one fixed version."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from anabranch.connect.sql.table_reads import DeltaRead, Reader, with_placeholders
from anabranch.spark.session.delta_session import DeltaSession
from anabranch.spark.session.session_settings import is_connect
from anabranch.spark.session.table_identifiers import quote
from anabranch.sql.grammar.cursor import Fragment
from anabranch.sql.grammar.insert_grammar import named_queries
from anabranch.sql.parameters import Parameters, markers
from anabranch.sql.statement_context import OwnSql, StatementContext, changed


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
    session: DeltaSession,
    text: str,
    *,
    has_fields: bool,
    parameters: Parameters | None = None,
    named: Mapping[str, DataFrame] | None = None,
) -> RewrittenQuery | None:
    """The statement with its Delta tables replaced; None where it reads none.

    With `has_fields` the text is a format string already: `{df}` stands for a DataFrame and braces are
    doubled. Tables named twice at one version become one DataFrame, so that a statement sees one snapshot.
    `named` are DataFrames that the text may name as tables.
    """
    given = parameters or Parameters()
    reads = Reader(session, named).reads(text, given)
    if not reads:
        return None
    rewritten, frames = with_placeholders(text, reads, has_fields=has_fields)
    return RewrittenQuery(text=rewritten, frames=frames, parameters=given.without(_used_for_names(text, reads)))


def _used_for_names(text: str, reads: list[DeltaRead]) -> list[int]:
    """Numbers of the `?` that stand where the text is replaced."""
    places = [marker.start for marker in markers(text) if marker.name is None]
    gone = [(read.reference.start, read.reference.end) for read in reads]
    return [number for number, at in enumerate(places) if any(start <= at < end for start, end in gone)]


# A statement whose queries may read Delta tables that Spark does not know.


class RewritingContext(StatementContext):
    """A `StatementContext` that puts rows in the place of the Delta tables that its queries and expressions read."""

    def __init__(self, session: DeltaSession, own_sql: OwnSql, args: Any) -> None:
        super().__init__(session, own_sql, Parameters.of(args))
        self._named: dict[str, DataFrame] = {}
        """What names given by WITH, before the statement, stand for."""

    def select(self, text: str, parameters: Parameters) -> DataFrame:
        """The rows of a query with these parameters."""
        rewritten = rewrite_query(self.session, text, has_fields=False, parameters=parameters, named=self._named)
        return self.own_sql(text, parameters.args) if rewritten is None else rewritten.run(self.own_sql, {})

    def expression(self, piece: Fragment) -> str:
        """An expression by itself: values stand for its parameters, views for the Delta tables in its subqueries."""
        text, parameters = piece.text, self.parameters_of(piece)
        changes = [(marker.start, marker.end, sql) for marker, sql in parameters.literals(self.session.spark, text)]
        for read in Reader(self.session, self._named).reads(text, parameters, is_expression=True):
            alias = "" if read.alias is None else f" AS {quote(read.alias)}"
            reference = read.reference
            # A parameter of its time travel went into the version that was read.
            changes = [change for change in changes if not reference.start <= change[0] < reference.end]
            changes.append((reference.start, reference.end, quote(self.view_of(read.frame))))
            changes.append((reference.alias_at, reference.alias_at, alias))
        return changed(text, changes)

    def name_queries(self, piece: Fragment) -> None:
        """Let the names that `WITH a AS (…), b AS (…)` gives stand for the queries' rows."""
        for name in named_queries(piece.text):
            query = f"{piece.text} SELECT * FROM {quote(name)}"  # noqa: S608 - the user's own words
            self._named[name.lower()] = self.select(query, self.parameters_of(piece))


# Format fields of `spark.sql`: `{df}` stands for a DataFrame, `{n}` for a value.


class _Name:
    """Stands in a text as it is, not as a string of SQL."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __str__(self) -> str:
        return self._text

    def __format__(self, specification: str) -> str:
        return self._text


def filled(spark: SparkSession, text: str, fields: Mapping[str, Any], view_of: Callable[[DataFrame], str]) -> str:
    """The text with its fields filled in by PySpark's own rules; `view_of` gives a DataFrame a name to be read by."""
    views = {name: _Name(view_of(value)) if _is_frame(value) else value for name, value in fields.items()}
    return str(_formatter(spark).format(text, **views))


def _is_frame(value: Any) -> bool:
    return isinstance(value, DataFrame) or type(value).__name__ == "DataFrame"


def _formatter(spark: SparkSession) -> Any:
    # Only a session that is there already brings the packages that these modules need.
    if is_connect(spark):
        from pyspark.sql.connect.sql_formatter import SQLStringFormatter as Formatter  # noqa: PLC0415
    else:
        from pyspark.sql.sql_formatter import SQLStringFormatter as Formatter  # type: ignore[assignment]  # noqa: PLC0415
    return Formatter(spark)  # type: ignore[arg-type]
