"""DELETE, UPDATE and MERGE of a client: plans that Spark resolves, of the relations and expressions in its messages."""

from __future__ import annotations

from collections.abc import Iterator

from pyspark.sql import Column, DataFrame

from anabranch.callbacks.delta_sparks_clients.asked import Asked
from anabranch.callbacks.delta_sparks_clients.wire_messages import WireMessage
from anabranch.errors.arguments import ClientMessageError
from anabranch.spark.extension.row_change_plans import PlannedClause, RowChangePlans
from anabranch.spark.served.message_kinds import CONFLICT_RETRIES

_TARGET, _CONDITION, _ASSIGNMENTS = 1, 2, 3
_SOURCE, _ON, _MATCHED, _NOT_MATCHED, _NOT_MATCHED_BY_SOURCE, _EVOLVES = 2, 3, 4, 5, 6, 7
_ACTION_CONDITION, _ACTION_ASSIGNMENTS = 1, 1
_DELETE, _UPDATE, _UPDATE_STAR, _INSERT, _INSERT_STAR = 2, 3, 4, 5, 6
_WORDS = {_DELETE: "delete", _UPDATE: "update", _UPDATE_STAR: "update", _INSERT: "insert", _INSERT_STAR: "insert"}
_OF = {
    _MATCHED: ("matched", {_DELETE, _UPDATE, _UPDATE_STAR}),
    _NOT_MATCHED: ("not matched", {_INSERT, _INSERT_STAR}),
    _NOT_MATCHED_BY_SOURCE: ("not matched by the source", {_DELETE, _UPDATE}),
}
"""What clauses of MERGE may do with which rows."""


def delete(asked: Asked) -> DataFrame:
    """The result of a DELETE: it was executed."""
    return _plans(asked).delete(_frame(asked, _TARGET), _column(asked, asked.message, _CONDITION))


def update(asked: Asked) -> DataFrame:
    """The result of an UPDATE: it was executed."""
    values = _assignments(asked, asked.message, _ASSIGNMENTS)
    condition = _column(asked, asked.message, _CONDITION)
    return _plans(asked).update(_frame(asked, _TARGET), values, condition)


def merge(asked: Asked) -> DataFrame:
    """The result of a MERGE: it was executed."""
    message = asked.message
    return _plans(asked).merge(
        _frame(asked, _TARGET),
        _frame(asked, _SOURCE),
        asked.sparks.column(message.needed_data(_ON)),
        matched=list(_clauses(asked, _MATCHED)),
        not_matched=list(_clauses(asked, _NOT_MATCHED)),
        not_matched_by_source=list(_clauses(asked, _NOT_MATCHED_BY_SOURCE)),
        evolves=bool(message.flag(_EVOLVES)),
    )


def _clauses(asked: Asked, field: int) -> Iterator[PlannedClause]:
    rows, allowed = _OF[field]
    for message in asked.message.messages(field, kind="MergeIntoTable.Action"):
        action = next((number for number in _WORDS if number in message.numbers()), None)
        if action not in allowed:
            said = "no action" if action is None else f"the action {_WORDS[action]}"
            raise ClientMessageError(kind=message.kind, problem=f"it has {said} for rows that are {rows}")
        values = None
        if action in {_UPDATE, _INSERT}:
            held = WireMessage(message.needed_data(action), kind=message.kind)
            values = _assignments(asked, held, _ACTION_ASSIGNMENTS)
        condition = _column(asked, message, _ACTION_CONDITION)
        yield PlannedClause(action=_WORDS[action], condition=condition, values=values)


def _assignments(asked: Asked, message: WireMessage, field: int) -> list[tuple[Column, Column]]:
    """What is set, and to what."""
    return [
        (asked.sparks.column(each.needed_data(1)), asked.sparks.column(each.needed_data(2)))
        for each in message.messages(field, kind="Assignment")
    ]


def _plans(asked: Asked) -> RowChangePlans:
    return RowChangePlans(asked.spark, conflict_retries=asked.message.text(CONFLICT_RETRIES))


def _frame(asked: Asked, field: int) -> DataFrame:
    return asked.sparks.frame(asked.message.needed_data(field))


def _column(asked: Asked, message: WireMessage, field: int) -> Column | None:
    data = message.data(field)
    return None if data is None else asked.sparks.column(data)
