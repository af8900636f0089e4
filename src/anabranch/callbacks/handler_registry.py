"""The handlers of callbacks from the JVM, and which of their commands runs a statement.

The module of a handler is imported at its first callback: most programs use few of them, and importing all takes
longer than a small query.
"""

from __future__ import annotations

import importlib
import threading
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pyspark.sql import SparkSession

from anabranch.errors.base import DeltaError
from anabranch.spark.gateway.callback_endpoint import CallbackEndpoint
from anabranch.spark.gateway.jvm_sessions import identity

if TYPE_CHECKING:
    from anabranch.callbacks.driver import Driver
    from anabranch.callbacks.resolved_commands import Command

HANDLERS = {
    "TableHandler": "table_handler",
    "ReadHandler": "read_handler",
    "TableFunctionHandler": "read_handler",
    "WriteHandler": "write_handler",
    "DmlHandler": "dml_handler",
    "DefinitionHandler": "definition_handler",
    "FolderCatalogHandler": "definition_handler",
    "DescriptionHandler": "statement_handler",
    "OwnStatementHandler": "statement_handler",
    "StreamSinkHandler": "stream_handler",
    "StreamSourceHandler": "stream_handler",
    "MessageHandler": "message_handlers.message_dispatch",
}
"""The module of each handler. The public methods of a handler are the callbacks of `anabranch.PythonCallbacks`."""

COMMANDS_BY_NODE = {
    "AppendData": "WriteHandler.write",
    "OverwriteByExpression": "WriteHandler.write",
    "OverwritePartitionsDynamic": "WriteHandler.write",
    "CreateTable": "WriteHandler.create_with_rows",
    "DeleteFromTable": "DmlHandler.delete",
    "UpdateTable": "DmlHandler.update",
    "MergeIntoTable": "DmlHandler.merge",
    "AlterColumns": "DefinitionHandler.alter_columns",
    "AddCheckConstraint": "DefinitionHandler.add_check",
    "CreateTableLikeCommand": "DefinitionHandler.create_like",
    "ShowPartitions": "DescriptionHandler.show_partitions",
    "ShowCreateTable": "DescriptionHandler.show_create_table",
    "DescribeRelationJsonCommand": "DescriptionHandler.describe_as_json",
    "AnalyzeTable": "DescriptionHandler.analyze",
    "AnalyzeColumn": "DescriptionHandler.analyze",
    "InsertIntoDir": "DescriptionHandler.insert_into_folder",
    "RepairTable": "DescriptionHandler.repair",
    "TruncatePartition": "DescriptionHandler.truncate_partition",
    "OwnStatement": "OwnStatementHandler.run",
}
"""The handler and its `Command` for each kind of statement, by the name of the plan's node in Spark."""


class HandlerRegistry:
    """The handlers for the callbacks of one JVM. It has the callbacks for statements, which any handler may run."""

    def __init__(self, spark: SparkSession) -> None:
        jvm: Any = spark._jvm
        self._jvm = jvm
        self._user_sessions: weakref.WeakValueDictionary[str, SparkSession] = weakref.WeakValueDictionary()
        self._driver: Driver | None = None
        self._handlers: dict[str, Any] = {type(self).__name__: self}
        # The constructor of a handler calls the JVM, which may call back on the same thread.
        self._lock = threading.RLock()
        self.endpoint = CallbackEndpoint(jvm, self._function, _failure_of_file)

    def keep(self, spark: SparkSession) -> None:
        """Pass the object that the user has for this session to the handlers, not another one for the same session."""
        with self._lock:
            self._user_sessions[identity(spark)] = spark

    def command_of(self, session: Any, node: str, statement: Any) -> Any:
        """The command that replaces a resolved statement, or the statement as it is."""
        handler, command = self._command(node)
        checked = statement if command.check is None else command.check(handler, session, statement)
        if checked is None:
            return statement
        result = command.result(handler, session, checked) if callable(command.result) else command.result
        return self._shared_driver().command(node, checked, result)

    def run_command(self, session: Any, node: str, statement: Any) -> Any:
        """The rows of a command's result."""
        handler, command = self._command(node)
        return command.run(handler, session, statement)

    def _command(self, node: str) -> tuple[Any, Command]:
        name, _, command = COMMANDS_BY_NODE[node].partition(".")
        handler = self._handler(name)
        return handler, getattr(handler, command)

    def _function(self, callback: str) -> Callable[..., Any]:
        """The function for a callback such as `TableHandler.table_by_path`."""
        name, _, function = callback.partition(".")
        return getattr(self._handler(name), function)  # type: ignore[no-any-return]

    def _handler(self, name: str) -> Any:
        return self._handlers.get(name) or self._new_handler(name)

    def _new_handler(self, name: str) -> Any:
        with self._lock:
            if name not in self._handlers:
                module = importlib.import_module(f"{__package__}.{HANDLERS[name]}")
                self._handlers[name] = getattr(module, name)(self._shared_driver())
            return self._handlers[name]

    def _shared_driver(self) -> Driver:
        with self._lock:
            if self._driver is None:
                from anabranch.callbacks.driver import Driver  # noqa: PLC0415 - see the module's docstring

                self._driver = Driver(self._jvm, self._user_sessions)
            return self._driver


def _failure_of_file(condition: str, path: str, reason: str) -> DeltaError | None:
    from anabranch.callbacks.read_handler import failure_of_file  # noqa: PLC0415 - see the module's docstring

    return failure_of_file(condition, path, reason)
