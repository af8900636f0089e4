"""The session's catalog, as far as Delta tables need it: which name stands for which folder."""

from __future__ import annotations

import dataclasses
import hashlib

from pyspark.sql import SparkSession

from anabranch.errors.tables import InvalidIdentifierError, UnsupportedCatalogError
from anabranch.spark.session.table_identifiers import NameIdentifier

SESSION_CATALOG = "spark_catalog"
CATALOG_CLASS = "delta.DeltaCatalog"
"""Of the JVM's."""
WAREHOUSE = "warehouse"
"""Behind the setting of a catalog, the one of its folder."""
PROVIDER = "delta"
MANAGED_MARK = "anabranch.managedFolder"
"""A property, for the catalog alone, of tables whose folder it chose, and which it takes for external all the same."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CatalogEntry:
    """A table or view as the catalog has it."""

    name: NameIdentifier
    """With its schema, without the catalog; of a catalog of folders with it, and without a schema where it has none."""
    provider: str | None
    """Lower case; None for views."""
    location: str | None
    is_managed: bool
    """The folder goes when the table is dropped."""
    leaves_folder: bool = False
    """The catalog would leave it there: it takes any table with a location for an external one."""
    is_view: bool = False
    of_folders: bool = False
    """It is of a catalog in which names are those of folders."""

    @property
    def full_name(self) -> NameIdentifier:
        """With the catalog."""
        return self.name if self.of_folders else NameIdentifier((SESSION_CATALOG, *self.name.parts))

    @property
    def is_delta(self) -> bool:
        return self.provider == PROVIDER and self.location is not None


def managed_mark(location: str) -> str:
    """What `MANAGED_MARK` says of a table in that folder; moved elsewhere it is no longer true."""
    place = location.removeprefix("file:")
    return hashlib.sha256(f"/{place.lstrip('/')}".encode()).hexdigest()[:16]


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
    """Whether it has the tables of the session's own, as `CATALOG_CLASS` has under any name, unless it has a folder."""
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
