"""Columns, partitioning and properties of a table, brought together: names, ids, and what follows from properties."""

from __future__ import annotations

import dataclasses
import random
import uuid
from collections.abc import Mapping, Sequence

from pyspark.sql.types import StructType

from anabranch.commands.clustering import clustering_domain, column_named
from anabranch.commands.generate_rules import check_manifests
from anabranch.protocol.actions import DomainMetadata
from anabranch.protocol.iceberg_compat import numbers_nested_fields
from anabranch.protocol.properties import TableProperties
from anabranch.schema.char_varchar import without_char_varchar
from anabranch.schema.column_ids import assign_ids_and_names, check_mapping, random_names, reuse_mapping
from anabranch.schema.column_mapping import ColumnMappingMode
from anabranch.schema.names import check_duplicates, check_names
from anabranch.schema.partitioning import partition_columns_of
from anabranch.schema.serialization import check_types

MAX_ID = "delta.columnMapping.maxColumnId"
ROW_ID_COLUMN = "delta.rowTracking.materializedRowIdColumnName"
ROW_VERSION_COLUMN = "delta.rowTracking.materializedRowCommitVersionColumnName"
_ROW_TRACKING = "delta.enableRowTracking"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TableShape:
    """Columns and properties with everything filled in that the table itself decides."""

    schema: StructType
    partition_columns: tuple[str, ...]
    configuration: Mapping[str, str]
    domains: tuple[DomainMetadata, ...]

    @property
    def properties(self) -> TableProperties:
        return TableProperties(self.configuration)


def table_shape(
    given: StructType,
    configuration: Mapping[str, str],
    *,
    partition_columns: Sequence[str] = (),
    clustering_columns: Sequence[str] = (),
    label: str,
    source: random.Random,
    old_schema: StructType | None = None,
    keeps_names: bool = False,
) -> TableShape:
    """The shape of a table of these columns and stored properties.

    `old_schema`: columns of the same name and type as there keep their identity. `keeps_names`: files that are there
    call the columns as `given` does. Raises the errors of `errors.schema`.
    """
    check_types(given, label)
    schema = without_char_varchar(given)
    # Before columns are told apart by ids: two of one name would get one.
    check_duplicates(schema, where="the schema", table=label)
    partitions = partition_columns_of(schema, partition_columns, table=label)
    stored = _with_row_tracking_columns(dict(configuration), source)
    mode = ColumnMappingMode.parse(TableProperties(stored).column_mapping_mode)
    if mode.maps:
        known = schema if old_schema is None else reuse_mapping(schema, old_schema)
        # Ids count up from the highest ever given: files may still use those of columns that are gone.
        highest = int(stored.get(MAX_ID, "0"))
        schema, highest = assign_ids_and_names(
            known,
            highest,
            keep_names=keeps_names,
            new_name=random_names(source),
            with_nested_ids=numbers_nested_fields(TableProperties(stored)),
        )
        stored[MAX_ID] = str(highest)
        check_mapping(schema, mode, highest, table=label)
    else:
        stored.pop(MAX_ID, None)
    properties = TableProperties(stored)
    check_manifests(properties, mode, table=label)
    check_names(schema, mode, table=label, change_data_feed=properties.change_data_feed_enabled)
    domains = _clustering(clustering_columns, schema, properties, partitions, label)
    return TableShape(schema=schema, partition_columns=partitions, configuration=stored, domains=domains)


def _clustering(
    columns: Sequence[str],
    schema: StructType,
    properties: TableProperties,
    partition_columns: tuple[str, ...],
    label: str,
) -> tuple[DomainMetadata, ...]:
    if not columns:
        return ()
    paths = tuple(column_named(schema, name) for name in columns)
    return (clustering_domain(paths, schema, properties, partition_columns, label=label),)


def _with_row_tracking_columns(stored: dict[str, str], source: random.Random) -> dict[str, str]:
    """See "Row Tracking": the names of the columns are fixed when row tracking starts."""
    if stored.get(_ROW_TRACKING, "false").lower() != "true":
        return stored
    names = {
        ROW_ID_COLUMN: f"_row-id-col-{uuid.UUID(int=source.getrandbits(128), version=4)}",
        ROW_VERSION_COLUMN: f"_row-commit-version-col-{uuid.UUID(int=source.getrandbits(128), version=4)}",
    }
    return {**names, **stored}
