"""Messages about tables on their way from a client's session to its server, and what comes back.

Imported for such sessions alone: it needs the packages of Spark Connect.
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
    """One client's session: it makes Spark's messages for ours, and sends ours."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark: Any = spark

    def relation(self, rows: DataFrame | LogicalPlan) -> Message:
        """The plan of a frame of this session, or a plan of Spark Connect's."""
        plan: Any = rows if isinstance(rows, LogicalPlan) else rows._plan
        relation: Message = plan.plan(self._spark.client)
        return relation

    def expression(self, value: Column | str) -> Message:
        """A column, or SQL."""
        column: Any = F.expr(value) if isinstance(value, str) else value
        expression: Message = column.to_plan(self._spark.client)
        return expression

    def column_name(self, name: str) -> Message:
        """A column that is set, as SQL names it."""
        return self.expression(F.col(name))

    def data_type(self, value: DataType) -> Message:
        """A type as Spark Connect writes it."""
        data_type: Message = pyspark_types_to_proto_types(value)
        return data_type

    def frame(self, plan: LogicalPlan) -> DataFrame:
        """The rows of a plan; nothing is sent yet."""
        made: Any = ClientFrame(plan, self._spark)
        frame: DataFrame = made
        return frame

    def rows(self, content: Message) -> list[Row]:
        """The result of a relation with that content. Raises our errors."""
        with raised_as_ours():
            return self.frame(MessageRelation(content)).collect()

    def run(self, content: Message) -> None:
        """Executes a command with that content. Raises our errors."""
        command: Any = proto.Command()
        command.extension.type_url, command.extension.value = extension_of(COMMAND, content)
        with raised_as_ours():
            self._spark.client.execute_command(command)


class MessageRelation(LogicalPlan):
    """A message of ours as a relation among Spark's."""

    def __init__(self, content: Message) -> None:
        super().__init__(None)
        self._content = content

    def plan(self, session: Any) -> Any:  # noqa: ARG002 - Spark's own signature
        relation: Any = self._create_proto_relation()
        relation.extension.type_url, relation.extension.value = extension_of(RELATION, self._content)
        return relation


@contextlib.contextmanager
def raised_as_ours() -> Iterator[None]:
    """Errors of ours that the server sends are raised as the classes that they are there; others as Spark has them."""
    try:
        yield
    except PySparkException as error:
        ours = error_in(error.getMessageParameters() or {}, str(error))
        if ours is None:
            raise
        raise ours from error
