"""Messages about tables on their way from a client's session to its server, and what comes back.

Imported for such sessions alone: it needs the packages of Spark Connect.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.connect import functions as F  # noqa: N812 - PySpark's own convention
from pyspark.sql.connect import proto
from pyspark.sql.connect.dataframe import DataFrame as ClientFrame
from pyspark.sql.connect.plan import LogicalPlan
from pyspark.sql.connect.types import pyspark_types_to_proto_types
from pyspark.sql.types import DataType, Row

from anabranch.spark.served.message_kinds import COMMAND, KINDS, RELATION, TYPE_PREFIX
from anabranch.spark.served.told_errors import error_in
from anabranch.spark.served.wire_fields import data

Written = Callable[["Sender"], bytes]
"""Writes the fields of a message; those of plans and columns are asked of the sender."""


class Sender:
    """One client's session, as messages are written for it and sent."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark: Any = spark

    # What is Spark's own in a message.

    def rows_of(self, frame: DataFrame) -> bytes:
        """The plan of a frame of this session."""
        of_client: Any = frame
        return self.relation(of_client._plan)

    def relation(self, plan: Any) -> bytes:
        """A plan of Spark Connect's."""
        return bytes(plan.plan(self._spark.client).SerializeToString())

    def expression(self, value: Column | str) -> bytes:
        """A column, or SQL."""
        column: Any = F.expr(value) if isinstance(value, str) else value
        return bytes(column.to_plan(self._spark.client).SerializeToString())

    def name(self, column: str) -> bytes:
        """What is set, as SQL names it."""
        return self.expression(F.col(column))

    def type(self, value: DataType) -> bytes:
        message: Any = pyspark_types_to_proto_types(value)
        return bytes(message.SerializeToString())

    # Sending.

    def frame(self, plan: LogicalPlan) -> DataFrame:
        """The rows of a plan; nothing is sent yet."""
        made: Any = ClientFrame(plan, self._spark)
        frame: DataFrame = made
        return frame

    def rows(self, kind: str, written: Written) -> list[Row]:
        """Of a relation. Raises our errors."""
        with raised_as_ours():
            return self.frame(SentRelation(self, kind, written)).collect()

    def run(self, kind: str, written: Written) -> None:
        """A command. Raises our errors."""
        command: Any = proto.Command()
        _hold(command.extension, COMMAND, kind, written(self))
        with raised_as_ours():
            self._spark.client.execute_command(command)


class SentRelation(LogicalPlan):
    """A message in the place of a relation of Spark's."""

    def __init__(self, sender: Sender, kind: str, written: Written) -> None:
        super().__init__(None)
        self._sender = sender
        self._kind = kind
        self._written = written

    def plan(self, session: Any) -> Any:  # noqa: ARG002 - Spark's own signature
        relation: Any = self._create_proto_relation()
        _hold(relation.extension, RELATION, self._kind, self._written(self._sender))
        return relation


@contextlib.contextmanager
def raised_as_ours() -> Iterator[None]:
    """Errors of ours that the server tells of are raised as what they are there; others as Spark has them."""
    try:
        yield
    except PySparkException as error:
        found = error_in(error.getMessageParameters() or {}, str(error))
        if found is None:
            raise
        raise found from error


def _hold(extension: Any, family: str, kind: str, fields: bytes) -> None:
    extension.type_url = f"{TYPE_PREFIX}{family}"
    extension.value = data(KINDS[family].index(kind) + 1, fields)
