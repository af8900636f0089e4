"""`table_changes('t', start[, end])` and `table_changes_by_path('/t', start[, end])` in a query."""

from __future__ import annotations

from pyspark.sql import DataFrame

from anabranch.connect.sql.references import TableReference
from anabranch.spark.catalog import StoredView
from anabranch.spark.delta_session import DeltaSession
from anabranch.spark.table_identifiers import TableIdentifier
from anabranch.sql.feed_functions import ARGUMENTS, changes_of_values
from anabranch.sql.parameters import Parameters


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
