"""The source of CONVERT TO DELTA: a folder or a table of the catalog, and the files that belong to it."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Mapping
from urllib.parse import unquote

import msgspec
from pyspark.sql.types import StructField, StructType

from anabranch.commands.convert.convert_partitions import PartitionRules, folder_values, is_hidden
from anabranch.commands.table_access import TableRef, table_at, table_of_entry
from anabranch.errors.arguments import UnsupportedOperationError
from anabranch.errors.convert import (
    CatalogPartitioningError,
    ConvertPropertiesMismatchError,
    ConvertSourceMissingError,
    FileNotConvertibleError,
    NotAParquetTableError,
    NothingToConvertError,
)
from anabranch.protocol.data_paths import NULL_DIRECTORY, file_root
from anabranch.protocol.properties import stored_properties, validated
from anabranch.schema.paths import fold, quote
from anabranch.schema.schema_evolution import visible_schema
from anabranch.snapshot.snapshot import Snapshot
from anabranch.spark.session.catalog import CatalogEntry
from anabranch.spark.session.delta_session import DeltaSession
from anabranch.spark.session.parquet_tables import ParquetTable, ParquetTables, spark_path
from anabranch.spark.session.table_identifiers import PATH_SCHEMA, NameIdentifier
from anabranch.storage.log_store import StoredFile
from anabranch.transactions.proposed_commit import Operation

_ABSOLUTE = re.compile(r"^(/|[A-Za-z][A-Za-z0-9+.-]*:)")
_CONVERT = "spark.databricks.delta.convert."
_SINK_LOG = "_spark_metadata"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ConvertSource:
    """A folder or a table that is to be converted."""

    table: TableRef
    label: str
    """Its name in messages."""
    parquet: bool
    """False where its name is that of a Delta table."""
    partition_columns: tuple[StructField, ...] = ()
    schema: StructType | None = None
    """The columns of the data in the catalog; None where they are read from the files."""
    properties: Mapping[str, str] = dataclasses.field(default_factory=dict)
    comment: str | None = None
    catalog_name: str | None = None
    catalog_partitions: bool = False
    """Whether the catalog lists the folders that belong to the table."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ListedFile:
    """A file of the source, with its partition values in the form of the log."""

    stored: StoredFile
    partition_values: Mapping[str, str | None]


def convert_source(session: DeltaSession, parts: tuple[str, ...], partition_schema: StructType | None) -> ConvertSource:
    """The source that the name parts mean: parquet.`/path`, or a table of the catalog.

    Raises `NotAParquetTableError`, `ConvertSourceMissingError`, `CatalogPartitioningError` and
    `UnsupportedOperationError`.
    """
    partition_columns = () if partition_schema is None else tuple(partition_schema.fields)
    if _ABSOLUTE.match(parts[-1]) and len(parts) <= 2:
        return _folder(session, parts, partition_columns)
    name = NameIdentifier(parts)
    if session.catalog.is_temporary_view(name):
        raise NotAParquetTableError(table=str(name), found="a temporary view")
    entry = session.catalog.find(name)
    if entry is None:
        raise ConvertSourceMissingError(table=str(name))
    if entry.is_delta:
        return ConvertSource(table=table_of_entry(session, entry), label=str(name), parquet=False)
    parquet_table = None if entry.location is None or entry.is_view else ParquetTables(session.spark).find(entry.name)
    if parquet_table is None:
        raise NotAParquetTableError(table=str(name), found="a view" if entry.is_view else f"of format {entry.provider}")
    return _catalog_table(session, entry, parquet_table, partition_columns)


