"""Messages whose result is rows, except for changes of rows."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from anabranch.callbacks.message_handlers.received_message import ReceivedMessage
from anabranch.commands.convert.convert_table import convert_to_delta
from anabranch.errors.arguments import ClientMessageError
from anabranch.spark.session.delta_session import DeltaSession
from anabranch.spark.session.table_identifiers import PathIdentifier, split_identifier
from anabranch.tables.delta_table import DeltaTable
from anabranch.tables.local_tables import rows_by_spark


def scan(message: ReceivedMessage) -> DataFrame:
    """The rows of the newest version."""
    return rows_by_spark(message.spark, message.table_ref())


def history(message: ReceivedMessage) -> DataFrame:
    """The rows of `DeltaTable.history`."""
    return message.table().history()


def detail(message: ReceivedMessage) -> DataFrame:
    """The row of `DeltaTable.detail`."""
    return message.table().detail()


def is_delta_table(message: ReceivedMessage) -> DataFrame:
    """One row: true or false."""
    exists = DeltaTable.isDeltaTable(message.spark, message.fields.required("path"))
    return message.spark.createDataFrame([(exists,)], "value boolean")


def convert(message: ReceivedMessage) -> DataFrame:
    """Convert a table. The result is one row: the name of the table."""
    identifier, session = message.fields.required("identifier"), DeltaSession.of(message.spark)
    table = convert_to_delta(session, split_identifier(identifier), partition_schema=_partition_schema(message))
    name = str(PathIdentifier(table.path)) if table.entry is None else identifier
    return message.spark.createDataFrame([(name,)], "value string")


def restore(message: ReceivedMessage) -> DataFrame:
    """Execute `DeltaTable.restoreToVersion` or `restoreToTimestamp`."""
    version, timestamp = message.fields.get("version"), message.fields.get("timestamp")
    if version is not None:
        return message.table().restoreToVersion(version)
    if timestamp is not None:
        return message.table().restoreToTimestamp(timestamp)
    raise ClientMessageError(kind=message.fields.kind, problem="it has neither version nor timestamp")


def optimize(message: ReceivedMessage) -> DataFrame:
    """Execute `executeCompaction` or `executeZOrderBy` of `DeltaTable.optimize()`."""
    builder = message.table().optimize()
    for partition_filter in message.fields.get("partition_filters"):
        builder = builder.where(partition_filter)
    columns = message.fields.get("zorder_columns")
    return builder.executeZOrderBy(columns) if columns else builder.executeCompaction()


def _partition_schema(message: ReceivedMessage) -> StructType | None:
    text, struct = message.fields.get("partition_schema_string"), message.fields.get("partition_schema_struct")
    schema = text if struct is None else message.spark_messages.type(struct)
    if isinstance(schema, str):
        schema = StructType.fromDDL(schema)
    if schema is not None and not isinstance(schema, StructType):
        raise ClientMessageError(kind=message.fields.kind, problem="its partition schema is not a struct")
    return schema
