"""Catalogs of folders: in the catalog's own folder a folder with a log is a table, any other folder is a schema.

The catalog keeps nothing but the folders: two drivers, or another engine that writes a table there, need no service
between them. The first commit of a log decides which of several writers has made a table.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from anabranch.errors.arguments import UnsupportedOperationError
from anabranch.errors.tables import InvalidIdentifierError, InvalidTableNameError, SchemaMissingError
from anabranch.protocol.log_paths import LOG_DIRECTORY
from anabranch.spark.session.catalog import (
    PROVIDER,
    SESSION_CATALOG,
    CatalogEntry,
    require_session_catalog,
    warehouse_of,
)
from anabranch.spark.session.classic_catalog import ClassicCatalog
from anabranch.spark.session.table_identifiers import NameIdentifier, split_identifier
from anabranch.storage.log_store import LogStore

SCHEMA_MARK = ".schema"
"""A file that keeps a folder without tables where the storage has no folders."""
_LISTERS = 8
"""The number of folders that are listed at once: enough to hide the latency of a network."""

_NAME_FOR_SPARK = re.compile(r"\w+", re.ASCII)
"""Names that Spark's own catalog accepts for new schemas and tables."""

OpenStore = Callable[[str], LogStore]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FolderName:
    """A schema or table of a catalog of folders. Raises `InvalidIdentifierError` for a name that no folder has."""

    catalog: str
    warehouse: str
    folders: tuple[str, ...]
    """For a table its schema, if it is in one, and its own folder; for a schema its own; none for the catalog."""

    def __post_init__(self) -> None:
        for part in self.folders:
            if problem := _problem_of(part):
                raise InvalidIdentifierError(identifier=str(self.identifier), problem=problem)

    @property
    def identifier(self) -> NameIdentifier:
        return NameIdentifier((self.catalog, *self.folders))

    @property
    def location(self) -> str:
        return "/".join((self.warehouse.rstrip("/"), *self.folders))


def _problem_of(part: str) -> str | None:
    """The reason why a folder of the catalog cannot have this name; None where it can."""
    if not part:
        return "a part of it is empty"
    if any(character in "/\\" or ord(character) < 32 for character in part):
        return f"{part!r} cannot be the name of a folder"
    if part[0] in "._":
        return f"{part!r} would be a hidden folder, or one outside the catalog"
    return None


