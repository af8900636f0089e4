"""What an existing table becomes by ALTER TABLE: schema, properties, and the protocol that follows from them."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

import msgspec
from pyspark.sql.types import StructType

from anabranch.commands.table_definition import DefinedTable, current_properties
from anabranch.commands.table_shape import table_shape
from anabranch.errors.schema import InvalidColumnMappingError
from anabranch.errors.tables import EmptyTableSchemaError
from anabranch.protocol.actions import Metadata, Protocol
from anabranch.protocol.iceberg_compat import without_orphaned_format, writes_iceberg
from anabranch.protocol.properties import TableProperties
from anabranch.protocol.protocol_evolution import ProtocolRequest, protocol_for_existing_table
from anabranch.protocol.stats_columns import check_stats_columns
from anabranch.schema.column_mapping import ColumnMappingMode, check_mode_change, has_mapping
from anabranch.schema.iceberg_rules import check_iceberg_table
from anabranch.schema.serialization import parse_schema, schema_string
from anabranch.uniform.library import check_installed

NOTHING_ASKED = ProtocolRequest()


def altered_table(
    metadata: Metadata,
    protocol: Protocol,
    *,
    schema: StructType | None = None,
    configuration: Mapping[str, str] | None = None,
    partition_columns: Sequence[str] | None = None,
    requested: ProtocolRequest = NOTHING_ASKED,
    label: str,
    source: random.Random,
) -> DefinedTable:
    """The actions that give an existing table these things and leave the others as they are.

    Columns of `schema` carry the ids and physical names that they have; new ones get theirs here. Raises the errors
    of `errors.schema`, and those of properties and protocols.
    """
    old_schema = parse_schema(metadata.schema_string, label)
    asked = current_properties(metadata) if configuration is None else configuration
    given = without_orphaned_format(TableProperties(metadata.configuration), asked)
    old_mode = ColumnMappingMode.parse(TableProperties(metadata.configuration).column_mapping_mode)
    new_mode = ColumnMappingMode.parse(TableProperties(given).column_mapping_mode)
    check_mode_change(old_mode, new_mode)
    starts_mapping = new_mode.maps and not old_mode.maps
    if starts_mapping and has_mapping(old_schema):
        reason = "columns have ids already, left over from somewhere else; which files they fit nobody knows"
        raise InvalidColumnMappingError(table=label, column="", reason=reason)
    if schema is not None and old_schema.fields and not schema.fields:
        raise EmptyTableSchemaError(table=label)
    shape = table_shape(
        old_schema if schema is None else schema,
        given,
        partition_columns=metadata.partition_columns if partition_columns is None else partition_columns,
        label=label,
        source=source,
        keeps_names=starts_mapping,
    )
    check_stats_columns(shape.schema, shape.properties, partition_columns=shape.partition_columns)
    changed = msgspec.structs.replace(
        metadata,
        schema_string=metadata.schema_string if shape.schema == old_schema else schema_string(shape.schema),
        partition_columns=list(shape.partition_columns),
        configuration=dict(shape.configuration),
    )
    upgraded = protocol_for_existing_table(protocol, shape.schema, shape.properties, requested)
    check_iceberg_table(changed, upgraded, old=metadata, table=label)
    if not writes_iceberg(TableProperties(metadata.configuration)):
        check_installed(shape.properties, table=label)
    return DefinedTable(metadata=changed, protocol=upgraded)
