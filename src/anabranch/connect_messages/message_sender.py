"""Sends messages about tables from a client's session to its server, and returns the results.

It needs the packages of Spark Connect, so it is imported only for sessions of clients.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from google.protobuf.message import Message
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.connect import functions as F  # noqa: N812 - PySpark's own convention
from pyspark.sql.connect import proto
from pyspark.sql.connect.dataframe import DataFrame as ClientFrame
from pyspark.sql.connect.plan import LogicalPlan
from pyspark.sql.connect.types import pyspark_types_to_proto_types
from pyspark.sql.types import DataType, Row

from anabranch.connect_messages.message_classes import extension_of
from anabranch.connect_messages.message_descriptor import COMMAND, RELATION
from anabranch.spark.gateway.error_text import error_in


class MessageSender:
    """Creates messages of Spark Connect, as parts of anabranch's messages, and sends these, in one client's session."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark: Any = spark

    def relation(self, rows: DataFrame | LogicalPlan) -> Message:
        """The message of a DataFrame's plan, or of a plan of Spark Connect."""
        plan: Any = rows if isinstance(rows, LogicalPlan) else rows._plan
        relation: Message = plan.plan(self._spark.client)
        return relation

    def expression(self, value: Column | str) -> Message:
        """The message of a column, or of an SQL expression."""
        column: Any = F.expr(value) if isinstance(value, str) else value
        expression: Message = column.to_plan(self._spark.client)
        return expression

    def column_name(self, name: str) -> Message:
        """The message of a column that is assigned, by its name as in SQL."""
        return self.expression(F.col(name))

    def data_type(self, value: DataType) -> Message:
        """The message of a data type."""
        data_type: Message = pyspark_types_to_proto_types(value)
        return data_type

    def frame(self, plan: LogicalPlan) -> DataFrame:
        """A DataFrame of the plan. Nothing is sent yet."""
        client_frame: Any = ClientFrame(plan, self._spark)
        frame: DataFrame = client_frame
        return frame

    def rows(self, content: Message) -> list[Row]:
        """Send a relation with that content, and return its rows. Raises anabranch's errors."""
        with raised_as_ours():
            return self.frame(MessageRelation(content)).collect()

    def run(self, content: Message) -> None:
        """Execute a command with that content. Raises anabranch's errors."""
        command: Any = proto.Command()
        command.extension.type_url, command.extension.value = extension_of(COMMAND, content)
        with raised_as_ours():
            self._spark.client.execute_command(command)


class MessageRelation(LogicalPlan):
    """One of anabranch's messages as a relation in a plan of Spark."""

    def __init__(self, content: Message) -> None:
        super().__init__(None)
        self._content = content

    def plan(self, session: Any) -> Any:  # noqa: ARG002 - Spark's own signature
        relation: Any = self._create_proto_relation()
        relation.extension.type_url, relation.extension.value = extension_of(RELATION, self._content)
        return relation


@contextlib.contextmanager
def raised_as_ours() -> Iterator[None]:
    """Raise anabranch's errors that the server sends as the classes that they are there; others stay Spark's."""
    try:
        yield
    except PySparkException as error:
        ours = error_in(error.getMessageParameters() or {}, str(error))
        if ours is None:
            raise
        raise ours from error
