"""UPDATE, DELETE, TRUNCATE TABLE and MERGE, run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql import DataFrame

from anabranch.commands.default_values import given_default
from anabranch.commands.delete import delete
from anabranch.commands.merge import merge
from anabranch.commands.merge_clauses import DeleteClause, InsertClause, MergeStatement, UpdateClause
from anabranch.commands.truncate import truncate
from anabranch.commands.update import update
from anabranch.connect.sql.grammar.merges import Action, Match, Merge
from anabranch.connect.sql.grammar.merges import MergeClause as Clause
from anabranch.connect.sql.grammar.row_changes import Delete, Truncate, Update
from anabranch.errors.arguments import UnsupportedOperationError
from anabranch.schema.paths import FieldPath
from anabranch.spark.table_identifiers import quote
from anabranch.sql.call import Call
from anabranch.sql.grammar.clauses import Assignment
from anabranch.sql.grammar.cursor import Fragment

_DEFAULT = "DEFAULT"
"""What `merge` takes for the keyword."""


def _delete(call: Call, statement: Delete) -> DataFrame:
    handle = call.table(statement.table)
    alias = call.alias(statement.table, statement.alias)
    outcome = delete(handle, _condition(call, statement.condition), alias=alias)
    return call.counts(num_affected_rows=outcome.num_affected_rows)


def _update(call: Call, statement: Update) -> DataFrame:
    handle = call.table(statement.table)
    alias = call.alias(statement.table, statement.alias)
    values = _by_column(call, statement.assignments, lambda column: given_default(handle, _without(alias, column)))
    outcome = update(handle, values, _condition(call, statement.condition), alias=alias)
    return call.counts(num_affected_rows=outcome.num_affected_rows)


def _without(alias: str | None, column: FieldPath) -> FieldPath:
    """The path of a column, without the statement's name for the table before it."""
    is_alias = alias is not None and len(column) > 1 and column[0].lower() == alias.lower()
    return column[1:] if is_alias else column


def _truncate(call: Call, statement: Truncate) -> DataFrame:
    handle = call.table(statement.table)
    if statement.has_partition:
        instead = "Use DELETE FROM … WHERE over the partition columns."
        raise UnsupportedOperationError(operation=f"TRUNCATE TABLE {handle.label} PARTITION", instead=instead)
    truncate(handle)
    return call.nothing()


def _merge(call: Call, statement: Merge) -> DataFrame:
    handle = call.table(statement.table)
    source = call.relation(statement.source)
    clauses = {match: [_clause(call, each) for each in statement.clauses if each.match is match] for match in Match}
    outcome = merge(
        handle,
        MergeStatement(
            source=source if statement.source_alias is None else source.alias(statement.source_alias),
            condition=call.expression(statement.condition),
            matched=clauses[Match.MATCHED],
            not_matched=clauses[Match.NOT_MATCHED],
            not_matched_by_source=clauses[Match.NOT_MATCHED_BY_SOURCE],
            alias=call.alias(statement.table, statement.alias),
            evolves=statement.evolves,
        ),
    )
    return call.counts(
        num_affected_rows=outcome.num_affected_rows,
        num_updated_rows=outcome.counts["updated"],
        num_deleted_rows=outcome.counts["deleted"],
        num_inserted_rows=outcome.counts["inserted"],
    )


def _clause(call: Call, clause: Clause) -> Any:
    condition = _condition(call, clause.condition)
    if clause.action is Action.DELETE:
        return DeleteClause(condition=condition)
    values: dict[str, Any] | None = None
    if not clause.all_columns:
        values = _by_column(call, clause.assignments, lambda _: _DEFAULT)
    if clause.action is Action.UPDATE:
        return UpdateClause(condition=condition, values=values)
    return InsertClause(condition=condition, values=values)


def _condition(call: Call, condition: Fragment | None) -> str | None:
    return None if condition is None else call.expression(condition)


def _by_column(
    call: Call, assignments: tuple[Assignment, ...], default: Callable[[tuple[str, ...]], Any]
) -> dict[str, Any]:
    """What each column is set to, by the column as the statement writes it."""
    found: dict[str, Any] = {}
    for assignment in assignments:
        name = ".".join(quote(part) for part in assignment.column)
        value = assignment.value
        # A column set twice is a mistake that the command tells of; here, both stay, told apart by a space.
        while name in found:
            name = f" {name}"
        found[name] = default(assignment.column) if value is None else call.expression(value)
    return found


ROW_CHANGES: Mapping[type, Callable[[Call, Any], DataFrame]] = {
    Delete: _delete,
    Update: _update,
    Truncate: _truncate,
    Merge: _merge,
}
