"""`DeltaTable` and its builder, with the names, arguments and results of Delta's Python API."""

from __future__ import annotations

from datetime import datetime

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.types import DataType, StructField, StructType

from anabranch.commands.create.create_table import CreationMode
from anabranch.commands.definition.table_definition import TableDefinition
from anabranch.commands.table_access import TimeTravel
from anabranch.display_tables import html_facts, html_paragraph, html_table
from anabranch.errors.arguments import InvalidArgumentError
from anabranch.errors.base import DeltaError
from anabranch.tables.argument_checks import (
    ColumnMapping,
    check_clone_argument,
    check_clone_arguments,
    check_limit,
    check_retention,
    check_storage_settings,
    check_type,
    column_values,
    condition_or_none,
    merge_statement,
)
from anabranch.tables.column_arguments import IdentityGenerator, column, columns_of, names, property_of, text
from anabranch.tables.merge_builder import DeltaMergeBuilder
from anabranch.tables.optimize_builder import DeltaOptimizeBuilder
from anabranch.tables.session_tables import tables_of
from anabranch.tables.shown_frames import shown_as_table
from anabranch.tables.table_operations import SessionTables, TableOperations


class DeltaTable:
    """A Delta table, by path or by name.

    `toDF` follows the table, and its Columns can be used in conditions and values. For a client of `anabranch serve`
    the methods run on the server. The class methods need a session that knows Delta: otherwise they raise
    `SessionNotEnabledError`, or for a client `ServerWithoutDeltaError`.
    """

    def __init__(self, table: TableOperations, *, alias: str | None = None) -> None:
        self._table = table
        self._alias = alias

    def __repr__(self) -> str:
        return f"DeltaTable({self._table.label})"

    def _repr_html_(self) -> str:
        """The table in a notebook: its newest version, from the log alone, and its columns."""
        title = html_paragraph(repr(self), strong=True)
        try:
            summary = self._table.summary()
        except DeltaError as error:
            return title + html_paragraph(str(error))
        columns = [[field.name, field.dataType.simpleString(), _note(field)] for field in summary.schema.fields]
        return f"{title}{html_facts(summary.facts)}{html_table(['column', 'type', ''], columns)}"

    @classmethod
    def forPath(cls, sparkSession: SparkSession, path: str, hadoopConf: dict[str, str] = {}) -> DeltaTable:  # noqa: B006
        """The table in the folder `path`; `hadoopConf` holds `fs.*` settings for its storage.

        Raises `NotADeltaTableError` where there is none.
        """
        check_storage_settings(hadoopConf)
        return cls(tables_of(sparkSession).at_path(path, hadoopConf))

    @classmethod
    def forName(cls, sparkSession: SparkSession, tableOrViewName: str) -> DeltaTable:
        """The table of that name, or delta.`path`. Raises `NotADeltaTableError`, also for views."""
        return cls(tables_of(sparkSession).named(tableOrViewName))

    @classmethod
    def isDeltaTable(cls, sparkSession: SparkSession, identifier: str) -> bool:
        """Whether a Delta table is in the folder `identifier`."""
        return tables_of(sparkSession).is_table(identifier)

    @classmethod
    def create(cls, sparkSession: SparkSession | None = None) -> DeltaTableBuilder:
        """A builder for a new table; `execute` raises `TableAlreadyExistsError` where there is one."""
        return cls._builder(sparkSession, CreationMode.CREATE)

    @classmethod
    def createIfNotExists(cls, sparkSession: SparkSession | None = None) -> DeltaTableBuilder:
        """A builder for a new table; `execute` leaves an existing one as it is."""
        return cls._builder(sparkSession, CreationMode.CREATE_IF_NOT_EXISTS)

    @classmethod
    def replace(cls, sparkSession: SparkSession | None = None) -> DeltaTableBuilder:
        """A builder that replaces an existing table, keeping its history."""
        return cls._builder(sparkSession, CreationMode.REPLACE)

    @classmethod
    def createOrReplace(cls, sparkSession: SparkSession | None = None) -> DeltaTableBuilder:
        """A builder that creates a table, or replaces an existing one, keeping its history."""
        return cls._builder(sparkSession, CreationMode.CREATE_OR_REPLACE)

    @classmethod
    def _builder(cls, spark: SparkSession | None, mode: CreationMode) -> DeltaTableBuilder:
        session = spark if spark is not None else SparkSession.getActiveSession()
        if session is None:
            problem = "there is no active Spark session; pass one"
            raise InvalidArgumentError(argument="sparkSession", value="None", problem=problem)
        return DeltaTableBuilder(tables_of(session), mode, cls)

    @classmethod
    def convertToDelta(
        cls, sparkSession: SparkSession, identifier: str, partitionSchema: str | StructType | None = None
    ) -> DeltaTable:
        """Make a Delta table of parquet.`/folder`, or of a Parquet table of the catalog; the files stay as they are.

        `partitionSchema` gives the partition columns and their types. A Delta table is left as it is. Raises
        `NotAParquetTableError`, `NothingToConvertError`, `FileNotConvertibleError`, `PartitionFoldersMismatchError`,
        `PartitionFolderValueError`, `ConflictingFileSchemasError`, `ProtocolChangedException`.
        """
        columns = StructType.fromDDL(partitionSchema) if isinstance(partitionSchema, str) else partitionSchema
        if columns is not None and not isinstance(columns, StructType):
            problem = "it must be a StructType or its DDL"
            raise InvalidArgumentError(argument="partitionSchema", value=str(partitionSchema), problem=problem)
        return cls(tables_of(sparkSession).converted(identifier, columns))

    def toDF(self) -> DataFrame:
        """The rows of the newest version."""
        return self._table.rows(self._alias)

    def alias(self, aliasName: str) -> DeltaTable:
        """The same table; `toDF` and conditions call it `aliasName`."""
        return DeltaTable(self._table, alias=aliasName)

    def history(self, limit: int | None = None) -> DataFrame:
        """One row for each commit, newest first: the last `limit` commits, or all that are still in the log."""
        check_limit(limit)
        return shown_as_table(self._table.history(limit))

    def detail(self) -> DataFrame:
        """One row: format, id, name, location, partitioning, size, properties and protocol."""
        return shown_as_table(self._table.detail())

    def generate(self, mode: str) -> None:
        """Write manifests for engines without Delta; `mode` is `symlink_format_manifest`.

        Raises `UnknownGenerateModeError`, `ManifestsHideVectorsError`, `ManifestsNeedPlainColumnsError`.
        """
        self._table.generate(mode)

    def delete(self, condition: str | Column | None = None, *, conflictRetries: int | None = None) -> None:
        """Remove the rows for which `condition` is true, or all rows without one.

        `conflictRetries` says how often the statement may be executed again after a conflict. The default is
        `spark.anabranch.conflictRetries`. Raises the exceptions of `anabranch.exceptions`.
        """
        checked = condition_or_none(condition)
        self._table.delete(checked, alias=self._alias, conflict_retries=conflictRetries)

    def update(
        self,
        condition: str | Column | None = None,
        set: ColumnMapping | None = None,
        *,
        conflictRetries: int | None = None,
    ) -> None:
        """Set columns of the rows for which `condition` is true, or of all rows without one.

        `set` maps columns, as `a` or `s.x`, to a Column or to SQL. `conflictRetries` is as in `delete`. Raises the
        exceptions of `anabranch.exceptions`.
        """
        values, checked = column_values(set, argument="set"), condition_or_none(condition)
        self._table.update(values, checked, alias=self._alias, conflict_retries=conflictRetries)

    def merge(self, source: DataFrame, condition: str | Column) -> DeltaMergeBuilder:
        """A builder for a MERGE of the rows of `source` into this table: add clauses, then call `execute`.

        A row is matched where `condition` is true for it and a row of `source`. Aliases distinguish the columns of
        both.
        """
        return DeltaMergeBuilder(self._table, merge_statement(source, condition), alias=self._alias)

    def vacuum(self, retentionHours: float | None = None) -> DataFrame:
        """Delete files that neither the newest version needs nor any version within the retention.

        `retentionHours` is by default the table's `delta.deletedFileRetentionDuration`. Returns an empty DataFrame.
        Raises `RetentionTooShortError` for less than the table's, `VacuumIncompleteError` where files could not be
        deleted.
        """
        check_retention(retentionHours)
        return self._table.vacuum(retentionHours)

    def upgradeTableProtocol(self, readerVersion: int, writerVersion: int) -> None:
        """Add the features that these protocol versions imply; those that the table supports already stay.

        Versions never get lower: lower ones change nothing. Raises `InvalidPropertyError`.
        """
        check_type("readerVersion", readerVersion, int, "an integer")
        check_type("writerVersion", writerVersion, int, "an integer")
        self._table.upgrade_protocol(readerVersion, writerVersion)

    def addFeatureSupport(self, featureName: str) -> None:
        """Add a table feature to the protocol. Raises `UnknownFeatureError`, `UnsupportedFeatureError`."""
        check_type("featureName", featureName, str, "a string")
        self._table.add_feature(featureName)

    def dropFeatureSupport(self, featureName: str, truncateHistory: bool | None = None) -> None:
        """Remove a table feature from the protocol, after its uses are removed from the table.

        Raises `FeatureDropError`, which says what to do first; with `truncateHistory` `FeatureInHistoryError`, which
        says from when on it is possible; and `FeatureNotSupportedByTableError`.
        """
        check_type("featureName", featureName, str, "a string")
        if truncateHistory is not None:
            check_type("truncateHistory", truncateHistory, bool, "a boolean")
        self._table.drop_feature(featureName, truncate_history=bool(truncateHistory))

    def restoreToVersion(self, version: int) -> DataFrame:
        """Restore the table to that version, by a new version. Returns one row of sizes and numbers of files.

        The result has no row where the table is at that version. Raises `VersionNotFoundError`,
        `RestoreFilesMissingError`, `RestoreBeyondRetentionError`, and the exceptions of `anabranch.exceptions`.
        """
        check_type("version", version, int, "an integer")
        return shown_as_table(self._table.restore(TimeTravel(version=version)))

    def restoreToTimestamp(self, timestamp: str) -> DataFrame:
        """Restore the table to the version of that time: `2024-01-31` or `2024-01-31 09:30:00`.

        It is like `restoreToVersion`, and also raises `TimestampEarlierThanFirstCommitError` and
        `TimestampAfterLatestCommitError`.
        """
        check_type("timestamp", timestamp, str, "a string")
        return shown_as_table(self._table.restore(TimeTravel(timestamp=timestamp)))

    def optimize(self) -> DeltaOptimizeBuilder:
        """A builder for OPTIMIZE: `.where(…)`, then one of the `execute` methods."""
        return DeltaOptimizeBuilder(self._table)

    def clone(
        self, target: str, isShallow: bool = False, replace: bool = False, properties: dict[str, str] | None = None
    ) -> DeltaTable:
        """Create a table whose first files are those of this table, in their folder. Returns the new table.

        `target` is an absolute path or a name; only `isShallow=True` is supported. With `replace`, an existing table
        becomes the clone. `properties` take precedence over those of this table. Raises `DeepCloneError`,
        `TableAlreadyExistsError`, `CloneOntoItselfError`.
        """
        return self._clone(TimeTravel(), target, isShallow, replace, properties)

    def cloneAtVersion(
        self,
        version: int,
        target: str,
        isShallow: bool = False,
        replace: bool = False,
        properties: dict[str, str] | None = None,
    ) -> DeltaTable:
        """Clone this table at that version; see `clone`."""
        check_clone_argument("version", version, int)
        return self._clone(TimeTravel(version=version), target, isShallow, replace, properties)

    def cloneAtTimestamp(
        self,
        timestamp: str | datetime,
        target: str,
        isShallow: bool = False,
        replace: bool = False,
        properties: dict[str, str] | None = None,
    ) -> DeltaTable:
        """Clone this table at that time; see `clone`."""
        if not isinstance(timestamp, datetime):
            check_clone_argument("timestamp", timestamp, str)
        return self._clone(TimeTravel(timestamp=timestamp), target, isShallow, replace, properties)

    def _clone(
        self, travel: TimeTravel, target: str, is_shallow: bool, replace: bool, properties: dict[str, str] | None
    ) -> DeltaTable:
        check_clone_arguments(target=target, is_shallow=is_shallow, replace=replace, properties=properties)
        clone = self._table.clone(travel, target, is_shallow=is_shallow, replace=replace, properties=properties or {})
        return DeltaTable(clone)