def _folder(session: DeltaSession, parts: tuple[str, ...], columns: tuple[StructField, ...]) -> ConvertSource:
    path = parts[-1]
    if len(parts) == 1:
        raise ConvertSourceMissingError(table=quote(path))
    provider = parts[0].lower()
    if provider == "iceberg":
        operation = f"CONVERT TO DELTA for the Iceberg table iceberg.{quote(path)}"
        raise UnsupportedOperationError(operation=operation, instead="Read it and write it with format delta.")
    if provider not in {"parquet", PATH_SCHEMA}:
        raise NotAParquetTableError(table=f"{parts[0]}.{quote(path)}", found=f"of format {parts[0]}")
    table = table_at(session, path)
    label = f"{parts[0]}.{quote(path)}"
    return ConvertSource(table=table, label=label, parquet=provider == "parquet", partition_columns=columns)


def _catalog_table(
    session: DeltaSession, entry: CatalogEntry, parquet_table: ParquetTable, stated: tuple[StructField, ...]
) -> ConvertSource:
    partitions = tuple(parquet_table.schema[name] for name in parquet_table.partition_columns)
    if stated and [_plain(field) for field in stated] != [_plain(field) for field in partitions]:
        raise CatalogPartitioningError(
            table=str(entry.name),
            given=", ".join(f"{field.name} {field.dataType.simpleString()}" for field in stated),
            known=", ".join(f"{field.name} {field.dataType.simpleString()}" for field in partitions),
        )
    by_catalog = session.flag(f"{_CONVERT}useCatalogSchema", default=True)
    data = StructType([field for field in parquet_table.schema if field.name not in parquet_table.partition_columns])
    return ConvertSource(
        table=table_of_entry(session, entry),
        label=str(entry.name),
        parquet=True,
        partition_columns=partitions,
        schema=data if by_catalog else None,
        properties=parquet_table.properties,
        comment=parquet_table.comment,
        catalog_name=parquet_table.name,
        catalog_partitions=bool(partitions) and session.flag(f"{_CONVERT}useCatalogPartitions", default=True),
    )


def _plain(field: StructField) -> tuple[str, str]:
    return fold(field.name), field.dataType.simpleString()


def is_delta_already(source: ConvertSource) -> bool:
    """Whether the folder is a Delta table. If so, further properties of the catalog's entry are copied to it.

    This happens where a conversion was interrupted before it changed the catalog, and where the folder was converted
    by another name. Raises `ConvertPropertiesMismatchError`.
    """
    snapshot = source.table.delta_log.snapshots.latest_or_none()
    if snapshot is not None and source.catalog_name is not None:
        _copy_properties(source, snapshot)
    return snapshot is not None


def register_as_delta(source: ConvertSource) -> None:
    """Make the name that of a Delta table in the catalog."""
    table = source.table
    if table.entry is not None:
        schema = visible_schema(table.latest().schema)
        ParquetTables(table.session.spark).make_delta(table.entry.name, schema)


def _copy_properties(source: ConvertSource, snapshot: Snapshot) -> None:
    table, existing = source.table, snapshot.metadata.configuration
    values = validated(stored_properties(source.properties))
    differing = {key: value for key, value in values.items() if existing.get(key) != value}
    if not differing:
        return
    if table.session.flag(f"{_CONVERT}metadataCheck.enabled", default=True):
        raise ConvertPropertiesMismatchError(table=source.label, properties=tuple(sorted(differing)))
    changed = msgspec.structs.replace(snapshot.metadata, configuration={**existing, **differing})
    parameters = {
        "numFiles": 0,
        "partitionedBy": [field.name for field in source.partition_columns],
        "collectStats": False,
        "catalogTable": source.catalog_name,
        "sourceFormat": "parquet",
    }
    table.begin_at(Operation(name="CONVERT", parameters=parameters), snapshot=snapshot).commit([changed])


