"""A statement whose queries may read Delta tables that Spark does not know."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame

from anabranch.connect.sql.queries import rewrite_query
from anabranch.connect.sql.reads import Reader
from anabranch.spark.delta_session import DeltaSession
from anabranch.spark.table_identifiers import quote
from anabranch.sql.call import Call, OwnSql, changed
from anabranch.sql.grammar.cursor import Fragment
from anabranch.sql.grammar.named_queries import named_queries
from anabranch.sql.parameters import Parameters


class RewritingCall(Call):
    """A `Call` that puts rows in the place of the Delta tables that its queries and expressions read."""

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