def _note(field: StructField) -> str:
    """What a notebook shows beside the name and the type of a column."""
    notes = ("" if field.nullable else "NOT NULL", str(field.metadata.get("comment", "")))
    return ", ".join(filter(None, notes))


class DeltaTableBuilder:
    """The definition of a table to create or replace, step by step. `execute` creates it.

    A name or a location is required; both are possible.
    """

    def __init__(self, tables: SessionTables, mode: CreationMode, table_class: type[DeltaTable]) -> None:
        self._tables = tables
        self._mode = mode
        self._table_class = table_class
        self._name: str | None = None
        self._location: str | None = None
        self._comment: str | None = None
        self._fields: list[StructField] = []
        self._partition_columns: tuple[str, ...] = ()
        self._clustering_columns: tuple[str, ...] = ()
        self._properties: dict[str, str] = {}

    def __repr__(self) -> str:
        named = self._name or self._location or "no name yet"
        return f"DeltaTableBuilder({self._mode.name} {named}, {len(self._fields)} columns; run by execute())"

    def tableName(self, identifier: str) -> DeltaTableBuilder:
        """The table's name, or delta.`path`."""
        self._name = text(identifier, "Identifier must be str.")
        return self

    def location(self, location: str) -> DeltaTableBuilder:
        """The folder for the table's files."""
        self._location = text(location, "Location must be str.")
        return self

    def comment(self, comment: str) -> DeltaTableBuilder:
        """The description of the table."""
        self._comment = text(comment, "Table comment must be str.")
        return self

    def addColumn(
        self,
        colName: str,
        dataType: str | DataType,
        nullable: bool = True,
        generatedAlwaysAs: str | IdentityGenerator | None = None,
        generatedByDefaultAs: IdentityGenerator | None = None,
        comment: str | None = None,
    ) -> DeltaTableBuilder:
        """Add a column after the others."""
        by_default = generatedByDefaultAs
        self._fields.append(
            column(colName, dataType, nullable, always=generatedAlwaysAs, by_default=by_default, comment=comment)
        )
        return self

    def addColumns(self, cols: StructType | list[StructField]) -> DeltaTableBuilder:
        """Add the columns of an existing schema after the others."""
        self._fields += columns_of(cols)
        return self

    def partitionedBy(self, *cols: str | list[str] | tuple[str, ...]) -> DeltaTableBuilder:
        """The partition columns: a file has rows with the same values of these."""
        self._partition_columns = names(cols, "Partitioning column must be str.")
        return self

    def clusterBy(self, *cols: str | list[str] | tuple[str, ...]) -> DeltaTableBuilder:
        """The columns that OPTIMIZE sorts rows by."""
        self._clustering_columns = names(cols, "Clustering column must be str.")
        return self

    def property(self, key: str, value: str) -> DeltaTableBuilder:
        """A table property."""
        key, value = property_of(key, value)
        self._properties[key] = value
        return self

    def execute(self) -> DeltaTable:
        """Create or replace the table, and return it."""
        definition = TableDefinition(
            schema=StructType(self._fields),
            partition_columns=self._partition_columns,
            clustering_columns=self._clustering_columns,
            properties=self._properties,
            description=self._comment,
        )
        return self._table_class(self._tables.created(self._name, self._location, definition, self._mode))
