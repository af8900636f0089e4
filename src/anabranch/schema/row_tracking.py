"""The columns in which data files keep what rows are told by, once they have moved. See "Row Tracking"."""

from __future__ import annotations

import dataclasses

from pyspark.sql.types import LongType, StructField, StructType

from anabranch.errors.optimize import RowTrackingColumnsError
from anabranch.protocol.actions import Protocol
from anabranch.protocol.features import active
from anabranch.protocol.properties import TableProperties
from anabranch.schema.column_mapping import PHYSICAL_NAME


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RowTrackingColumns:
    """They are no columns of the table: no schema names them, no user sees them, and they have no statistics."""

    row_id: str
    commit_version: str

    @property
    def fields(self) -> tuple[StructField, StructField]:
        """As columns of a table, to be read and written with the others. Files that hold none have NULL there."""
        return _field(self.row_id), _field(self.commit_version)

    def added_to(self, schema: StructType) -> StructType:
        """The columns of the table, and these last."""
        return StructType([*schema.fields, *self.fields])


def row_tracking_columns(
    protocol: Protocol, properties: TableProperties, schema: StructType, *, table: str
) -> RowTrackingColumns | None:
    """The columns of a table whose rows keep their ids; None for any other. Raises `RowTrackingColumnsError`."""
    if not active(protocol, "rowTracking", properties=properties, schema=schema):
        return None
    row_id, version = properties.materialized_row_id_column, properties.materialized_row_commit_version_column
    if row_id is None or version is None:
        raise RowTrackingColumnsError(table=table)
    return RowTrackingColumns(row_id=row_id, commit_version=version)


def _field(name: str) -> StructField:
    return StructField(name, LongType(), True, {PHYSICAL_NAME: name})
