"""Clients' messages about tables, executed by our own `DeltaTable`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from pyspark.sql import DataFrame

from anabranch.callbacks.driver import Driver
from anabranch.callbacks.message_handlers import command_handlers, relation_handlers, row_change_handlers
from anabranch.callbacks.message_handlers.received_message import MessageFields, ReceivedMessage, SparkMessages
from anabranch.connect_messages.message_descriptor import COMMAND, RELATION
from anabranch.errors.arguments import ClientMessageError

RELATIONS: Mapping[str, Callable[[ReceivedMessage], DataFrame]] = {
    "Scan": relation_handlers.scan,
    "DescribeHistory": relation_handlers.history,
    "DescribeDetail": relation_handlers.detail,
    "ConvertToDelta": relation_handlers.convert,
    "RestoreTable": relation_handlers.restore,
    "IsDeltaTable": relation_handlers.is_delta_table,
    "DeleteFromTable": row_change_handlers.delete,
    "UpdateTable": row_change_handlers.update,
    "MergeIntoTable": row_change_handlers.merge,
    "OptimizeTable": relation_handlers.optimize,
}
COMMANDS: Mapping[str, Callable[[ReceivedMessage], None]] = {
    "CloneTable": command_handlers.clone,
    "VacuumTable": command_handlers.vacuum,
    "UpgradeTableProtocol": command_handlers.upgrade_protocol,
    "Generate": command_handlers.generate,
    "CreateDeltaTable": command_handlers.create,
    "AddFeatureSupport": command_handlers.add_feature,
    "DropFeatureSupport": command_handlers.drop_feature,
}


class MessageHandler:
    """Executes messages that `anabranch.messages.MessagePlugin` has parsed."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    def execute_message(self, session: Any, family: str, fields: str, reader: Any) -> Any:
        """Execute a relation or a command. Returns the plan of a relation. Raises as `DeltaTable`'s methods."""
        content = content_of(family, fields)
        spark_messages = SparkMessages(self._driver, session, reader)
        message = ReceivedMessage(spark=self._driver.spark(session), fields=content, spark_messages=spark_messages)
        if family == COMMAND:
            return COMMANDS[content.kind](message)
        rows: Any = RELATIONS[content.kind](message)
        execution = rows._jdf.queryExecution()
        # Spark keeps plans for later executions, and the table of a scan may have other columns by then.
        return execution.logical() if content.kind == "Scan" else execution.commandExecuted()

    def refuse_message(self, family: str, problem: str) -> NoReturn:
        """Raises `ClientMessageError`."""
        raise ClientMessageError(kind=family, problem=problem)


def content_of(family: str, fields: str) -> MessageFields:
    """The message in a relation or a command. Raises `ClientMessageError` for one that this release does not know."""
    handlers: Mapping[str, object] = RELATIONS if family == RELATION else COMMANDS
    for kind, values in json.loads(fields).items():
        if kind in handlers:
            return MessageFields(kind=kind, values=values)
    raise ClientMessageError(kind=family, problem="it contains nothing that this release handles")
