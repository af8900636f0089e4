"""What a client asks that has no answer but that it is done."""

from __future__ import annotations

import json

from pyspark.sql.types import DataType, StructField

from anabranch.callbacks.delta_sparks_clients.asked import Asked
from anabranch.callbacks.delta_sparks_clients.wire_messages import WireMessage
from anabranch.commands.definition.create_table import CreationMode
from anabranch.errors.arguments import ClientMessageError
from anabranch.spark.served.message_kinds import COLUMN_METADATA, CREATION_MODES
from anabranch.tables.builder import DeltaTableBuilder, IdentityGenerator
from anabranch.tables.delta_table import DeltaTable


def clone(asked: Asked) -> None:
    """As `DeltaTable.clone`, of the newest version, of another, or of that of a time."""
    message, table = asked.message, asked.table()
    target, properties = message.needed(2), message.texts_by_name(7)
    is_shallow, replaces = bool(message.flag(5)), bool(message.flag(6))
    version, timestamp = message.integer(3), message.text(4)
    if version is not None:
        table.cloneAtVersion(version, target, is_shallow, replaces, properties)
    elif timestamp is not None:
        table.cloneAtTimestamp(timestamp, target, is_shallow, replaces, properties)
    else:
        table.clone(target, is_shallow, replaces, properties)


def vacuum(asked: Asked) -> None:
    """As `DeltaTable.vacuum`."""
    asked.table().vacuum(asked.message.double(2))


def upgrade_protocol(asked: Asked) -> None:
    """As `DeltaTable.upgradeTableProtocol`."""
    asked.table().upgradeTableProtocol(asked.message.integer(2) or 0, asked.message.integer(3) or 0)


def generate(asked: Asked) -> None:
    """As `DeltaTable.generate`."""
    asked.table().generate(asked.message.needed(2))


def add_feature(asked: Asked) -> None:
    """As `DeltaTable.addFeatureSupport`."""
    asked.table().addFeatureSupport(asked.message.needed(2))


def drop_feature(asked: Asked) -> None:
    """As `DeltaTable.dropFeatureSupport`."""
    asked.table().dropFeatureSupport(asked.message.needed(2), asked.message.flag(3))


def create(asked: Asked) -> None:
    """As `execute` of the builder that `DeltaTable.create` and its kin give."""
    message = asked.message
    mode = message.integer(1) or 0
    if not 1 <= mode <= len(CREATION_MODES):
        raise ClientMessageError(kind=message.kind, problem=f"nothing is known of mode {mode}")
    builder = DeltaTableBuilder(asked.spark, CreationMode(CREATION_MODES[mode - 1]), DeltaTable)
    name, location, comment = message.text(2), message.text(3), message.text(4)
    if name is not None:
        builder.tableName(name)
    if location is not None:
        builder.location(location)
    if comment is not None:
        builder.comment(comment)
    for column in message.messages(5, kind="CreateDeltaTable.Column"):
        _add_column(asked, builder, column)
    # Without columns these would be partitions of none, which is not the same as saying nothing.
    if partition_columns := message.texts(6):
        builder.partitionedBy(partition_columns)
    if clustering_columns := message.texts(8):
        builder.clusterBy(clustering_columns)
    for key, value in message.texts_by_name(7).items():
        builder.property(key, value)
    builder.execute()


def _add_column(asked: Asked, builder: DeltaTableBuilder, column: WireMessage) -> None:
    name, data_type, nullable = column.needed(1), asked.sparks.type(column.needed_data(2)), bool(column.flag(3))
    metadata = column.text(COLUMN_METADATA)
    if metadata is not None and isinstance(data_type, DataType):
        builder.addColumns([StructField(name, data_type, nullable, json.loads(metadata))])
        return
    generated: str | IdentityGenerator | None = column.text(4)
    by_default = None
    numbers = column.message(6, kind="CreateDeltaTable.Column.IdentityInfo")
    if numbers is not None:
        identity = IdentityGenerator(start=numbers.integer(1) or 0, step=numbers.integer(2) or 0)
        if numbers.flag(3):
            by_default = identity
        else:
            generated = identity
    builder.addColumn(
        name,
        data_type,
        nullable=nullable,
        generatedAlwaysAs=generated,
        generatedByDefaultAs=by_default,
        comment=column.text(5),
    )
