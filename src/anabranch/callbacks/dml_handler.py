"""DELETE, UPDATE and MERGE: plans that Spark has resolved, run as our commands."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from typing import Any

from pyspark.sql import Column
from pyspark.sql.types import LongType, StructField, StructType

from anabranch.callbacks.driver import Driver
from anabranch.callbacks.resolved_commands import Command
from anabranch.callbacks.table_handler import TableFacts, bound, check_whole_table, facts_of
from anabranch.commands.dml.assignments import DEFAULT, Value
from anabranch.commands.dml.delete import prepare_delete
from anabranch.commands.dml.statement import Outcome, Prepare, Prepared, run_statement
from anabranch.commands.dml.update import prepare_update
from anabranch.commands.merge.merge_command import merge
from anabranch.commands.merge.merge_statement import (
    DeleteClause,
    InsertClause,
    MergeClause,
    MergeStatement,
    UpdateClause,
)
from anabranch.commands.table_access import TableRef
from anabranch.errors.arguments import (
    ConflictingAssignmentsError,
    DuplicateInsertColumnsError,
    NestedAssignmentError,
    PartialTargetError,
    UnchangeableTargetError,
)
from anabranch.errors.constraints import MetadataColumnError
from anabranch.schema.paths import quoted
from anabranch.spark.conditions.column_names import BoundAttributes
from anabranch.spark.gateway.jvm_classes import column_of
from anabranch.transactions.statement_retry import Attempt

_MERGED = ("num_affected_rows", "num_updated_rows", "num_deleted_rows", "num_inserted_rows")
MERGED = StructType([StructField(name, LongType()) for name in _MERGED])
AFFECTED = StructType(MERGED.fields[:1])
_STATEMENTS = {"DeleteFromTable": "DELETE", "UpdateTable": "UPDATE", "MergeIntoTable": "MERGE"}


class DmlHandler:
    """Runs DELETE, UPDATE and MERGE."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    def refuse_target(self, node: str, problem: str) -> None:
        """Raises `UnchangeableTargetError`."""
        raise UnchangeableTargetError(statement=_STATEMENTS[node], problem=problem)

    def refuse_filtered_target(self, node: str) -> None:
        """Raises `PartialTargetError`: the view might not show the new rows."""
        problem = "it shows only some of the table's rows"
        raise PartialTargetError(statement=_STATEMENTS[node], problem=problem)

    def refuse_metadata_column(self, rows: str) -> None:
        """Raises `MetadataColumnError`, for a condition on a view, or of `replaceWhere`."""
        raise MetadataColumnError(is_view=rows == "view")

    def _delete(self, session: Any, plan: Any) -> Any:
        """The rows of a `DeleteFromTable`'s result."""
        target = self._target(session, plan)

        def prepare(attempt: Attempt) -> Prepared:
            condition = self._resolved(session, plan, target).only_clause.condition
            return prepare_delete(target.table, condition, alias=target.names, attempt=attempt)

        return self._driver.numbers(self._executed(target, "DELETE", prepare).num_affected_rows)

    def _update(self, session: Any, plan: Any) -> Any:
        """The rows of an `UpdateTable`'s result."""
        target = self._target(session, plan)

        def prepare(attempt: Attempt) -> Prepared:
            clause = self._resolved(session, plan, target).only_clause
            assert isinstance(clause, UpdateClause)
            assert clause.values is not None
            return prepare_update(target.table, clause.values, clause.condition, alias=target.names, attempt=attempt)

        return self._driver.numbers(self._executed(target, "UPDATE", prepare).num_affected_rows)

    def _merge(self, session: Any, plan: Any) -> Any:
        """The rows of a `MergeIntoTable`'s result."""
        target = self._target(session, plan)

        def resolve() -> MergeStatement:
            statement = self._resolved(session, plan, target)
            return MergeStatement(
                source=self._driver.frame(session, statement.plan.sourceTable()),
                condition=statement.on,
                matched=statement.clauses("matched"),
                not_matched=statement.clauses("not_matched"),
                not_matched_by_source=statement.clauses("not_matched_by_source"),
                alias=target.names,
                evolves=bool(statement.plan.withSchemaEvolution()),
            )

        outcome = merge(target.table, resolve, conflict_retries=target.conflict_retries)
        counts = [outcome.counts.get(name, 0) for name in ("updated", "deleted", "inserted")]
        return self._driver.numbers(outcome.num_affected_rows, *counts)

    def _executed(self, target: Target, operation: str, prepare: Prepare) -> Outcome:
        return run_statement(target.table, operation, prepare, conflict_retries=target.conflict_retries)

    def _checked(self, session: Any, plan: Any) -> Any:
        """The statement. Raises as `check_whole_table` if its target is not the newest version of a whole table."""
        if not self._driver.anabranch.RowChangeStatements.changesWholeTable(plan):
            check_whole_table(self._facts(session, plan), statement=_STATEMENTS[str(plan.nodeName())])
        return plan

    def _facts(self, session: Any, plan: Any) -> TableFacts:
        return facts_of(
            self._driver, self._driver.session(session), self._driver.anabranch.RowChangeStatements.table(plan)
        )

    def _target(self, session: Any, plan: Any) -> Target:
        changes = self._driver.anabranch.RowChangeStatements
        facts = self._facts(session, plan)
        retries, version = changes.execution(plan).split("\0")
        looked_up = int(version) if version else None
        return Target(
            facts=facts,
            names=bound(facts, changes.attributes(plan), changes.metadata(plan), version=looked_up),
            conflict_retries=retries or None,
        )

    def _resolved(self, session: Any, plan: Any, target: Target) -> ResolvedStatement:
        number = self._driver.anabranch.ChooseVersions.next()
        return ResolvedStatement(
            self._driver, self._driver.anabranch.RowChangeStatements.atOnce(session, plan, number), target
        )

    delete = Command(run=_delete, result=AFFECTED, check=_checked)
    update = Command(run=_update, result=AFFECTED, check=_checked)
    merge = Command(run=_merge, result=MERGED, check=_checked)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Target:
    """The table that a statement changes."""

    facts: TableFacts
    names: BoundAttributes
    conflict_retries: str | None

    @property
    def table(self) -> TableRef:
        return self.facts.table


