"""Rows become data files of a table: the one way of all statements that add rows."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from anabranch.commands.table_access import TableRef
from anabranch.protocol.properties import TableProperties
from anabranch.schema.column_mapping import ColumnMappingMode
from anabranch.spark.engine import WriteRequest, WrittenFiles
from anabranch.spark.write.optimized_write import optimized
from anabranch.spark.write.row_checks import typed_violations


def write_data_files(
    handle: TableRef,
    rows: DataFrame,
    *,
    schema: StructType,
    partition_columns: tuple[str, ...],
    properties: TableProperties,
    max_records_per_file: int | None = None,
    parquet: tuple[tuple[str, str], ...] = (),
    optimize: bool | None = None,
) -> WrittenFiles:
    """Run the frame, whose columns are those of `schema`, and write its rows. Nothing is committed.

    `parquet` are options of Parquet's writer. With `optimize` rows are brought together first; None leaves that to the
    session and the table. Raises the errors of `refuse_when` columns among the rows, `InvalidOptionError`.
    """
    together = optimized(
        handle.session, rows, properties=properties, partition_columns=partition_columns, option=optimize
    )
    with typed_violations():
        return handle.session.engine.write(
            WriteRequest(
                table_root=handle.path,
                frame=together,
                schema=schema,
                partition_columns=partition_columns,
                column_mapping=ColumnMappingMode.parse(properties.column_mapping_mode),
                properties=properties,
                max_records_per_file=max_records_per_file,
                options=(*handle.storage, *parquet),
            )
        )
