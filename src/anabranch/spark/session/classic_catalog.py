"""The session's own catalog, through Spark's JVM classes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from anabranch.spark.session.catalog import (
    MANAGED_MARK,
    PROVIDER,
    CatalogEntry,
    managed_mark,
    qualify,
)
from anabranch.spark.session.table_identifiers import PATH_SCHEMA, NameIdentifier


class CatalogObjects:
    """The JVM's catalog objects of one session. Names are schema and table."""

    def __init__(self, spark: SparkSession) -> None:
        self.jvm: Any = spark.sparkContext._jvm
        self._session: Any = spark._jsparkSession

    @property
    def catalog(self) -> Any:
        """The `SessionCatalog`."""
        return self._session.sessionState().catalog()

    def identifier(self, name: NameIdentifier) -> Any:
        """The name as a `TableIdentifier`."""
        schema, table = name.parts
        return self.jvm.org.apache.spark.sql.catalyst.TableIdentifier(table, self.jvm.scala.Option.apply(schema))

    def table(self, name: NameIdentifier) -> Any:
        """The `CatalogTable` of that name, which must exist."""
        return self.catalog.getTableMetadata(self.identifier(name))

    def plain_path(self, uri: Any) -> str:
        """A URI of the catalog, decoded, as Hadoop writes paths."""
        return str(self.jvm.org.apache.hadoop.fs.Path(uri).toString())


def copied(value: Any, changes: Mapping[str, Any]) -> Any:
    """A Scala case class with some fields changed; the number of its fields differs by Spark version."""
    fields = [value.productElementName(index) for index in range(value.productArity())]
    return value.copy(*(changes.get(field, value.productElement(index)) for index, field in enumerate(fields)))


_CATALOG = "org.apache.spark.sql.catalyst.catalog"


class ClassicCatalog:
    """Table names in Spark's own catalog object.

    `CREATE TABLE` in SQL would refuse a folder that holds files; a Delta commit comes first and the
    name second, so entries are made here without that check.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._objects = CatalogObjects(spark)
        self._jvm = self._objects.jvm

    def find(self, name: NameIdentifier) -> CatalogEntry | None:
        """The table or view of that name; None where there is none."""
        qualified = qualify(self._spark, name)
        if qualified is None:
            return None
        identifier = self._objects.identifier(qualified)
        catalog = self._objects.catalog
        if not catalog.databaseExists(qualified.parts[0]) or not catalog.tableExists(identifier):
            return None
        table = catalog.getTableMetadata(identifier)
        provider, uri = table.provider(), table.storage().locationUri()
        location = self._objects.plain_path(uri.get()) if uri.isDefined() else None
        mark = table.properties().get(MANAGED_MARK)
        marked = mark.isDefined() and location is not None and mark.get() == managed_mark(location)
        return CatalogEntry(
            name=qualified,
            provider=provider.get().lower() if provider.isDefined() else None,
            location=location,
            is_managed=table.tableType().name() == "MANAGED" or marked,
            leaves_folder=marked,
            is_view=table.tableType().name() == "VIEW",
        )

    def is_temporary_view(self, name: NameIdentifier) -> bool:
        """Whether the name is that of a temporary view, which Spark resolves before tables."""
        parts = self._jvm.java.util.ArrayList()
        for part in name.parts:
            parts.append(part)
        names = self._jvm.scala.jdk.javaapi.CollectionConverters.asScala(parts).toSeq()
        return bool(self._objects.catalog.isTempView(names))

    def default_location(self, name: NameIdentifier) -> str:
        """The folder of a managed table of that name."""
        return self._objects.plain_path(self._objects.catalog.defaultTablePath(self._objects.identifier(name)))

    def register(self, entry: CatalogEntry, *, schema: StructType, partition_columns: tuple[str, ...]) -> None:
        """Adds the entry to the catalog; it replaces an entry of the same name."""
        identifier = self._objects.identifier(entry.name)
        catalog = self._objects.catalog
        table = self._table(identifier, entry, schema, partition_columns)
        if catalog.tableExists(identifier):
            catalog.alterTable(table)
        else:
            catalog.createTable(table, True, False)

    def entry_of_path(self, path: str, schema: StructType) -> Any:
        """A `CatalogTable` for a folder that is in no catalog."""
        name = NameIdentifier((PATH_SCHEMA, path))
        entry = CatalogEntry(name=name, provider=PROVIDER, location=path, is_managed=False)
        return self._table(self._objects.identifier(name), entry, schema, ())

    def _table(
        self, identifier: Any, entry: CatalogEntry, schema: StructType, partition_columns: tuple[str, ...]
    ) -> Any:
        none = self._jvm.scala.Option.empty()
        location = self._jvm.scala.Option.apply(self._jvm.org.apache.hadoop.fs.Path(entry.location).toUri())
        storage = self._build(
            "CatalogStorageFormat",
            [location, none, none, none, False, self._companion("CatalogStorageFormat").empty().properties()],
        )
        kinds = self._companion("CatalogTableType")
        kind = kinds.MANAGED() if entry.is_managed else kinds.EXTERNAL()
        # Partition columns stay in the log alone: in the catalog they would have to come last in the schema.
        del partition_columns
        columns = self._jvm.org.apache.spark.sql.types.DataType.fromJson(schema.json())
        return self._build("CatalogTable", [identifier, kind, storage, columns, self._jvm.scala.Option.apply(PROVIDER)])

    def _build(self, class_name: str, leading: list[Any]) -> Any:
        """A case class from its first arguments. The others, whose number differs by Spark version, get defaults."""
        companion = self._companion(class_name)
        constructor = self._jvm.java.lang.Class.forName(f"{_CATALOG}.{class_name}").getConstructors()[0]
        arguments = list(leading)
        for position in range(len(leading) + 1, constructor.getParameterCount() + 1):
            default = f"apply$default${position}"
            arguments.append(
                getattr(companion, default)() if class_name == "CatalogTable" else self._jvm.scala.Option.empty()
            )
        return getattr(getattr(self._jvm, _CATALOG), class_name)(*arguments)

    def _companion(self, class_name: str) -> Any:
        return self._jvm.java.lang.Class.forName(f"{_CATALOG}.{class_name}$").getField("MODULE$").get(None)
