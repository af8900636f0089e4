"""Which question is answered by whom.

Parts are imported when they are first asked: most programs use few of them, and importing all takes longer than a
small query.
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

PARTS: dict[str, tuple[str, ...]] = {
    "answer_tables.Tables": (
        *("table", "table at", "is there", "table with suffix", "versions quoted", "table of options"),
        *("change feed", "changes asked", "changes", "check declared"),
    ),
    "answer_reads.Reads": ("rows", "whole table", "refuse to read", "check options"),
    "answer_reads.TableFunctions": ("table function",),
    "answer_writes.Writes": (
        *("save", "default", "stage", "commit staged", "abort staged"),
        *("AppendData", "OverwriteByExpression", "OverwritePartitionsDynamic", "CreateTable"),
    ),
    "answer_row_changes.RowChanges": (
        *("refuse to change", "refuse to change rows shown", "refuse metadata"),
        *("DeleteFromTable", "UpdateTable", "MergeIntoTable"),
    ),
    "answer_definitions.Definitions": (
        *("create", "create like", "alter", "rename", "drop", "truncate"),
        *("refuse other format", "replaced by other format", "files into table"),
        *("AlterColumns", "AddCheckConstraint", "CreateTableLikeCommand"),
    ),
    "answer_definitions.Folders": (
        *("folder of table", "folder tables", "folder schemas", "folder of schema"),
        *("create folder schema", "drop folder schema", "refuse in folders"),
    ),
    "answer_statements.Descriptions": (
        *("ShowPartitions", "ShowCreateTable", "DescribeRelationJsonCommand"),
        *("AnalyzeTable", "AnalyzeColumn", "InsertIntoDir", "RepairTable", "TruncatePartition"),
    ),
    "answer_statements.OwnStatements": ("parse", "OwnStatement"),
    "answer_streams.Streams": (
        "open sink",
        "add batch",
        "entry of path",
        "refuse to stream by name",
        "refuse to stream changes",
    ),
    "answer_streams.StreamSources": (
        *("stream columns", "open stream", "stream until now", "stream position", "stream batch"),
        *("stream committed", "stream metrics", "close stream"),
    ),
    "message_handlers.message_dispatch.MessageHandlers": ("message", "refuse message"),
}
"""Modules of this package and the classes in them, with questions and commands that they are known to answer. For any
other all parts are asked, in this order."""


class Answering(Protocol):
    """What answers some of the questions."""

    def answers(self) -> dict[str, Answer]:
        """By question, as `delta.Python.ask` has it."""

    def commands(self) -> dict[str, Command]:
        """By the name of the plan's node."""


class Answers:
    """The answers to the questions of one JVM."""

    def __init__(self, spark: SparkSession) -> None:
        jvm: Any = spark._jvm
        self._jvm = jvm
        self._kept: weakref.WeakValueDictionary[str, SparkSession] = weakref.WeakValueDictionary()
        self._driver: Driver | None = None
        self._parts: dict[str, Answering] = {}
        self._answers: dict[str, Answer] = {"command": self._command, "run": self._run}
        self._commands: dict[str, Command] = {}
        # The thread that makes a part may be asked in turn.
        self._lock = threading.RLock()
        self.door = CallbackEndpoint(jvm, self._answer, _failure_of_file)

    def keep(self, spark: SparkSession) -> None:
        """Let questions of this session be answered with the very object that the user has for it."""
        with self._lock:
            self._kept[identity(spark)] = spark

    def _answer(self, question: str) -> Answer:
        return self._found(question, self._answers)

    def _command(self, session: Any, what: str, plan: Any) -> Any:
        """The command in the place of a resolved statement, or the statement as it is."""
        command = self._found(what, self._commands)
        checked = plan if command.check is None else command.check(session, plan)
        if checked is None:
            return plan
        result = command.result(session, checked) if callable(command.result) else command.result
        return self._ready_driver().command(what, checked, result)

    def _run(self, session: Any, what: str, facts: Any) -> Any:
        """The rows of a command's result."""
        return self._found(what, self._commands).run(session, facts)

    def _found(self, what: str, where: dict[str, T]) -> T:
        if what not in where:
            for part in _parts_for(what):
                self._make(part)
                if what in where:
                    break
        return where[what]

    def _make(self, place: str) -> None:
        with self._lock:
            if place in self._parts:
                return
            module, _, name = place.rpartition(".")
            part: Answering = getattr(importlib.import_module(f"{__package__}.{module}"), name)(self._ready_driver())
            self._commands.update(part.commands())
            self._answers.update(part.answers())
            self._parts[place] = part

    def _ready_driver(self) -> Driver:
        with self._lock:
            if self._driver is None:
                from anabranch.callbacks.driver import Driver  # noqa: PLC0415 - see above

                self._driver = Driver(self._jvm, self._kept)
            return self._driver


def _parts_for(what: str) -> Iterator[str]:
    """First the one that is known for it."""
    yield from (part for part, known in PARTS.items() if what in known)
    yield from PARTS


def _failure_of_file(condition: str, path: str, reason: str) -> DeltaError | None:
    from anabranch.callbacks.answer_reads import failure_of_file  # noqa: PLC0415 - see above

    return failure_of_file(condition, path, reason)
