"""`table_changes('t', start[, end])` and `table_changes_by_path('/t', start[, end])` in a query."""

from __future__ import annotations

from pyspark.sql import DataFrame

from anabranch.commands.read_changes import ChangesAsked, ChangesBound, read_changes
from anabranch.commands.table_access import table_identified
from anabranch.errors.change_feed import ChangesBoundNullError, TableFunctionArgumentsError
from anabranch.spark.catalog import StoredView
from anabranch.spark.delta_session import DeltaSession
from anabranch.spark.table_identifiers import NameIdentifier, PathIdentifier, TableIdentifier, parse_identifier
from anabranch.sql.parameters import Parameters
from anabranch.sql.references import TableReference

_WHOLE_NUMBERS = frozenset({"tinyint", "smallint", "int", "bigint"})
_TIMES = frozenset({"string", "timestamp"})


def changes_of(
    session: DeltaSession, reference: TableReference, parameters: Parameters, view: StoredView | None
) -> tuple[TableIdentifier, DataFrame]:
    """The table that the function is asked about, and its changes. Names in a view's text are the view's.

    Raises `TableFunctionArgumentsError`, `ChangesBoundNullError`, `NotADeltaTableError`, `InvalidIdentifierError`, and
    what `read_changes` raises.
    """
    function = str(reference.function)
    if not 2 <= len(reference.arguments) <= 3:
        problem = f"it takes 2 or 3 arguments, and {len(reference.arguments)} are given"
        raise TableFunctionArgumentsError(function=function, problem=problem)
    (kind, name), *bounds = _values(session, reference.arguments, parameters)
    if kind != "string" or name is None:
        problem = f"the first argument is a text, and {reference.arguments[0]} is not"
        raise TableFunctionArgumentsError(function=function, problem=problem)
    identifier = PathIdentifier(name) if function.endswith("by_path") else _named(name, view)
    asked = [_bound(*bound, function=function) for bound in bounds]
    handle = table_identified(session, identifier)
    return identifier, read_changes(handle, ChangesAsked(start=asked[0], end=asked[1] if len(asked) > 1 else None))


def _values(session: DeltaSession, arguments: tuple[str, ...], parameters: Parameters) -> list[tuple[str, str | None]]:
    """The type of each argument, and its value as text in the session's time zone."""
    given = ", ".join(f"{argument} AS a{place}" for place, argument in enumerate(arguments))
    told = ", ".join(f"typeof(a{place}), CAST(a{place} AS STRING)" for place in range(len(arguments)))
    query = f"SELECT {told} FROM (SELECT {given})"  # noqa: S608 - the user's own words
    row = session.spark.sql(query, args=parameters.args).collect()[0]
    return [(row[2 * place], row[2 * place + 1]) for place in range(len(arguments))]


def _named(name: str, view: StoredView | None) -> TableIdentifier:
    identifier = parse_identifier(name)
    if view is None or isinstance(identifier, PathIdentifier) or len(identifier.parts) > 1:
        return identifier
    return NameIdentifier((*view.namespace, *identifier.parts))


def _bound(kind: str, value: str | None, *, function: str) -> ChangesBound:
    if value is None:
        raise ChangesBoundNullError(function=function)
    if kind in _WHOLE_NUMBERS:
        if int(value) < 0:
            raise TableFunctionArgumentsError(function=function, problem=f"{value} is no version")
        return ChangesBound(version=int(value))
    if kind not in _TIMES:
        problem = f"a version is a whole number and a time a timestamp or a text; {value} is of type {kind}"
        raise TableFunctionArgumentsError(function=function, problem=problem)
    return ChangesBound(timestamp=value)
