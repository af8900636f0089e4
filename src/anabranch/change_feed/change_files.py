"""Change data files, which hold changed rows. See "Add CDC File" and "Change Data Files"."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from anabranch.change_feed.feed_columns import CHANGE_TYPE, change_file_schema
from anabranch.protocol.actions import AddCDCFile
from anabranch.protocol.log_paths import CHANGE_DATA_DIRECTORY
from anabranch.protocol.properties import TableProperties
from anabranch.schema.column_mapping import ColumnMappingMode
from anabranch.schema.logical_types import without_void
from anabranch.schema.paths import quote
from anabranch.spark.engine import WriteRequest
from anabranch.spark.native.native_engine import NativeEngine
from anabranch.spark.write.row_checks import typed_violations


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
