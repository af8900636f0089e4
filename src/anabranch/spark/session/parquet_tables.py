"""Parquet tables of the session's catalog: their entries, and how an entry becomes one of a Delta table."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from anabranch.schema.serialization import parse_schema
from anabranch.spark.session.catalog import PROVIDER
from anabranch.spark.session.classic_catalog import CatalogObjects, copied
from anabranch.spark.session.table_identifiers import NameIdentifier

_HIVE_PARQUET = "org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe"
_SET_BY_HIVE = "transient_lastDdlTime"
"""A property that Hive adds and changes by itself."""
_GLOB = re.compile(r"[\[\]{}*?\\]")


def spark_path(path: str) -> str:
    """The glob pattern by which `spark.read` reads just the file or folder at an absolute plain path.

    A path without a scheme is local. Spark would look for it in its default file system, so it gets its scheme.
    """
    return _GLOB.sub(r"\\\g<0>", f"file://{path}" if path.startswith("/") else path)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ParquetTable:
    """A table of the catalog with Parquet files."""

    name: str
    """The name as Delta's history has it."""
    schema: StructType
    """All columns, those that partition the table last."""
    partition_columns: tuple[str, ...]
    properties: Mapping[str, str]
    comment: str | None


class ParquetTables:
    """The Parquet tables of one session's catalog."""

    def __init__(self, spark: SparkSession) -> None:
        self._objects = CatalogObjects(spark)
        self._jvm = self._objects.jvm

    def find(self, name: NameIdentifier) -> ParquetTable | None:
        """The Parquet table of that name, as schema and table; None for one of another format."""
        table = self._objects.table(name)
        provider = table.provider().get().lower() if table.provider().isDefined() else ""
        serde = table.storage().serde()
        if provider != "parquet" and not (provider == "hive" and serde.isDefined() and serde.get() == _HIVE_PARQUET):
            return None
        names = table.partitionColumnNames()
        properties = dict(self._converters().asJava(table.properties()))
        return ParquetTable(
            name=str(table.identifier().quotedString()),
            schema=parse_schema(table.schema().json(), str(name)),
            partition_columns=tuple(str(names.apply(index)) for index in range(names.length())),
            properties={key: value for key, value in properties.items() if key != _SET_BY_HIVE},
            comment=table.comment().get() if table.comment().isDefined() else None,
        )

    def partitions(self, name: NameIdentifier) -> dict[str, dict[str, str]]:
        """The folders of the partitions in the catalog, as absolute plain paths, with their values by column."""
        values_by_folder = {}
        listed = self._objects.catalog.listPartitions(self._objects.identifier(name), self._jvm.scala.Option.empty())
        for index in range(listed.length()):
            partition = listed.apply(index)
            spec = dict(self._converters().asJava(partition.spec()))
            location = partition.storage().locationUri()
            if location.isDefined():
                values_by_folder[self._objects.plain_path(location.get())] = {
                    str(key): str(value) for key, value in spec.items()
                }
        return values_by_folder

    def make_delta(self, name: NameIdentifier, schema: StructType) -> None:
        """Makes the entry that of the Delta table in the same folder. Comment, owner and properties are kept."""
        table = self._objects.table(name)
        none = self._jvm.scala.Option.empty()
        storage = copied(table.storage(), {"inputFormat": none, "outputFormat": none, "serde": none})
        changes = {
            "storage": storage,
            "provider": self._jvm.scala.Option.apply(PROVIDER),
            # Partition columns stay in the log alone: in the catalog they would have to come last in the schema.
            "schema": self._jvm.org.apache.spark.sql.types.DataType.fromJson(schema.json()),
            "partitionColumnNames": self._converters().asScala(self._jvm.java.util.ArrayList()).toList(),
            "bucketSpec": none,
            "tracksPartitionsInCatalog": False,
            "stats": none,
        }
        self._objects.catalog.alterTable(copied(table, changes))
        self._objects.catalog.refreshTable(self._objects.identifier(name))

    def _converters(self) -> Any:
        return self._jvm.scala.jdk.javaapi.CollectionConverters
