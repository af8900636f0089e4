"""What a client asks that has rows for an answer, but for changes of rows."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from anabranch.callbacks.delta_sparks_clients.asked import Asked
from anabranch.commands.convert.convert_table import convert_to_delta
from anabranch.errors.arguments import ClientMessageError
from anabranch.spark.session.delta_session import DeltaSession
from anabranch.spark.session.table_identifiers import PathIdentifier, split_identifier
from anabranch.tables.delta_table import DeltaTable
from anabranch.tables.table_rows import rows_by_spark


def scan(asked: Asked) -> DataFrame:
    """The rows of the newest version."""
    return rows_by_spark(asked.spark, asked.reference())


def history(asked: Asked) -> DataFrame:
    """As `DeltaTable.history`."""
    return asked.table().history()


def detail(asked: Asked) -> DataFrame:
    """As `DeltaTable.detail`."""
    return asked.table().detail()


def is_delta_table(asked: Asked) -> DataFrame:
    """One row: true or false."""
    found = DeltaTable.isDeltaTable(asked.spark, asked.message.needed(1))
    return asked.spark.createDataFrame([(found,)], "value boolean")


def convert(asked: Asked) -> DataFrame:
    """One row: the name of the table that was made."""
    identifier, session = asked.message.needed(1), DeltaSession.of(asked.spark)
    handle = convert_to_delta(session, split_identifier(identifier), partition_schema=_partition_schema(asked))
    name = str(PathIdentifier(handle.path)) if handle.entry is None else identifier
    return asked.spark.createDataFrame([(name,)], "value string")


def restore(asked: Asked) -> DataFrame:
    """As `DeltaTable.restoreToVersion`."""
    version, timestamp = asked.message.integer(2), asked.message.text(3)
    if version is not None:
        return asked.table().restoreToVersion(version)
    if timestamp is not None:
        return asked.table().restoreToTimestamp(timestamp)
    raise ClientMessageError(kind=asked.message.kind, problem="it has neither version nor timestamp")


def optimize(asked: Asked) -> DataFrame:
    """As the `execute` methods of `DeltaTable.optimize()`."""
    builder = asked.table().optimize()
    for partition_filter in asked.message.texts(2):
        builder = builder.where(partition_filter)
    columns = asked.message.texts(3)
    return builder.executeZOrderBy(columns) if columns else builder.executeCompaction()


def _partition_schema(asked: Asked) -> StructType | None:
    text, data = asked.message.text(2), asked.message.data(3)
    schema = text if data is None else asked.sparks.type(data)
    if isinstance(schema, str):
        schema = StructType.fromDDL(schema)
    if schema is not None and not isinstance(schema, StructType):
        raise ClientMessageError(kind=asked.message.kind, problem="its partition schema is no struct")
    return schema
