"""What `DeltaTable` of delta-spark's package asks a server over Spark Connect, answered by our own `DeltaTable`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql import DataFrame

from anabranch.callbacks.asker import Asker
from anabranch.callbacks.delta_sparks_clients import command_messages, relation_messages, row_change_messages
from anabranch.callbacks.delta_sparks_clients.asked import Asked, SparksMessages
from anabranch.callbacks.delta_sparks_clients.wire_messages import WireMessage
from anabranch.callbacks.resolved_commands import Command
from anabranch.errors.arguments import ClientMessageError
from anabranch.spark.extension.door import Answer
from anabranch.spark.served.message_kinds import ANY_TYPE, ANY_VALUE, COMMAND, KINDS, RELATION

RELATIONS: Mapping[str, Callable[[Asked], DataFrame]] = {
    "Scan": relation_messages.scan,
    "DescribeHistory": relation_messages.history,
    "DescribeDetail": relation_messages.detail,
    "ConvertToDelta": relation_messages.convert,
    "RestoreTable": relation_messages.restore,
    "IsDeltaTable": relation_messages.is_delta_table,
    "DeleteFromTable": row_change_messages.delete,
    "UpdateTable": row_change_messages.update,
    "MergeIntoTable": row_change_messages.merge,
    "OptimizeTable": relation_messages.optimize,
}
COMMANDS: Mapping[str, Callable[[Asked], None]] = {
    "CloneTable": command_messages.clone,
    "VacuumTable": command_messages.vacuum,
    "UpgradeTableProtocol": command_messages.upgrade_protocol,
    "Generate": command_messages.generate,
    "CreateDeltaTable": command_messages.create,
    "AddFeatureSupport": command_messages.add_feature,
    "DropFeatureSupport": command_messages.drop_feature,
}


class ClientsOfDeltaSpark:
    """Answers their messages."""

    def __init__(self, asker: Asker) -> None:
        self._asker = asker

    def answers(self) -> dict[str, Answer]:
        return {"relation of delta-spark": self.relation, "command of delta-spark": self.command}

    def commands(self) -> dict[str, Command]:
        return {}

    def relation(self, session: Any, sent: bytes, planner: Any) -> Any:
        """The plan of a relation; what it asks to be done is done. Raises as the method of `DeltaTable` does."""
        message = content_of(bytes(sent), RELATION)
        answer: Any = RELATIONS[message.kind](self._asked(session, message, planner))
        execution = answer._jdf.queryExecution()
        # Spark keeps plans for the next time that they are asked for. A table that is found anew each time may have
        # other columns then.
        return execution.logical() if message.kind == "Scan" else execution.commandExecuted()

    def command(self, session: Any, sent: bytes, planner: Any) -> None:
        """Raises as the method of `DeltaTable` does."""
        message = content_of(bytes(sent), COMMAND)
        COMMANDS[message.kind](self._asked(session, message, planner))

    def _asked(self, session: Any, message: WireMessage, planner: Any) -> Asked:
        sparks = SparksMessages(self._asker, session, planner)
        return Asked(spark=self._asker.spark(session), message=message, sparks=sparks)


def content_of(sent: bytes, family: str) -> WireMessage:
    """What an `Any` with a relation or a command holds. Raises `ClientMessageError`."""
    envelope = WireMessage(sent, kind=family)
    name = (envelope.text(ANY_TYPE) or "").rpartition(".")[2]
    if name != family:
        raise ClientMessageError(kind=name or "a message without a name", problem=f"a {family} was expected")
    held = WireMessage(envelope.data(ANY_VALUE) or b"", kind=family)
    for number, kind in enumerate(KINDS[family], start=1):
        message = held.message(number, kind=kind)
        if message is not None:
            return message
    raise ClientMessageError(kind=family, problem="it holds nothing that is known")