def files_of(source: ConvertSource) -> list[ListedFile]:
    """The files of the source, by path, with their partition values.

    Raises `NothingToConvertError`, `PartitionFoldersMismatchError` and `PartitionFolderValueError`.
    """
    table = source.table
    _check_no_linked_folder(source)
    stored = [file for file in table.delta_log.store.list_tree() if not is_hidden(file.path)]
    stored = sorted(_committed_by_a_stream(source, stored), key=lambda file: file.path)
    if source.catalog_partitions:
        return _in_catalog_partitions(source, stored)
    if not stored:
        raise NothingToConvertError(directory=table.path)
    rules = _rules(source)
    folders = {folder: folder_values(folder) for folder in dict.fromkeys(_folder_of(file) for file in stored)}
    values: dict[str, dict[str, str | None]] = {}
    for file in stored:
        folder = _folder_of(file)
        if folder not in values:
            if not rules.fits(folders[folder]):
                raise rules.mismatch(file.path, folders[folder], folders.values())
            values[folder] = rules.values(file.path, folders[folder])
    return [ListedFile(stored=file, partition_values=values[_folder_of(file)]) for file in stored]


def _check_no_linked_folder(source: ConvertSource) -> None:
    """Raises `FileNotConvertibleError` for a link to a folder: Spark follows it, but its files are not in the table."""
    root = source.table.path
    if not root.startswith("/"):
        return
    for folder, names, _ in os.walk(root):
        for name in names:
            path = os.path.relpath(os.path.join(folder, name), root)
            if os.path.islink(os.path.join(folder, name)) and not is_hidden(f"{path}/file"):
                problem = "is a link to a folder, and a table has only files in its own folder"
                raise FileNotConvertibleError(table=source.label, file=path, problem=problem)


def _in_catalog_partitions(source: ConvertSource, stored: list[StoredFile]) -> list[ListedFile]:
    """The files directly in folders that the catalog lists as partitions, which a query of the table reads."""
    table = source.table
    assert table.entry is not None
    rules, root = _rules(source), file_root(table.path).rstrip("/") + "/"
    folders: dict[str, dict[str, str | None]] = {}
    for location, spec in ParquetTables(table.session.spark).partitions(table.entry.name).items():
        absolute = file_root(location)
        if not absolute.startswith(root):
            operation = f"CONVERT TO DELTA for {source.label}, of which a partition is elsewhere ({location}),"
            raise UnsupportedOperationError(operation=operation, instead="Copy it by CREATE TABLE … AS SELECT.")
        texts = {fold(name): None if text == NULL_DIRECTORY else text for name, text in spec.items()}
        in_folder = tuple((field.name, texts.get(fold(field.name))) for field in source.partition_columns)
        folder = absolute.removeprefix(root)
        folders[folder] = rules.values(f"{folder}/", in_folder)
    files = [
        ListedFile(stored=file, partition_values=folders[_folder_of(file)])
        for file in stored
        if _folder_of(file) in folders
    ]
    if not files:
        raise NothingToConvertError(directory=table.path, partitions=True)
    return files


def _rules(source: ConvertSource) -> PartitionRules:
    session = source.table.session
    return PartitionRules(
        table=source.label,
        columns=source.partition_columns,
        zone=session.time_zone,
        case_sensitive=session.flag("spark.sql.caseSensitive", default=False),
        ignores_bad_values=session.flag(f"{_CONVERT}partitionValues.ignoreCastFailure", default=False),
    )


def _committed_by_a_stream(source: ConvertSource, stored: list[StoredFile]) -> list[StoredFile]:
    """The files that count, as Spark reads them: where a streaming query wrote the folder, those that it committed."""
    table = source.table
    if not table.session.flag(f"{_CONVERT}useMetadataLog", default=True):
        return stored
    if next(iter(table.delta_log.store.list_from(_SINK_LOG)), None) is None:
        return stored
    frame = table.session.spark.read.schema("any INT").parquet(spark_path(table.path))
    root = table.path.rstrip("/") + "/"
    committed = {unquote(url).partition(root)[2] for url in frame.inputFiles()}
    missing = committed - {file.path for file in stored}
    if missing:
        problem = f"is named in {_SINK_LOG} and does not exist"
        raise FileNotConvertibleError(table=source.label, file=min(missing), problem=problem)
    return [file for file in stored if file.path in committed]


def _folder_of(file: StoredFile) -> str:
    return file.path.rpartition("/")[0]