class CatalogsOfSession:
    """The session's own catalog, and the catalogs of folders that its settings name."""

    def __init__(self, spark: SparkSession, own: ClassicCatalog, open_store: OpenStore) -> None:
        self._spark = spark
        self._own = own
        self._open_store = open_store

    def find(self, name: NameIdentifier) -> CatalogEntry | None:
        folder = self._folder_table(name)
        if folder is None:
            return self._own.find(name)
        return entry_of_folder(folder) if self.holds_log(folder) else None

    def is_temporary_view(self, name: NameIdentifier) -> bool:
        return self._own.is_temporary_view(name)

    def qualified(self, name: NameIdentifier) -> NameIdentifier:
        """The name with its catalog. Raises `UnsupportedCatalogError` for another catalog than ours."""
        folder = self._folder_table(name)
        if folder is not None:
            return folder.identifier
        return NameIdentifier((SESSION_CATALOG, *require_session_catalog(self._spark, name).parts))

    def new_entry(self, name: NameIdentifier, location: str | None) -> CatalogEntry:
        """The entry for a new table of that qualified name.

        Raises `UnsupportedOperationError` for a location other than the name's folder, `SchemaMissingError`, and
        `InvalidTableNameError`.
        """
        folder = self._folder_table(name)
        if folder is None:
            own = require_session_catalog(self._spark, name)
            if not all(_NAME_FOR_SPARK.fullmatch(part) for part in own.parts):
                # Spark itself checks a name when it adds it to its catalog, which is after the table's first commit.
                raise InvalidTableNameError(table=str(own))
            path = self._own.default_location(own) if location is None else location
            return CatalogEntry(name=own, provider=PROVIDER, location=path, is_managed=location is None)
        entry = entry_of_folder(folder)
        if location is not None and _plain(location) != _plain(folder.location):
            raise UnsupportedOperationError(
                operation=f"{folder.identifier} at another location than {folder.location}, its folder in the catalog,",
                instead=f"Leave the location out, or make the table in spark_catalog, or as delta.`{location}`.",
            )
        *schema, _ = folder.folders
        self._check_schema(dataclasses.replace(folder, folders=tuple(schema)), folder)
        return entry

    def register(self, entry: CatalogEntry, *, schema: StructType, partition_columns: tuple[str, ...]) -> None:
        if not entry.of_folders:
            self._own.register(entry, schema=schema, partition_columns=partition_columns)
            return
        folder = self._folder_table(entry.name)
        if folder is not None and _plain(entry.location or "") != _plain(folder.location):
            operation = f"Another location for {folder.identifier}, whose folder follows from its name,"
            raise UnsupportedOperationError(operation=operation, instead="Use a name in spark_catalog.")

    def folder_name(self, parts: Sequence[str]) -> FolderName:
        """The schema or table of a name with its catalog, which is one of folders."""
        catalog, *folders = parts
        warehouse = warehouse_of(self._spark, catalog)
        assert warehouse is not None
        return FolderName(catalog=catalog, warehouse=warehouse, folders=tuple(folders))

    def holds_log(self, name: FolderName) -> bool:
        """Whether the folder is a table."""
        return len(name.folders) in {1, 2} and _holds_log(self._open_store(name.location), "")

    def tables_in(self, schema: FolderName) -> list[str]:
        """The names of the folders in a schema or catalog that are tables, in order."""
        return [name for name, is_table in self._folders_in(schema) if is_table]

    def schemas_in(self, catalog: FolderName) -> list[str]:
        """The names of the folders in a catalog that are schemas, in order."""
        return [name for name, is_table in self._folders_in(catalog) if not is_table]

    def is_schema(self, name: FolderName) -> bool:
        """Whether the folder exists and is no table. The catalog's own folder counts before it is made."""
        if len(name.folders) != 1:
            return not name.folders
        root = dataclasses.replace(name, folders=())
        return name.folders[0] in _folder_names(self._open_store(root.location)) and not self.holds_log(name)

    def make_schema(self, name: FolderName) -> None:
        """Makes the folder. Raises `UnsupportedOperationError` for a schema in a schema."""
        if len(name.folders) != 1:
            _refuse_depth(name)
        if self.holds_log(name):
            raise UnsupportedOperationError(operation=f"A schema in the folder of {name.identifier}, a Delta table,")
        self._open_store(name.location).put(SCHEMA_MARK, b"")

    def remove_schema(self, name: FolderName) -> None:
        """Removes the folder of a schema without tables, unless other files are in it."""
        self._open_store(name.location).delete(SCHEMA_MARK)
        self.remove_folder(name)

    def remove_folder(self, name: FolderName) -> None:
        """Removes the folder of a table or schema if it is empty."""
        above = dataclasses.replace(name, folders=name.folders[:-1])
        self._open_store(above.location).remove_directory(name.folders[-1])

    def _folders_in(self, name: FolderName) -> list[tuple[str, bool]]:
        store = self._open_store(name.location)
        names = sorted(folder for folder in _folder_names(store) if _problem_of(folder) is None)
        with ThreadPoolExecutor(max_workers=_LISTERS, thread_name_prefix="anabranch-catalog") as pool:
            return list(zip(names, pool.map(lambda folder: _holds_log(store, folder), names), strict=True))

    def _check_schema(self, schema: FolderName, table: FolderName) -> None:
        if len(schema.folders) > 1:
            _refuse_depth(table)
        if self.is_schema(schema):
            if not schema.folders and self._open_store(table.location).head(SCHEMA_MARK) is not None:
                raise UnsupportedOperationError(operation=f"A table in the folder of {table.identifier}, a schema,")
            return
        raise SchemaMissingError(table=str(table.identifier), schema=schema.identifier.quoted)

    def _folder_table(self, name: NameIdentifier) -> FolderName | None:
        """The table of a catalog of folders, resolved as Spark resolves names; None for other catalogs."""
        spark, parts = self._spark, name.parts
        if len(parts) > 1:
            if warehouse := warehouse_of(spark, parts[0]):
                return FolderName(catalog=parts[0], warehouse=warehouse, folders=parts[1:])
            if len(parts) > 2 or spark.conf.get(f"spark.sql.catalog.{parts[0]}", None) is not None:
                return None
        current = spark.catalog.currentCatalog()
        warehouse = warehouse_of(spark, current)
        if warehouse is None:
            return None
        if len(parts) == 1:
            schema = spark.catalog.currentDatabase()
            parts = (*(split_identifier(schema) if schema else ()), *parts)
        return FolderName(catalog=current, warehouse=warehouse, folders=parts)


def folder_entry(name: NameIdentifier, location: str) -> CatalogEntry:
    """The entry of a table in a catalog of folders, by its name with the catalog."""
    # Spark's own catalog does not know the folder, so DROP TABLE of ours removes it.
    return CatalogEntry(
        name=name, provider=PROVIDER, location=location, is_managed=True, leaves_folder=True, of_folders=True
    )


def catalog_entry(catalog: str, database: str, name: str, *, location: str, is_managed: bool) -> CatalogEntry:
    """The entry of a table of the session's catalog, or of a catalog of folders."""
    if catalog not in {"", SESSION_CATALOG}:
        return folder_entry(NameIdentifier((catalog, *filter(None, (database,)), name)), location)
    identifier = NameIdentifier((database, name))
    return CatalogEntry(name=identifier, provider=PROVIDER, location=location, is_managed=is_managed)


def entry_of_folder(name: FolderName) -> CatalogEntry:
    """The entry of the table that is this folder."""
    return folder_entry(name.identifier, name.location)


def _refuse_depth(name: FolderName) -> None:
    problem = "a catalog of folders has tables, and schemas with tables, but nothing below these"
    raise InvalidIdentifierError(identifier=str(name.identifier), problem=problem)


def _plain(location: str) -> str:
    return location.removeprefix("file:").rstrip("/").replace("//", "/")


def _holds_log(store: LogStore, folder: str) -> bool:
    directory = f"{folder}/{LOG_DIRECTORY}" if folder else LOG_DIRECTORY
    names = (file.path.rpartition("/")[2] for file in store.list_from(directory))
    return any(name[:20].isdigit() and len(name) > 20 for name in names)


def _folder_names(store: LogStore) -> set[str]:
    names: set[str] = set()

    def enters(path: str) -> bool:
        names.add(path.partition("/")[0])
        return False

    for _ in store.walk(enters):
        pass
    return names
