"""A client's message: its fields, the session that it came in, and Spark's own messages in it."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.types import DataType, StructType

from anabranch.callbacks.driver import Driver
from anabranch.commands.table_access import TableRef, existing_table_at, table_identified
from anabranch.errors.arguments import ClientMessageError
from anabranch.spark.session.delta_session import DeltaSession
from anabranch.spark.session.table_identifiers import PathIdentifier, is_absolute_path, parse_identifier
from anabranch.tables.delta_table import DeltaTable
from anabranch.tables.local_tables import LocalTable


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class MessageFields:
    """The fields of a message by their names in `delta_connect.proto`, as `MessageReader.java` reads them."""

    kind: str
    values: Mapping[str, Any]

    def get(self, name: str) -> Any:
        """The value of a field; None if it is not set."""
        return self.values.get(name)

    def required(self, name: str) -> Any:
        """The value of a field that must be set to a non-empty value. Raises `ClientMessageError`."""
        value = self.values.get(name)
        if value is None:
            raise ClientMessageError(kind=self.kind, problem=f"{name} is not set")
        if value == "":
            raise ClientMessageError(kind=self.kind, problem=f"{name} is empty")
        return value

    def message(self, name: str) -> MessageFields | None:
        """The message in a field."""
        values = self.values.get(name)
        return None if values is None else MessageFields(kind=f"{self.kind}.{name}", values=values)

    def messages(self, name: str) -> list[MessageFields]:
        """The messages in a field that may have several."""
        return [MessageFields(kind=f"{self.kind}.{name}", values=values) for values in self.values[name]]


class SparkMessages:
    """Relations and expressions, by their positions in a message, as Spark's planner reads them; and types."""

    def __init__(self, driver: Driver, session: Any, reader: Any) -> None:
        self._driver = driver
        self._session = session
        self._reader = reader

    def frame(self, relation: int) -> DataFrame:
        """The rows of a relation, analyzed. It may hold one of ours in turn, or be one."""
        return self._driver.frame(self._session, self._reader.plan(relation))

    def column(self, expression: int) -> Column:
        """An expression, not resolved yet; a column of a client's DataFrame still belongs to it."""
        return self._driver.column(self._reader.expression(expression))

    def column_or_none(self, expression: int | None) -> Column | None:
        """The column of a field that need not be set; None if it is not."""
        return None if expression is None else self.column(expression)

    def type(self, data_type: Mapping[str, str]) -> DataType | str:
        """A type, or the text of one that the client has not parsed."""
        if "ddl" in data_type:
            return data_type["ddl"]
        column = {"name": "c", "type": json.loads(data_type["json"]), "nullable": True, "metadata": {}}
        return StructType.fromJson({"type": "struct", "fields": [column]}).fields[0].dataType


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ReceivedMessage:
    """One message of a client."""

    spark: SparkSession
    fields: MessageFields
    spark_messages: SparkMessages

    def table_ref(self) -> TableRef:
        """The table that the message names: a path with settings of its storage, or a name.

        The name may be an absolute path: clients send one for a clone that they have named by its path.
        Raises `NotADeltaTableError` if there is no such table.
        """
        session = DeltaSession.of(self.spark)
        reference = self.fields.message("table")
        path = None if reference is None else reference.message("path")
        if path is not None:
            return existing_table_at(session, path.required("path"), path.get("hadoop_conf"))
        name = None if reference is None else reference.get("table_or_view_name")
        if name is None:
            raise ClientMessageError(kind=self.fields.kind, problem="it names no table")
        return table_identified(session, PathIdentifier(name) if is_absolute_path(name) else parse_identifier(name))

    def table(self) -> DeltaTable:
        """The table that the message names, as users have it. Raises as `table_ref`."""
        return DeltaTable(LocalTable(self.spark, self.table_ref()))
