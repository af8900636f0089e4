"""The columns of a change data feed. See "Change Data Files" and "Reader Requirements for AddCDCFile"."""

from __future__ import annotations

from pyspark.sql.types import DataType, LongType, StringType, StructField, StructType, TimestampType

from anabranch.schema.column_mapping import PHYSICAL_NAME, ColumnMappingMode
from anabranch.schema.names import CHANGE_DATA_COLUMNS, check_reserved

CHANGE_TYPE, COMMIT_VERSION, COMMIT_TIMESTAMP = CHANGE_DATA_COLUMNS

INSERT = "insert"
DELETE = "delete"
UPDATE_PREIMAGE = "update_preimage"
UPDATE_POSTIMAGE = "update_postimage"


def feed_schema(schema: StructType, mode: ColumnMappingMode, *, table: str) -> StructType:
    """The columns of a table, with type, version and time of the change. Raises `ReservedColumnsError`."""
    check_reserved(schema, CHANGE_DATA_COLUMNS, table=table)
    added = [
        _feed_column(CHANGE_TYPE, StringType(), mode),
        _feed_column(COMMIT_VERSION, LongType(), mode),
        _feed_column(COMMIT_TIMESTAMP, TimestampType(), mode),
    ]
    return StructType([*schema.fields, *added])


def change_file_schema(schema: StructType, mode: ColumnMappingMode) -> StructType:
    """The columns that change data files hold, partition columns included."""
    return StructType([*schema.fields, _feed_column(CHANGE_TYPE, StringType(), mode)])


def _feed_column(name: str, data_type: DataType, mode: ColumnMappingMode) -> StructField:
    """A column that the feed adds. It has no id, and the same logical and physical name."""
    return StructField(name, data_type, True, {PHYSICAL_NAME: name} if mode.maps else {})
