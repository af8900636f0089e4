"""Messages without a result."""

from __future__ import annotations

import json

from pyspark.sql.types import DataType, StructField

from anabranch.callbacks.message_handlers.received_message import MessageFields, ReceivedMessage
from anabranch.commands.create.create_table import CreationMode
from anabranch.errors.arguments import ClientMessageError
from anabranch.tables.column_arguments import IdentityGenerator
from anabranch.tables.delta_table import DeltaTable, DeltaTableBuilder


def clone(message: ReceivedMessage) -> None:
    """Execute `DeltaTable.clone`, `cloneAtVersion` or `cloneAtTimestamp`."""
    fields, table = message.fields, message.table()
    target, properties = fields.required("target"), fields.get("properties")
    is_shallow, replaces = fields.get("is_shallow"), fields.get("replace")
    version, timestamp = fields.get("version"), fields.get("timestamp")
    if version is not None:
        table.cloneAtVersion(version, target, is_shallow, replaces, properties)
    elif timestamp is not None:
        table.cloneAtTimestamp(timestamp, target, is_shallow, replaces, properties)
    else:
        table.clone(target, is_shallow, replaces, properties)


def vacuum(message: ReceivedMessage) -> None:
    """Execute `DeltaTable.vacuum`."""
    message.table().vacuum(message.fields.get("retention_hours"))


def upgrade_protocol(message: ReceivedMessage) -> None:
    """Execute `DeltaTable.upgradeTableProtocol`."""
    versions = message.fields.get("reader_version"), message.fields.get("writer_version")
    message.table().upgradeTableProtocol(*versions)


def generate(message: ReceivedMessage) -> None:
    """Execute `DeltaTable.generate`."""
    message.table().generate(message.fields.required("mode"))


def add_feature(message: ReceivedMessage) -> None:
    """Execute `DeltaTable.addFeatureSupport`."""
    message.table().addFeatureSupport(message.fields.required("feature_name"))


def drop_feature(message: ReceivedMessage) -> None:
    """Execute `DeltaTable.dropFeatureSupport`."""
    name, truncate_history = message.fields.required("feature_name"), message.fields.get("truncate_history")
    message.table().dropFeatureSupport(name, truncate_history)


def create(message: ReceivedMessage) -> None:
    """Execute the builder that `DeltaTable.create`, `replace` and their variants return."""
    fields = message.fields
    builder = _BUILDERS[_mode(fields)](message.spark)
    name, location, comment = fields.get("table_name"), fields.get("location"), fields.get("comment")
    if name is not None:
        builder.tableName(name)
    if location is not None:
        builder.location(location)
    if comment is not None:
        builder.comment(comment)
    for column in fields.messages("columns"):
        _add_column(message, builder, column)
    # A call without columns would define a table without partitions, which differs from no call.
    if partition_columns := fields.get("partitioning_columns"):
        builder.partitionedBy(partition_columns)
    if clustering_columns := fields.get("clustering_columns"):
        builder.clusterBy(clustering_columns)
    for key, value in fields.get("properties").items():
        builder.property(key, value)
    builder.execute()


_BUILDERS = {
    CreationMode.CREATE: DeltaTable.create,
    CreationMode.CREATE_IF_NOT_EXISTS: DeltaTable.createIfNotExists,
    CreationMode.REPLACE: DeltaTable.replace,
    CreationMode.CREATE_OR_REPLACE: DeltaTable.createOrReplace,
}


def _mode(fields: MessageFields) -> CreationMode:
    name = fields.get("mode")
    mode = CreationMode.__members__.get(name.removeprefix("MODE_"))
    if mode is None:
        raise ClientMessageError(kind=fields.kind, problem=f"mode {name} is not known")
    return mode


def _add_column(message: ReceivedMessage, builder: DeltaTableBuilder, column: MessageFields) -> None:
    name, nullable = column.required("name"), column.get("nullable")
    data_type = message.spark_messages.type(column.required("data_type"))
    metadata = column.get("metadata")
    if metadata is not None and isinstance(data_type, DataType):
        builder.addColumns([StructField(name, data_type, nullable, json.loads(metadata))])
        return
    generated: str | IdentityGenerator | None = column.get("generated_always_as")
    by_default = None
    numbers = column.message("identity_info")
    if numbers is not None:
        identity = IdentityGenerator(start=numbers.get("start"), step=numbers.get("step"))
        if numbers.get("allow_explicit_insert"):
            by_default = identity
        else:
            generated = identity
    builder.addColumn(
        name,
        data_type,
        nullable=nullable,
        generatedAlwaysAs=generated,
        generatedByDefaultAs=by_default,
        comment=column.get("comment"),
    )
