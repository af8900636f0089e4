"""Partition columns that are computed from a column `at`, and files of such partitions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import types as T

from anabranch.data_skipping.file_skipping import SkippingColumns, can_be_true
from anabranch.data_skipping.generated_bounds import generated_partitions
from anabranch.log.file_columns import table_of_adds
from anabranch.predicates.expressions import Predicate
from anabranch.protocol.actions import AddFile
from anabranch.schema.column_mapping import ColumnMappingMode
from anabranch.schema.computed_columns import GENERATION_EXPRESSION

MOMENT, WALL, DATE, TEXT, INT = T.TimestampType(), T.TimestampNTZType(), T.DateType(), T.StringType(), T.IntegerType()

COLUMNS: dict[str, tuple[str, T.DataType]] = {
    "as_date": ("CAST(at AS DATE)", DATE),
    "to_date": ("to_date(`at`)", DATE),
    "year": ("YEAR(at)", INT),
    "month": ("MONTH(at)", INT),
    "day": ("day(cast(at as date))", INT),
    "hour": ("HOUR(at)", INT),
    "text_year": ("DATE_FORMAT(at, 'yyyy')", TEXT),
    "text_month": ("DATE_FORMAT(at, 'yyyy-MM')", TEXT),
    "text_day": ('date_format(at, "yyyyMMdd")', TEXT),
    "text_hour": ("date_format(at, 'yyyy-MM-dd-HH')", TEXT),
    "first_of_year": ("TRUNC(at, 'YEAR')", DATE),
    "first_of_month": ("(trunc(at, 'month'))", DATE),
    "first_of_quarter": ("TRUNC(at, 'quarter')", DATE),
    "monday": ("TRUNC(at, 'WEEK')", DATE),
    "at_hour": ("date_trunc('HOUR', at)", MOMENT),
    "at_month": ("DATE_TRUNC('MM', at)", MOMENT),
}
"""SQL and type, by name."""


def schema_of(source: T.DataType, columns: Sequence[str]) -> T.StructType:
    fields = [T.StructField("at", source)]
    for name in columns:
        sql, data_type = COLUMNS[name]
        fields.append(T.StructField(name, data_type, metadata={GENERATION_EXPRESSION: sql}))
    return T.StructType(fields)


def skipping_columns(schema: T.StructType, partitions: Sequence[Mapping[str, str | None]]) -> SkippingColumns:
    """The columns of files without statistics, one file per partition value."""
    adds = [
        AddFile(path="f", partition_values=dict(values), size=1, modification_time=0, data_change=True)
        for values in partitions
    ]
    names = list(partitions[0])
    return SkippingColumns(
        table_of_adds(adds),
        physical_schema=schema,
        partition_columns=names,
        generated=generated_partitions(schema, names, ColumnMappingMode.NONE),
    )


def keeps(schema: T.StructType, partition: Mapping[str, str | None], predicate: Predicate) -> bool:
    """Whether a file without statistics is read."""
    return bool(can_be_true(predicate, skipping_columns(schema, [partition]))[0])
