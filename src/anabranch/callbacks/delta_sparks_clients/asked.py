"""What a client asks: one message, the session that it came in, and what reads Spark's own messages in it."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.types import DataType, StructType

from anabranch.callbacks.asker import Asker
from anabranch.callbacks.delta_sparks_clients.wire_messages import WireMessage
from anabranch.commands.table_access import TableRef, table_at, table_identified
from anabranch.errors.arguments import ClientMessageError
from anabranch.spark.session.delta_session import DeltaSession
from anabranch.spark.session.table_identifiers import PathIdentifier, is_absolute_path, parse_identifier
from anabranch.tables.delta_table import DeltaTable

_UNPARSED, _DDL = 24, 1


class SparksMessages:
    """Relations, expressions and types as Spark's planner reads them. They arrive and leave as Catalyst's."""

    def __init__(self, asker: Asker, session: Any, planner: Any) -> None:
        self._asker = asker
        self._session = session
        self._planner = planner

    def frame(self, relation: bytes) -> DataFrame:
        """The rows of a relation, analyzed. It may be one of ours in turn, or hold one."""
        return self._asker.frame(self._session, self._planner.plan(relation))

    def column(self, expression: bytes) -> Column:
        """An expression, not resolved yet; a column of a client's DataFrame still belongs to it."""
        return self._asker.column(self._planner.expression(expression))

    def type(self, data: bytes) -> DataType | str:
        """A type, or the text of one that the client has not read."""
        unparsed = WireMessage(data, kind="DataType").message(_UNPARSED, kind="DataType.Unparsed")
        if unparsed is not None:
            return unparsed.needed(_DDL)
        column = {"name": "c", "type": json.loads(self._planner.type(data)), "nullable": True, "metadata": {}}
        return StructType.fromJson({"type": "struct", "fields": [column]}).fields[0].dataType


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One message of a client's."""

    spark: SparkSession
    message: WireMessage
    sparks: SparksMessages

    def reference(self) -> TableRef:
        """The table of a message, in its first field: a path with settings of its storage, or a name.

        An absolute path is taken for a name too: clients ask so for a clone that they have named by its path. Raises
        `NotADeltaTableError` where there is no such table.
        """
        session = DeltaSession.of(self.spark)
        asked = self.message.message(1, kind="DeltaTable")
        path = None if asked is None else asked.message(1, kind="DeltaTable.Path")
        if path is not None:
            found = table_at(session, path.needed(1), path.texts_by_name(2))
            found.latest()
            return found
        name = None if asked is None else asked.text(2)
        if name is None:
            raise ClientMessageError(kind="DeltaTable", problem="it names no table")
        return table_identified(session, PathIdentifier(name) if is_absolute_path(name) else parse_identifier(name))

    def table(self) -> DeltaTable:
        """The same as users have it."""
        return DeltaTable(self.spark, self.reference())
