"""CREATE TABLE LIKE: another table's columns, partitioning and properties, without its rows."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from pyspark.sql.types import StructField, StructType

from anabranch.commands.clustering import clustering_columns
from anabranch.commands.table_access import is_delta_identifier, table_identified
from anabranch.commands.table_definition import TableDefinition
from anabranch.schema.column_mapping import MAPPING_KEYS
from anabranch.schema.paths import FieldPath, transform
from anabranch.schema.visibility import IDENTITY_HIGH_WATER_MARK
from anabranch.schema.widening import TYPE_CHANGES
from anabranch.snapshot.snapshot import Snapshot
from anabranch.spark.delta_session import DeltaSession
from anabranch.spark.table_identifiers import PathIdentifier, TableIdentifier
from anabranch.transaction.checkpoint_protection import PROTECTED_BEFORE

_OF_THE_SOURCE = MAPPING_KEYS | {TYPE_CHANGES, IDENTITY_HIGH_WATER_MARK}
_PROPERTIES_OF_THE_SOURCE = frozenset(
    (
        "delta.columnMapping.maxColumnId",
        "delta.rowTracking.materializedRowIdColumnName",
        "delta.rowTracking.materializedRowCommitVersionColumnName",
        "delta.inCommitTimestampEnablementVersion",
        "delta.inCommitTimestampEnablementTimestamp",
        "delta.rowTrackingSuspended",
        PROTECTED_BEFORE,
    )
)


def definition_like(session: DeltaSession, source: TableIdentifier, properties: Mapping[str, str]) -> TableDefinition:
    """The definition of a table like `source`, which may have another format; `properties` go before the source's."""
    if is_delta_identifier(session, source):
        like = definition_of(table_identified(session, source).latest())
    else:
        like = _of_other(session, source)
    return dataclasses.replace(like, properties={**like.properties, **properties})


def definition_of(snapshot: Snapshot) -> TableDefinition:
    """The definition of another table like this one, without what its own files and history have left in it."""
    kept = {
        name: value
        for name, value in snapshot.metadata.configuration.items()
        if value is not None and name not in _PROPERTIES_OF_THE_SOURCE
    }
    return TableDefinition(
        schema=transform(snapshot.schema, _without_marks),
        partition_columns=snapshot.partition_columns,
        clustering_columns=tuple(".".join(path) for path in clustering_columns(snapshot)),
        properties=kept,
        description=snapshot.metadata.description,
    )


def _of_other(session: DeltaSession, source: TableIdentifier) -> TableDefinition:
    assert not isinstance(source, PathIdentifier)
    columns = session.spark.catalog.listColumns(source.quoted)
    return TableDefinition(
        schema=StructType(session.spark.table(source.quoted).schema.fields),
        partition_columns=tuple(column.name for column in columns if column.isPartition),
    )


def _without_marks(_path: FieldPath, field: StructField) -> StructField:
    """The field without what files of the source are known by."""
    metadata = {key: value for key, value in field.metadata.items() if key not in _OF_THE_SOURCE}
    return StructField(field.name, field.dataType, field.nullable, metadata)
