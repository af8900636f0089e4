"""DELETE, UPDATE and MERGE, as plans that Spark has resolved, and run as our commands."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql.types import LongType, StructField, StructType

from anabranch.callbacks.answer_tables import TableFacts, bound, check_whole_table, facts_of
from anabranch.callbacks.driver import Driver
from anabranch.callbacks.resolved_commands import Command
from anabranch.commands.dml.assignments import DEFAULT, Value
from anabranch.commands.dml.delete import prepare_delete
from anabranch.commands.dml.statement import Outcome, Prepared, execute
from anabranch.commands.dml.update import prepare_update
from anabranch.commands.merge.merge_command import merge
from anabranch.commands.merge.merge_source import DeleteClause, InsertClause, MergeClause, MergeStatement, UpdateClause
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
from anabranch.spark.gateway.callback_endpoint import Answer
from anabranch.spark.gateway.jvm_classes import column_of

AFFECTED = ("num_affected_rows",)
MERGED = ("num_affected_rows", "num_updated_rows", "num_deleted_rows", "num_inserted_rows")
_WORDS = {"DeleteFromTable": "DELETE", "UpdateTable": "UPDATE", "MergeIntoTable": "MERGE"}


class RowChanges:
    """Runs statements that change rows."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    def answers(self) -> dict[str, Answer]:
        return {
            "refuse to change": self.refuse,
            "refuse to change rows shown": self.refuse_rows_shown,
            "refuse metadata": self.refuse_metadata,
        }

    def commands(self) -> dict[str, Command]:
        return {
            "DeleteFromTable": Command(run=self.delete, result=_numbers(*AFFECTED), check=self._checked),
            "UpdateTable": Command(run=self.update, result=_numbers(*AFFECTED), check=self._checked),
            "MergeIntoTable": Command(run=self.merge, result=_numbers(*MERGED), check=self._checked),
        }

    def refuse(self, statement: str, problem: str) -> None:
        """Raises `UnchangeableTargetError`."""
        raise UnchangeableTargetError(statement=_WORDS[statement], problem=problem)

    def refuse_rows_shown(self, statement: str) -> None:
        """Raises `PartialTargetError`: new rows may be none that the view shows."""
        problem = "it shows some of the table's rows only"
        raise PartialTargetError(statement=_WORDS[statement], problem=problem)

    def refuse_metadata(self, of: str) -> None:
        """Raises `MetadataColumnError`, for a condition on a view, or of `replaceWhere`."""
        raise MetadataColumnError(is_view=of == "view")

    def delete(self, session: Any, plan: Any) -> Any:
        """The rows of a `DeleteFromTable`'s result."""
        target = self._target(session, plan)

        def prepare() -> Prepared:
            told = self._told(session, plan, target)
            return prepare_delete(target.table, told.only.condition, alias=target.names)

        return self._driver.numbers(self._executed(target, prepare).num_affected_rows)

    def update(self, session: Any, plan: Any) -> Any:
        """The rows of an `UpdateTable`'s result."""
        target = self._target(session, plan)

        def prepare() -> Prepared:
            clause = self._told(session, plan, target).only
            assert isinstance(clause, UpdateClause)
            assert clause.values is not None
            return prepare_update(target.table, clause.values, clause.condition, alias=target.names)

        return self._driver.numbers(self._executed(target, prepare).num_affected_rows)

    def merge(self, session: Any, plan: Any) -> Any:
        """The rows of a `MergeIntoTable`'s result."""
        target = self._target(session, plan)

        def tell() -> MergeStatement:
            told = self._told(session, plan, target)
            return MergeStatement(
                source=self._driver.frame(session, told.statement.sourceTable()),
                condition=told.on,
                matched=told.clauses("matched"),
                not_matched=told.clauses("not_matched"),
                not_matched_by_source=told.clauses("not_matched_by_source"),
                alias=target.names,
                evolves=bool(told.statement.withSchemaEvolution()),
            )

        outcome = merge(target.table, tell, conflict_retries=target.conflict_retries)
        counts = [outcome.counts.get(name, 0) for name in ("updated", "deleted", "inserted")]
        return self._driver.numbers(outcome.num_affected_rows, *counts)

    def _executed(self, target: Target, prepare: Any) -> Outcome:
        return execute(target.table, prepare, conflict_retries=target.conflict_retries)

    def _checked(self, session: Any, plan: Any) -> Any:
        """The statement, where its target is the newest version of a table."""
        check_whole_table(self._facts(session, plan), statement=_WORDS[str(plan.nodeName())])
        return plan

    def _facts(self, session: Any, plan: Any) -> TableFacts:
        return facts_of(self._driver, self._driver.session(session), self._driver.delta.RowChanges.table(plan))

    def _target(self, session: Any, plan: Any) -> Target:
        changes = self._driver.delta.RowChanges
        facts = self._facts(session, plan)
        return Target(
            facts=facts,
            names=bound(facts, changes.attributes(plan), changes.metadata(plan)),
            conflict_retries=changes.retries(plan),
        )

    def _told(self, session: Any, plan: Any, target: Target) -> Told:
        number = self._driver.delta.Versions.next()
        return Told(self._driver, self._driver.delta.RowChanges.atOnce(session, plan, number), target)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Target:
    """The table that a statement changes."""

    facts: TableFacts
    names: BoundAttributes
    conflict_retries: str | None

    @property
    def table(self) -> TableRef:
        return self.facts.table


