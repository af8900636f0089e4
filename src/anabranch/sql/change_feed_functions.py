"""`table_changes('t', start[, end])` and `table_changes_by_path('/t', start[, end])` in a query."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame

from anabranch.commands.read.read_changes import ChangesBound, ChangesRequest, read_changes
from anabranch.commands.table_access import table_identified
from anabranch.errors.dml import ChangesBoundNullError, TableFunctionArgumentsError, TableFunctionArgumentTypeError
from anabranch.spark.session.delta_session import DeltaSession
from anabranch.spark.session.table_identifiers import NameIdentifier, PathIdentifier, TableIdentifier, parse_identifier

ARGUMENTS = range(2, 4)
"""The numbers of arguments that a function takes."""
_WHOLE_NUMBERS = frozenset({"tinyint", "smallint", "int", "bigint"})
_TIMES = frozenset({"string", "timestamp"})


def changes_of_values(
    session: DeltaSession,
    function: str,
    texts: Sequence[str],
    values: Sequence[tuple[str, str | None]] | None,
    *,
    namespace: tuple[str, ...],
) -> tuple[TableIdentifier, DataFrame]:
    """The table of a function call, and its changes. Names without a schema belong to `namespace`.

    `texts` are the arguments as written, `values` the type of each, and its value as text in the session's time zone;
    None where there are too few or too many. Raises `TableFunctionArgumentsError`, `TableFunctionArgumentTypeError`,
    `ChangesBoundNullError`, `NotADeltaTableError`, `InvalidIdentifierError`, and what `read_changes` raises.
    """
    if values is None:
        problem = f"it takes 2 or 3 arguments, but has {len(texts)}"
        raise TableFunctionArgumentsError(function=function, problem=problem)
    (kind, name), *bounds = values
    if kind != "string" or name is None:
        problem = f"the first argument must be a text, and {texts[0]} is not"
        raise TableFunctionArgumentTypeError(function=function, problem=problem)
    identifier = PathIdentifier(name) if function.endswith("by_path") else _named(name, namespace)
    start, *end = [_bound(*bound, function=function) for bound in bounds]
    table = table_identified(session, identifier)
    return identifier, read_changes(table, ChangesRequest(start=start, end=end[0] if end else None))


def _named(name: str, namespace: tuple[str, ...]) -> TableIdentifier:
    identifier = parse_identifier(name)
    if not namespace or isinstance(identifier, PathIdentifier) or len(identifier.parts) > 1:
        return identifier
    return NameIdentifier((*namespace, *identifier.parts))


def _bound(kind: str, value: str | None, *, function: str) -> ChangesBound:
    if value is None:
        raise ChangesBoundNullError(function=function)
    if kind in _WHOLE_NUMBERS:
        if int(value) < 0:
            raise TableFunctionArgumentTypeError(function=function, problem=f"{value} is no version")
        return ChangesBound(version=int(value))
    if kind not in _TIMES:
        problem = (
            f"a version must be a whole number, and a time must be a timestamp or a text; {value} is of type {kind}"
        )
        raise TableFunctionArgumentTypeError(function=function, problem=problem)
    return ChangesBound(timestamp=value)
