"""The handlers of callbacks from the JVM, and which handler has which callbacks and commands.

The module of a handler is imported at its first callback: most programs use few of them, and importing all takes
longer than a small query.
"""

from __future__ import annotations

import importlib
import threading
import weakref
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from pyspark.sql import SparkSession

from anabranch.errors.base import DeltaError
from anabranch.spark.gateway.callback_endpoint import Answer, CallbackEndpoint
from anabranch.spark.gateway.session_identity import identity

if TYPE_CHECKING:
    from anabranch.callbacks.driver import Driver
    from anabranch.callbacks.resolved_commands import Command

T = TypeVar("T")

HANDLERS: dict[str, tuple[str, ...]] = {
    "table_handler.TableHandler": (
        *("table", "table at", "is there", "table with suffix", "versions quoted", "table of options"),
        *("change feed", "changes asked", "changes", "check declared"),
    ),
    "read_handler.ReadHandler": ("rows", "whole table", "refuse to read", "check options"),
    "read_handler.TableFunctionHandler": ("table function",),
    "write_handler.WriteHandler": (
        *("save", "default", "stage", "commit staged", "abort staged"),
        *("AppendData", "OverwriteByExpression", "OverwritePartitionsDynamic", "CreateTable"),
    ),
    "dml_handler.DmlHandler": (
        *("refuse to change", "refuse to change rows shown", "refuse metadata"),
        *("DeleteFromTable", "UpdateTable", "MergeIntoTable"),
    ),
    "definition_handler.DefinitionHandler": (
        *("create", "create like", "alter", "rename", "drop", "truncate"),
        *("refuse other format", "replaced by other format", "files into table"),
        *("AlterColumns", "AddCheckConstraint", "CreateTableLikeCommand"),
    ),
    "definition_handler.FolderCatalogHandler": (
        *("folder of table", "folder tables", "folder schemas", "folder of schema"),
        *("create folder schema", "drop folder schema", "refuse in folders"),
    ),
    "statement_handler.DescriptionHandler": (
        *("ShowPartitions", "ShowCreateTable", "DescribeRelationJsonCommand"),
        *("AnalyzeTable", "AnalyzeColumn", "InsertIntoDir", "RepairTable", "TruncatePartition"),
    ),
    "statement_handler.OwnStatementHandler": ("parse", "OwnStatement"),
    "stream_handler.StreamSinkHandler": (
        "open sink",
        "add batch",
        "entry of path",
        "refuse to stream by name",
        "refuse to stream changes",
    ),
    "stream_handler.StreamSourceHandler": (
        *("stream columns", "open stream", "stream until now", "stream position", "stream batch"),
        *("stream committed", "stream metrics", "close stream"),
    ),
    "message_handlers.message_dispatch.MessageHandler": ("message", "refuse message"),
}
"""Modules of this package and the classes in them, with the names of their callbacks and commands. For a name in no
list, all handlers are imported in this order until one has it."""


class Handler(Protocol):
    """The functions for some of the callbacks, and for some of the commands."""

    def callbacks(self) -> dict[str, Answer]:
        """The function for each callback, by the name that Java passes to `delta.Python.ask`."""

    def commands(self) -> dict[str, Command]:
        """The command for each kind of statement, by the name of the plan's node."""


class HandlerRegistry:
    """The handlers for the callbacks of one JVM."""

    def __init__(self, spark: SparkSession) -> None:
        jvm: Any = spark._jvm
        self._jvm = jvm
        self._user_sessions: weakref.WeakValueDictionary[str, SparkSession] = weakref.WeakValueDictionary()
        self._driver: Driver | None = None
        self._handlers: dict[str, Handler] = {}
        self._callbacks: dict[str, Answer] = {"command": self._command, "run": self._run}
        self._commands: dict[str, Command] = {}
        # The constructor of a handler calls the JVM, which may call back on the same thread.
        self._lock = threading.RLock()
        self.endpoint = CallbackEndpoint(jvm, self._callback, _failure_of_file)

    def keep(self, spark: SparkSession) -> None:
        """Pass the object that the user has for this session to the handlers, not another one for the same session."""
        with self._lock:
            self._user_sessions[identity(spark)] = spark

    def _callback(self, name: str) -> Answer:
        return self._registered(name, self._callbacks)

    def _command(self, session: Any, what: str, plan: Any) -> Any:
        """The command that replaces a resolved statement, or the statement as it is."""
        command = self._registered(what, self._commands)
        checked = plan if command.check is None else command.check(session, plan)
        if checked is None:
            return plan
        result = command.result(session, checked) if callable(command.result) else command.result
        return self._shared_driver().command(what, checked, result)

    def _run(self, session: Any, what: str, facts: Any) -> Any:
        """The rows of a command's result."""
        return self._registered(what, self._commands).run(session, facts)

    def _registered(self, name: str, registered: dict[str, T]) -> T:
        if name not in registered:
            for path in _paths_of_handlers(name):
                self._register(path)
                if name in registered:
                    break
        return registered[name]

    def _register(self, path: str) -> None:
        """Import the handler and register its functions. `path` is one of `HANDLERS`."""
        with self._lock:
            if path in self._handlers:
                return
            module, _, name = path.rpartition(".")
            handler: Handler = getattr(importlib.import_module(f"{__package__}.{module}"), name)(self._shared_driver())
            self._commands.update(handler.commands())
            self._callbacks.update(handler.callbacks())
            self._handlers[path] = handler

    def _shared_driver(self) -> Driver:
        with self._lock:
            if self._driver is None:
                from anabranch.callbacks.driver import Driver  # noqa: PLC0415 - see the module's docstring

                self._driver = Driver(self._jvm, self._user_sessions)
            return self._driver


def _paths_of_handlers(name: str) -> Iterator[str]:
    """The paths in `HANDLERS`, first the one that lists the name."""
    yield from (path for path, names in HANDLERS.items() if name in names)
    yield from HANDLERS


def _failure_of_file(condition: str, path: str, reason: str) -> DeltaError | None:
    from anabranch.callbacks.read_handler import failure_of_file  # noqa: PLC0415 - see the module's docstring

    return failure_of_file(condition, path, reason)