class Told:
    """One execution of a statement: conditions and values as columns, the clock in them stopped, versions chosen."""

    def __init__(self, driver: Driver, statement: Any, target: Target) -> None:
        self.statement = statement
        changes = driver.delta.RowChanges
        columns = (None if each is None else column_of(each) for each in changes.columns(statement))
        self.on: Any = next(columns) if str(statement.nodeName()) == "MergeIntoTable" else None
        self._clauses = [
            (facts["match"], _clause(facts, columns, table=target.table.label))
            for facts in json.loads(changes.facts(statement))
        ]

    @property
    def only(self) -> MergeClause:
        """The clause of a statement that has but one."""
        return self._clauses[0][1]

    def clauses(self, match: str) -> Any:
        """The clauses for rows that are `matched`, `not_matched` or `not_matched_by_source`."""
        return [clause for matched, clause in self._clauses if matched == match]


class Versions:
    """One execution of a statement: every table that it reads has one version in it."""

    def __init__(self, driver: Driver, session: Any) -> None:
        self._driver = driver
        self._session = session
        self._number = driver.delta.Versions.next()

    def chosen(self, plan: Any) -> Any:
        """The plan with the rows of one version where a table is read."""
        return self._driver.delta.Versions.chosen(self._session, plan, self._number)

    def frame(self, plan: Any) -> DataFrame:
        """The rows of the plan; those that Spark keeps for the user are taken as they are.

        The clock stands still: what the statement is found to have read is what its jobs read.
        """
        chosen = self.chosen(self._driver.delta.Cached.used(self._session, plan))
        return self._driver.frame(self._session, self._driver.delta.Plans.atOneTime(chosen))

    def condition(self, relation: Any, expression: Any) -> Column | None:
        """A condition over a table's leaf as a column; None for one that is always true."""
        if str(expression.sql()) == "true":
            return None
        plans = self._driver.jvm.org.apache.spark.sql.catalyst.plans.logical
        return self._driver.column(self.chosen(plans.Filter(expression, relation)).condition())


def _clause(facts: Any, columns: Iterator[Column | None], *, table: str) -> MergeClause:
    condition = next(columns)
    if facts["action"] == "delete":
        return DeleteClause(condition=condition)
    kind = UpdateClause if facts["action"] == "update" else InsertClause
    if facts["star"]:
        return kind(condition=condition, values=None)
    values: dict[str, Value] = {}
    for path in facts["keys"]:
        value = next(columns)
        if isinstance(path, str):
            raise NestedAssignmentError(table=table, column=path)
        name = quoted(path)
        if name in values:
            twice = ConflictingAssignmentsError if kind is UpdateClause else DuplicateInsertColumnsError
            raise twice(table=table, column=name, problem="it is set twice")
        values[name] = DEFAULT if value is None else value
    return kind(condition=condition, values=values)


def _numbers(*names: str) -> StructType:
    return StructType([StructField(name, LongType()) for name in names])