class ResolvedStatement:
    """A statement for one execution: conditions and values as columns, with the time fixed and versions chosen."""

    def __init__(self, driver: Driver, plan: Any, target: Target) -> None:
        self.plan = plan
        changes = driver.anabranch.RowChangeStatements
        columns = (None if column is None else column_of(column) for column in changes.columns(plan))
        self.on: Any = next(columns) if str(plan.nodeName()) == "MergeIntoTable" else None
        self._clauses = [
            (clause["match"], _clause(clause, columns, table=target.table.label))
            for clause in json.loads(changes.json(plan))
        ]

    @property
    def only_clause(self) -> MergeClause:
        """The clause of a statement that has exactly one."""
        return self._clauses[0][1]

    def clauses(self, match: str) -> Any:
        """The clauses for rows that are `matched`, `not_matched` or `not_matched_by_source`."""
        return [clause for rows, clause in self._clauses if rows == match]


def _clause(clause: Any, columns: Iterator[Column | None], *, table: str) -> MergeClause:
    condition = next(columns)
    if clause["action"] == "delete":
        return DeleteClause(condition=condition)
    kind = UpdateClause if clause["action"] == "update" else InsertClause
    if clause["star"]:
        return kind(condition=condition, values=None)
    values: dict[str, Value] = {}
    for path in clause["keys"]:
        value = next(columns)
        if isinstance(path, str):
            raise NestedAssignmentError(table=table, column=path)
        name = quoted(path)
        if name in values:
            twice = ConflictingAssignmentsError if kind is UpdateClause else DuplicateInsertColumnsError
            raise twice(table=table, column=name, problem="it is set twice")
        values[name] = DEFAULT if value is None else value
    return kind(condition=condition, values=values)
