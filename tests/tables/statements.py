"""DELETE, UPDATE and MERGE on a `TableRef`, prepared and committed at once."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column

from anabranch.commands.dml.assignments import Value
from anabranch.commands.dml.delete import prepare_delete
from anabranch.commands.dml.statement import Outcome, run_statement
from anabranch.commands.dml.update import prepare_update
from anabranch.commands.merge import merge_command
from anabranch.commands.merge.merge_statement import MergeStatement
from anabranch.commands.table_access import TableRef


def delete(table: TableRef, condition: Column | str | None = None, *, conflict_retries: int | None = None) -> Outcome:
    return run_statement(table, "DELETE", lambda _: prepare_delete(table, condition), conflict_retries=conflict_retries)


def update(
    table: TableRef,
    assignments: Mapping[str, Value],
    condition: Column | str | None = None,
    *,
    conflict_retries: int | None = None,
) -> Outcome:
    return run_statement(
        table, "UPDATE", lambda _: prepare_update(table, assignments, condition), conflict_retries=conflict_retries
    )


def merge(table: TableRef, statement: MergeStatement, *, conflict_retries: int | None = None) -> Outcome:
    return merge_command.merge(table, lambda: statement, conflict_retries=conflict_retries)
