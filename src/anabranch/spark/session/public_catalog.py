"""The session catalog through public API and SQL alone, as on Spark Connect."""

from __future__ import annotations

import json
import re
from urllib.parse import unquote

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql.types import DataType, StructField, StructType

from anabranch.errors.arguments import UnsupportedOperationError
from anabranch.spark.session.catalog import (
    MANAGED_MARK,
    PROVIDER,
    SESSION_CATALOG,
    CatalogEntry,
    StoredView,
    managed_mark,
    qualify,
)
from anabranch.spark.session.session_settings import own_sql
from anabranch.spark.session.table_identifiers import NameIdentifier, quote, split_identifier

_GLOB = re.compile(r"([*|\[\]])")


class PublicCatalog:
    """`SessionCatalog` by `SHOW TABLE EXTENDED` and `spark.catalog`. Needs the `delta` source registered."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def find(self, name: NameIdentifier) -> CatalogEntry | None:
        qualified = qualify(self._spark, name)
        if qualified is None:
            return None
        information = self._information(qualified)
        if information is None:
            return None
        location = unquote(information.get("Location", "")) or None
        marked = location is not None and managed_mark(location) in information.get("Table Properties", "")
        return CatalogEntry(
            name=qualified,
            provider=information.get("Provider", "").lower() or None,
            location=location,
            is_managed=information.get("Type") == "MANAGED" or marked,
            leaves_folder=marked,
            view=self._stored_view(qualified) if information.get("Type") == "VIEW" else None,
        )

    def is_temporary_view(self, name: NameIdentifier) -> bool:
        if len(name.parts) > 1:
            return name.parts[0].lower() == "global_temp"
        wanted = name.parts[0].lower()
        return any(table.isTemporary and table.name.lower() == wanted for table in self._spark.catalog.listTables())

    def default_location(self, name: NameIdentifier) -> str:
        schema, table = name.parts
        folder = self._spark.catalog.getDatabase(schema).locationUri
        return f"{unquote(folder)}/{table.lower()}"

    def register(self, entry: CatalogEntry, *, schema: StructType, partition_columns: tuple[str, ...]) -> None:
        # Spark asks the source for the columns; partition columns stand in the log. A table with a location is
        # external to the catalog, so that a mark must say whose choice the folder was.
        del schema, partition_columns
        if self.find(entry.name) is not None:
            return
        assert entry.location is not None
        name = f"{SESSION_CATALOG}.{entry.name.quoted}"
        # That of an enabled session keeps users from making bare entries.
        mark = f"TBLPROPERTIES ('{MANAGED_MARK}' = '{managed_mark(entry.location)}')" if entry.is_managed else ""
        own_sql(self._spark, f"CREATE TABLE {name} USING {PROVIDER} LOCATION {_literal(entry.location)} {mark}")

    def set_view_text(self, name: NameIdentifier, text: str) -> None:
        del text
        operation = f"The view {name} over a Delta table that has no name, or over an older version, on Spark Connect"
        raise UnsupportedOperationError(operation=operation, instead="Use CREATE TEMP VIEW.")

    def _stored_view(self, name: NameIdentifier) -> StoredView | None:
        # That of an enabled session would ask here again what the name stands for.
        row = own_sql(self._spark, f"DESCRIBE TABLE EXTENDED {SESSION_CATALOG}.{name.quoted} AS JSON").first()
        told = json.loads("{}" if row is None else row[0])
        if "view_text" not in told:
            return None
        # The rows of a view that reads Delta tables are out of Spark's sight; its columns are not.
        columns = own_sql(self._spark, f"DESCRIBE TABLE {SESSION_CATALOG}.{name.quoted}").collect()
        fields = [
            StructField(row.col_name, _type_of(row.data_type), metadata={"comment": row.comment} if row.comment else {})
            for row in columns
        ]
        output = told.get("view_query_output_columns")
        return StoredView(
            text=told["view_text"],
            namespace=split_identifier(told.get("view_catalog_and_namespace") or quote(name.parts[0])),
            output=tuple(output) if output else None,
            schema=StructType(fields),
            evolves=told.get("view_schema_mode") == "EVOLUTION",
        )

    def _information(self, name: NameIdentifier) -> dict[str, str] | None:
        schema, table = name.parts
        pattern = _literal(_GLOB.sub(r"\\\1", table))
        try:
            rows = self._spark.sql(f"SHOW TABLE EXTENDED IN {quote(schema)} LIKE {pattern}").collect()
        except AnalysisException:
            return None
        for row in rows:
            if row.tableName.lower() == table.lower() and not row.isTemporary:
                lines = row.information.split("\n")
                return dict(line.split(": ", 1) for line in lines if ": " in line and not line.startswith(" "))
        return None


def _type_of(ddl: str) -> DataType:
    kind = StructType.fromDDL(f"c {ddl}")
    assert isinstance(kind, StructType)
    return kind.fields[0].dataType


def _literal(text: str) -> str:
    """A SQL string that means exactly `text`."""
    # Spark would put a variable where `${` stands, also in quotes.
    escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("$", "\\u0024")
    return f"'{escaped}'"
