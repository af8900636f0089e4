"""Spark's own catalog of a classic session, and the objects that it takes and gives."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import SparkSession

from anabranch.spark.table_identifiers import NameIdentifier


class CatalogObjects:
    """What the JVM knows of one session's tables. Names are schema and table."""

    def __init__(self, spark: SparkSession) -> None:
        self.jvm: Any = spark.sparkContext._jvm
        self._session: Any = spark._jsparkSession

    @property
    def catalog(self) -> Any:
        """The `SessionCatalog`."""
        return self._session.sessionState().catalog()

    def identifier(self, name: NameIdentifier) -> Any:
        """A `TableIdentifier`."""
        schema, table = name.parts
        return self.jvm.org.apache.spark.sql.catalyst.TableIdentifier(table, self.jvm.scala.Option.apply(schema))

    def table(self, name: NameIdentifier) -> Any:
        """The `CatalogTable` of that name, which must be there."""
        return self.catalog.getTableMetadata(self.identifier(name))

    def plain_path(self, uri: Any) -> str:
        """A catalog's URI, decoded, as Hadoop writes paths."""
        return str(self.jvm.org.apache.hadoop.fs.Path(uri).toString())


def copied(value: Any, changes: Mapping[str, Any]) -> Any:
    """A case class of Scala's with some fields changed; how many it has differs by Spark version."""
    fields = [value.productElementName(place) for place in range(value.productArity())]
    return value.copy(*(changes.get(field, value.productElement(place)) for place, field in enumerate(fields)))
