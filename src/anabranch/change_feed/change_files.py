"""The columns of a change data feed, and change data files. See "Add CDC File" and "Change Data Files"."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql.types import DataType, LongType, StringType, StructField, StructType, TimestampType

from anabranch.protocol.actions import AddCDCFile
from anabranch.protocol.log_paths import CHANGE_DATA_DIRECTORY
from anabranch.protocol.properties import TableProperties
from anabranch.schema.column_mapping import PHYSICAL_NAME, ColumnMappingMode
from anabranch.schema.logical_types import without_void
from anabranch.schema.names import CHANGE_DATA_COLUMNS, check_reserved
from anabranch.spark.engine import WriteRequest
from anabranch.spark.native.native_engine import NativeEngine
from anabranch.spark.session.table_identifiers import quote
from anabranch.spark.write.row_checks import typed_violations

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


def write_change_files(
    engine: NativeEngine,
    frame: DataFrame,
    *,
    table_root: str,
    schema: StructType,
    partition_columns: tuple[str, ...],
    properties: TableProperties,
    options: Sequence[tuple[str, str]] = (),
) -> tuple[AddCDCFile, ...]:
    """Write rows with the columns of `schema` and `_change_type`, partitioned like data files, without a commit."""
    mode = ColumnMappingMode.parse(properties.column_mapping_mode)
    stored = without_void(schema)
    names = [*stored.fieldNames(), CHANGE_TYPE]
    with typed_violations():
        written = engine.write(
            WriteRequest(
                table_root=table_root,
                frame=frame.select(*(frame[quote(name)] for name in names)),
                schema=change_file_schema(stored, mode),
                partition_columns=partition_columns,
                column_mapping=mode,
                properties=properties,
                directory=CHANGE_DATA_DIRECTORY,
                options=options,
            )
        )
    return tuple(
        AddCDCFile(path=add.path, partition_values=add.partition_values, size=add.size, data_change=False)
        for add in written.adds
    )
