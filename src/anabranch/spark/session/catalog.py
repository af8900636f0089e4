"""The session's catalog, as far as Delta tables need it: the folder of each table name."""

from __future__ import annotations

import dataclasses
import hashlib

from pyspark.sql import SparkSession

from anabranch.errors.tables import InvalidIdentifierError, UnsupportedCatalogError
from anabranch.spark.session.table_identifiers import NameIdentifier

SESSION_CATALOG = "spark_catalog"
CATALOG_CLASS = "delta.DeltaCatalog"
"""The name of our catalog's Java class."""
WAREHOUSE = "warehouse"
"""The last part of the setting for the folder of a catalog, after the name of the setting for its class."""
PROVIDER = "delta"
MANAGED_MARK = "anabranch.managedFolder"
"""A property, in the catalog alone, of tables whose folder the catalog chose although it has them as external."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CatalogEntry:
    """A table or view as the catalog has it."""

    name: NameIdentifier
    """The name with its schema, without the catalog; in a catalog of folders, with it and the schema, if any."""
    provider: str | None
    """The format in lower case; None for views."""
    location: str | None
    is_managed: bool
    """Whether the folder is removed when the table is dropped."""
    leaves_folder: bool = False
    """Whether the catalog itself would leave the folder: for it any table with a location is external."""
    is_view: bool = False
    of_folders: bool = False
    """Whether the entry is of a catalog in which names are those of folders."""

    @property
    def full_name(self) -> NameIdentifier:
        """The name with the catalog."""
        return self.name if self.of_folders else NameIdentifier((SESSION_CATALOG, *self.name.parts))

    @property
    def is_delta(self) -> bool:
        return self.provider == PROVIDER and self.location is not None


def managed_mark(location: str) -> str:
    """The value of `MANAGED_MARK` for a table in that folder: it no longer matches once the table has been moved."""
    path = location.removeprefix("file:")
    return hashlib.sha256(f"/{path.lstrip('/')}".encode()).hexdigest()[:16]


def qualify(spark: SparkSession, name: NameIdentifier) -> NameIdentifier | None:
    """The name as schema and table; None where it belongs to another catalog than the session's own."""
    parts = name.parts
    if len(parts) == 3:
        return NameIdentifier(parts[1:]) if _is_session_catalog(spark, parts[0]) else None
    if not _is_session_catalog(spark, spark.catalog.currentCatalog()):
        return None
    if len(parts) == 2:
        return name
    return NameIdentifier((spark.catalog.currentDatabase(), parts[0]))


def _is_session_catalog(spark: SparkSession, name: str) -> bool:
    """Whether the catalog has the tables of `spark_catalog`, as a `CATALOG_CLASS` without a folder has for any name."""
    if name.lower() == SESSION_CATALOG:
        return True
    return spark.conf.get(f"spark.sql.catalog.{name}", None) == CATALOG_CLASS and warehouse_of(spark, name) is None


def warehouse_of(spark: SparkSession, name: str) -> str | None:
    """The folder of a catalog of ours in which names are those of folders; None for all others."""
    key = f"spark.sql.catalog.{name}"
    if name.lower() == SESSION_CATALOG or spark.conf.get(key, None) != CATALOG_CLASS:
        return None
    return spark.conf.get(f"{key}.{WAREHOUSE}", None)


def require_session_catalog(spark: SparkSession, name: NameIdentifier) -> NameIdentifier:
    """The name as schema and table. Raises `UnsupportedCatalogError` for another catalog."""
    if not name.parts[-1]:
        raise InvalidIdentifierError(identifier=str(name), problem="the table's name is empty")
    qualified = qualify(spark, name)
    if qualified is None:
        catalog = name.parts[0] if len(name.parts) == 3 else spark.catalog.currentCatalog()
        raise UnsupportedCatalogError(table=str(name), catalog=catalog)
    return qualified
