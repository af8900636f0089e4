"""Which columns data files hold: without the partition columns, or with them behind all others.

See "Writer Requirements for IcebergCompatV1" and "Writer Requirements for IcebergCompatV2".
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention
from pyspark.sql.types import StringType, StructType

from anabranch.protocol.iceberg_compat import stores_partition_columns
from anabranch.protocol.properties import TableProperties
from anabranch.spark.void_columns import quoted_name


def stored_fields(schema: StructType, partition_columns: Sequence[str], properties: TableProperties) -> StructType:
    """The columns of data files, in their order there, out of those of the table."""
    data = [field for field in schema.fields if field.name not in partition_columns]
    return StructType([*data, *(schema[name] for name in stored_partitions(partition_columns, properties))])


def stored_partitions(partition_columns: Sequence[str], properties: TableProperties) -> tuple[str, ...]:
    """The partition columns that data files hold."""
    return tuple(partition_columns) if stores_partition_columns(properties) else ()


def without_empty_text(frame: DataFrame, schema: StructType, partition_columns: Sequence[str]) -> DataFrame:
    """An empty string is no partition value, see "Partition Value Serialization": files must not say otherwise."""
    texts = {name for name in partition_columns if isinstance(schema[name].dataType, StringType)}
    if not texts:
        return frame
    return frame.select(*(_nulled(frame, name) if name in texts else frame[quoted_name(name)] for name in schema.names))


def _nulled(frame: DataFrame, name: str) -> Column:
    column = frame[quoted_name(name)]
    return F.when(column != F.lit(""), column).alias(name)
