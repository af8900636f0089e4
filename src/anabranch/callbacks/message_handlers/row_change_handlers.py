"""DELETE, UPDATE and MERGE of a client, as plans of the relations and expressions in its messages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pyspark.sql import Column, DataFrame

from anabranch.callbacks.message_handlers.received_message import MessageFields, ReceivedMessage
from anabranch.errors.arguments import ClientMessageError
from anabranch.spark.extension.row_change_plans import PlannedClause, RowChangePlans

_ACTIONS = {
    "delete_action": "delete",
    "update_action": "update",
    "update_star_action": "update",
    "insert_action": "insert",
    "insert_star_action": "insert",
}
_CLAUSES: Mapping[str, tuple[str, set[str]]] = {
    "matched_actions": ("matched", {"delete_action", "update_action", "update_star_action"}),
    "not_matched_actions": ("not matched", {"insert_action", "insert_star_action"}),
    "not_matched_by_source_actions": ("not matched by the source", {"delete_action", "update_action"}),
}
"""The rows and the permitted actions of the clauses in each field of MERGE."""


def delete(message: ReceivedMessage) -> DataFrame:
    """Execute a DELETE and return its result."""
    condition = message.spark_messages.column_or_none(message.fields.get("condition"))
    return _plans(message).delete(_frame(message, "target"), condition)


def update(message: ReceivedMessage) -> DataFrame:
    """Execute an UPDATE and return its result."""
    values = _assignments(message, message.fields)
    condition = message.spark_messages.column_or_none(message.fields.get("condition"))
    return _plans(message).update(_frame(message, "target"), values, condition)


def merge(message: ReceivedMessage) -> DataFrame:
    """Execute a MERGE and return its result."""
    return _plans(message).merge(
        _frame(message, "target"),
        _frame(message, "source"),
        message.spark_messages.column(message.fields.required("condition")),
        matched=list(_clauses(message, "matched_actions")),
        not_matched=list(_clauses(message, "not_matched_actions")),
        not_matched_by_source=list(_clauses(message, "not_matched_by_source_actions")),
        evolves=bool(message.fields.get("with_schema_evolution")),
    )


def _clauses(message: ReceivedMessage, field: str) -> Iterator[PlannedClause]:
    rows, allowed = _CLAUSES[field]
    for clause in message.fields.messages(field):
        action = next((name for name in _ACTIONS if name in clause.values), None)
        if action not in allowed:
            what = "no action" if action is None else f"the action {_ACTIONS[action]}"
            raise ClientMessageError(kind=clause.kind, problem=f"it has {what} for rows that are {rows}")
        assigned = clause.message(action)
        values = None
        if action in {"update_action", "insert_action"} and assigned is not None:
            values = _assignments(message, assigned)
        condition = message.spark_messages.column_or_none(clause.get("condition"))
        yield PlannedClause(action=_ACTIONS[action], condition=condition, values=values)


def _assignments(message: ReceivedMessage, fields: MessageFields) -> list[tuple[Column, Column]]:
    """The columns that are set, each with its value."""
    column = message.spark_messages.column
    pairs = fields.messages("assignments")
    return [(column(pair.required("field")), column(pair.required("value"))) for pair in pairs]


def _plans(message: ReceivedMessage) -> RowChangePlans:
    return RowChangePlans(message.spark, conflict_retries=message.fields.get("conflict_retries"))


def _frame(message: ReceivedMessage, field: str) -> DataFrame:
    return message.spark_messages.frame(message.fields.required(field))
