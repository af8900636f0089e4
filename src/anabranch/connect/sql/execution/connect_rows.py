"""UPDATE, DELETE, TRUNCATE TABLE and MERGE, run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql import DataFrame

from anabranch.commands.dml.assignments import given_default
from anabranch.commands.dml.delete import delete, truncate
from anabranch.commands.dml.update import update
from anabranch.commands.merge.merge_command import merge
from anabranch.commands.merge.merge_source import DeleteClause, InsertClause, MergeStatement, UpdateClause
from anabranch.connect.sql.grammar.row_change_grammar import Action, Delete, Match, Merge, Truncate, Update
from anabranch.connect.sql.grammar.row_change_grammar import MergeClause as Clause
from anabranch.connect.sql.grammar.script_grammar import Inserts
from anabranch.connect.sql.grammar.view_grammar import CreateView
from anabranch.errors.arguments import UnsupportedOperationError
from anabranch.schema.paths import FieldPath
from anabranch.spark.session.table_identifiers import quote
from anabranch.sql import statement_explanations
from anabranch.sql.execute.execute_inserts import prepared
from anabranch.sql.grammar.clauses import Assignment
from anabranch.sql.grammar.cursor import Fragment
from anabranch.sql.statement_context import StatementContext
from anabranch.sql.statement_explanations import Choice, Explanation, Explanations, named, of_query, rows_where

_DEFAULT = "DEFAULT"
"""What `merge` takes for the keyword."""


def _delete(context: StatementContext, statement: Delete) -> DataFrame:
    handle = context.table(statement.table)
    alias = context.alias(statement.table, statement.alias)
    outcome = delete(handle, _condition(context, statement.condition), alias=alias)
    return context.counts(num_affected_rows=outcome.num_affected_rows)


def _update(context: StatementContext, statement: Update) -> DataFrame:
    handle = context.table(statement.table)
    alias = context.alias(statement.table, statement.alias)
    values = _by_column(context, statement.assignments, lambda column: given_default(handle, _without(alias, column)))
    outcome = update(handle, values, _condition(context, statement.condition), alias=alias)
    return context.counts(num_affected_rows=outcome.num_affected_rows)


def _without(alias: str | None, column: FieldPath) -> FieldPath:
    """The path of a column, without the statement's name for the table before it."""
    is_alias = alias is not None and len(column) > 1 and column[0].lower() == alias.lower()
    return column[1:] if is_alias else column


def _truncate(context: StatementContext, statement: Truncate) -> DataFrame:
    handle = context.table(statement.table)
    if statement.has_partition:
        instead = "Use DELETE FROM … WHERE over the partition columns."
        raise UnsupportedOperationError(operation=f"TRUNCATE TABLE {handle.label} PARTITION", instead=instead)
    truncate(handle)
    return context.nothing()


def _merge(context: StatementContext, statement: Merge) -> DataFrame:
    handle = context.table(statement.table)
    source = context.relation(statement.source)
    clauses = {match: [_clause(context, each) for each in statement.clauses if each.match is match] for match in Match}
    outcome = merge(
        handle,
        MergeStatement(
            source=source if statement.source_alias is None else source.alias(statement.source_alias),
            condition=context.expression(statement.condition),
            matched=clauses[Match.MATCHED],
            not_matched=clauses[Match.NOT_MATCHED],
            not_matched_by_source=clauses[Match.NOT_MATCHED_BY_SOURCE],
            alias=context.alias(statement.table, statement.alias),
            evolves=statement.evolves,
        ),
    )
    return context.counts(
        num_affected_rows=outcome.num_affected_rows,
        num_updated_rows=outcome.counts["updated"],
        num_deleted_rows=outcome.counts["deleted"],
        num_inserted_rows=outcome.counts["inserted"],
    )


def _clause(context: StatementContext, clause: Clause) -> Any:
    condition = _condition(context, clause.condition)
    if clause.action is Action.DELETE:
        return DeleteClause(condition=condition)
    values: dict[str, Any] | None = None
    if not clause.all_columns:
        values = _by_column(context, clause.assignments, lambda _: _DEFAULT)
    if clause.action is Action.UPDATE:
        return UpdateClause(condition=condition, values=values)
    return InsertClause(condition=condition, values=values)


def _condition(context: StatementContext, condition: Fragment | None) -> str | None:
    return None if condition is None else context.expression(condition)


def _by_column(
    context: StatementContext, assignments: tuple[Assignment, ...], default: Callable[[tuple[str, ...]], Any]
) -> dict[str, Any]:
    """What each column is set to, by the column as the statement writes it."""
    found: dict[str, Any] = {}
    for assignment in assignments:
        name = ".".join(quote(part) for part in assignment.column)
        value = assignment.value
        # A column set twice is a mistake that the command tells of; here, both stay, told apart by a space.
        while name in found:
            name = f" {name}"
        found[name] = default(assignment.column) if value is None else context.expression(value)
    return found


ROW_CHANGES: Mapping[type, Callable[[StatementContext, Any], DataFrame]] = {
    Delete: _delete,
    Update: _update,
    Truncate: _truncate,
    Merge: _merge,
}


# `FROM … INSERT … INSERT …`, run.


def insert_many(context: StatementContext, statement: Inserts, *before: Fragment) -> DataFrame:
    """One INSERT after the other, each a commit of its own, that reads what is there when its turn comes."""
    ours = [(written, each) for written, each in statement.inserts if context.is_delta(each.table)]
    for _, each in ours:
        # What cannot be done is told before anything is.
        prepared(context, each, *before, statement.source)
    for written, each in statement.inserts:
        if (written, each) in ours:
            prepared(context, each, *before, statement.source)()
        else:
            context.query(*before, statement.source, written)
    return context.nothing()


# EXPLAIN of statements that Spark parses.


def _of_rows(context: StatementContext, statement: Delete | Update) -> Explanation:
    alias = context.alias(statement.table, statement.alias)
    query = rows_where(named(context, statement.table, statement.alias), statement.condition)
    return Explanation(queries=(query,), chooses=Choice(condition=statement.condition, alias=alias))


def _of_merge(context: StatementContext, statement: Merge) -> Explanation:
    kinds = {clause.match for clause in statement.clauses}
    lonely_source, lonely_target = Match.NOT_MATCHED in kinds, Match.NOT_MATCHED_BY_SOURCE in kinds
    join = {(True, True): "FULL", (True, False): "RIGHT", (False, True): "LEFT", (False, False): "INNER"}
    target = named(context, statement.table, statement.alias)
    kind = join[lonely_source, lonely_target]
    query = ("SELECT * FROM", target, f"{kind} JOIN", statement.source, "ON", statement.condition)
    return Explanation(queries=(query,), chooses=Choice(condition=None))


def _of_inserts(_: StatementContext, statement: Inserts) -> Explanation:
    return Explanation(queries=tuple((statement.source, each.query) for _, each in statement.inserts))


EXPLAINED: Explanations = {
    **statement_explanations.EXPLAINED,
    Delete: _of_rows,
    Update: _of_rows,
    Merge: _of_merge,
    Inserts: _of_inserts,
    CreateView: of_query,
}
