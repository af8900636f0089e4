"""What `DeltaTable` of delta-spark's package asks a server over Spark Connect, answered by our own `DeltaTable`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from anabranch.callbacks.asker import Asker
from anabranch.callbacks.delta_sparks_clients.wire_messages import WireMessage
from anabranch.callbacks.resolved_commands import Command
from anabranch.errors.arguments import ClientMessageError
from anabranch.spark.extension.door import Answer
from anabranch.tables.delta_table import DeltaTable

_RELATION = "DeltaRelation"
_COMMAND = "DeltaCommand"
_KINDS = {
    _RELATION: (
        *("Scan", "DescribeHistory", "DescribeDetail", "ConvertToDelta", "RestoreTable", "IsDeltaTable"),
        *("DeleteFromTable", "UpdateTable", "MergeIntoTable", "OptimizeTable"),
    ),
    _COMMAND: (
        *("CloneTable", "VacuumTable", "UpgradeTableProtocol", "Generate", "CreateDeltaTable"),
        *("AddFeatureSupport", "DropFeatureSupport"),
    ),
}
"""What the messages hold, by the number of its field from 1 on."""

_ANY_TYPE, _ANY_VALUE = 1, 2


class ClientsOfDeltaSpark:
    """Answers their messages. Those of kinds that are not answered are refused by their name."""

    def __init__(self, asker: Asker) -> None:
        self._asker = asker
        self._rows: dict[str, Callable[[SparkSession, WireMessage], DataFrame]] = {
            "Scan": lambda spark, message: _table(spark, message).toDF(),
            "DescribeHistory": lambda spark, message: _table(spark, message).history(),
            "DescribeDetail": lambda spark, message: _table(spark, message).detail(),
            "IsDeltaTable": _is_delta_table,
        }

    def answers(self) -> dict[str, Answer]:
        return {"relation of delta-spark": self.relation, "command of delta-spark": self.command}

    def commands(self) -> dict[str, Command]:
        return {}

    def relation(self, session: Any, sent: bytes) -> Any:
        """The plan of a relation. Raises `ClientMessageError`, and what the method of `DeltaTable` raises."""
        kind, message = content_of(bytes(sent), _RELATION)
        if kind not in self._rows:
            raise ClientMessageError(kind=kind, problem="it is not answered")
        rows: Any = self._rows[kind](self._asker.spark(session), message)
        return rows._jdf.queryExecution().analyzed()

    def command(self, session: Any, sent: bytes) -> None:
        """Raises `ClientMessageError`: commands are not answered."""
        kind, _ = content_of(bytes(sent), _COMMAND)
        raise ClientMessageError(kind=kind, problem="it is not answered")


def content_of(sent: bytes, kind: str) -> tuple[str, WireMessage]:
    """Of an `Any` with a relation or a command: the kind of what it holds, by name, and that message."""
    envelope = WireMessage(sent, kind=kind)
    name = (envelope.text(_ANY_TYPE) or "").rpartition(".")[2]
    if name != kind:
        raise ClientMessageError(kind=name or "a message without a name", problem=f"a {kind} was expected")
    held = WireMessage(envelope.data(_ANY_VALUE) or b"", kind=kind)
    for number, inner in enumerate(_KINDS[kind], start=1):
        message = held.message(number, kind=inner)
        if message is not None:
            return inner, message
    raise ClientMessageError(kind=kind, problem="it holds nothing that is known")


def _table(spark: SparkSession, message: WireMessage) -> DeltaTable:
    """The table of a message, which all have in their first field: a path with settings of its storage, or a name."""
    asked = message.message(1, kind="DeltaTable")
    path = None if asked is None else asked.message(1, kind="DeltaTable.Path")
    if path is not None:
        return DeltaTable.forPath(spark, _needed(path, 1, "DeltaTable.Path"), path.texts_by_name(2))
    name = None if asked is None else asked.text(2)
    if name is None:
        raise ClientMessageError(kind="DeltaTable", problem="it names no table")
    return DeltaTable.forName(spark, name)


def _is_delta_table(spark: SparkSession, message: WireMessage) -> DataFrame:
    found = DeltaTable.isDeltaTable(spark, _needed(message, 1, "IsDeltaTable"))
    return spark.createDataFrame([(found,)], "value boolean")


def _needed(message: WireMessage, number: int, kind: str) -> str:
    text = message.text(number)
    if not text:
        raise ClientMessageError(kind=kind, problem=f"field {number} is empty")
    return text
