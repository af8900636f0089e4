"""`DeltaTable`, with the names, arguments and results of Delta's Python API."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.types import StructType

from anabranch.commands.clone.clone_definition import delta_source
from anabranch.commands.clone.clone_table import clone_target, shallow_clone
from anabranch.commands.convert.convert_table import convert_to_delta
from anabranch.commands.definition.create_table import CreationMode
from anabranch.commands.describe.describe_table import describe_detail, describe_history
from anabranch.commands.drop_feature.drop_feature import alter_add_feature, alter_drop_feature, alter_upgrade_protocol
from anabranch.commands.other_formats.symlink_manifests import generate
from anabranch.commands.read.read_table import TimeTravel
from anabranch.commands.restore.restore_table import restore_frame
from anabranch.commands.table_access import TableRef, table_at, table_named
from anabranch.commands.vacuum.vacuum_command import VacuumRequest, nothing, vacuum
from anabranch.errors.arguments import InvalidArgumentError, SessionNotEnabledError
from anabranch.errors.log import TableNotFoundError
from anabranch.errors.tables import CloneArgumentError, DeepCloneError
from anabranch.spark.extension.install import is_installed
from anabranch.spark.served.served_sessions import is_served
from anabranch.spark.session.delta_session import DeltaSession
from anabranch.spark.session.table_identifiers import split_identifier
from anabranch.tables.builder import DeltaTableBuilder
from anabranch.tables.merge_builder import (
    ColumnMapping,
    DeltaMergeBuilder,
    column_values,
    condition_or_none,
    merge_statement,
)
from anabranch.tables.optimize_builder import DeltaOptimizeBuilder
from anabranch.tables.table_rows import TableRows

if TYPE_CHECKING:
    from anabranch.tables.served_table import ServedTable

# `DeltaTable.clone` and its kin: arguments checked with Delta's words, then cloned.


_EXPECTED: dict[type, str] = {str: "a string", bool: "a boolean", int: "an int", dict: "a dict"}


def clone_into(
    handle: TableRef,
    travel: TimeTravel,
    target: str,
    *,
    is_shallow: bool,
    replace: bool,
    properties: dict[str, str] | None,
) -> TableRef:
    """The new clone. Raises `CloneArgumentError`, `DeepCloneError` and as `shallow_clone`."""
    check_clone_arguments(target=target, is_shallow=is_shallow, replace=replace, properties=properties)
    if not is_shallow:
        raise DeepCloneError(target=target)
    made = clone_target(handle.session, target)
    mode = CreationMode.CREATE_OR_REPLACE if replace else CreationMode.CREATE
    shallow_clone(made, delta_source(handle, travel), mode, properties or {})
    return made


def check_clone_arguments(*, target: object, is_shallow: object, replace: object, properties: object) -> None:
    """Raises `CloneArgumentError`, which is also a `ValueError`."""
    check_clone_argument("target", target, str)
    check_clone_argument("isShallow", is_shallow, bool)
    check_clone_argument("replace", replace, bool)
    if properties is None:
        return
    check_clone_argument("properties", properties, dict)
    assert isinstance(properties, dict)
    for name, value in properties.items():
        check_clone_argument(f"All property keys including {name}", name, str)
        check_clone_argument(f"All property values including {value}", value, str)


def check_clone_argument(name: str, value: object, kind: type) -> None:
    """Raises `CloneArgumentError` unless `value` is of that type. A bool is no int here."""
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise CloneArgumentError(argument=name, expected=_EXPECTED[kind], found=str(type(value)))


class DeltaTable:
    """A Delta table, found by path or by name.

    `toDF` follows the table, and its Columns can be used in conditions and values. For a client of `anabranch serve`
    the methods run on the server. Each class method needs a session that knows Delta: it raises
    `SessionNotEnabledError`, or for a client `ServerWithoutDeltaError`, where it does not.
    """

    def __init__(
        self, spark: SparkSession, handle: TableRef, *, alias: str | None = None, rows: TableRows | None = None
    ) -> None:
        self._spark = spark
        self._handle = handle
        self._alias = alias
        self._rows = rows or TableRows(spark, handle)

    @classmethod
    def forPath(cls, sparkSession: SparkSession, path: str, hadoopConf: dict[str, str] = {}) -> DeltaTable:  # noqa: B006
        """The table in the folder `path`; `hadoopConf` holds `fs.*` settings for its storage.

        Raises `NotADeltaTableError` where there is none.
        """
        for key in hadoopConf:
            if not key.startswith(("fs.", "dfs.")):
                problem = "only settings that start with fs. or dfs. are taken"
                raise InvalidArgumentError(argument="hadoopConf", value=key, problem=problem)
        if is_served(sparkSession):
            return served().at_path(sparkSession, path, hadoopConf)
        handle = table_at(enabled(sparkSession), path, hadoopConf)
        handle.latest()
        return cls(sparkSession, handle)

    @classmethod
    def forName(cls, sparkSession: SparkSession, tableOrViewName: str) -> DeltaTable:
        """The table of that name, or delta.`path`. Raises `NotADeltaTableError`, also for views."""
        if is_served(sparkSession):
            return served().named(sparkSession, tableOrViewName)
        return cls(sparkSession, table_named(enabled(sparkSession), tableOrViewName))

    @classmethod
    def isDeltaTable(cls, sparkSession: SparkSession, identifier: str) -> bool:
        """Whether a Delta table is in the folder `identifier`."""
        if is_served(sparkSession):
            return served().is_there(sparkSession, identifier)
        try:
            handle = table_at(enabled(sparkSession), identifier)
            return handle.table.snapshots.latest_or_none() is not None
        except TableNotFoundError:
            return False

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
        """A builder that creates a table, or replaces the one there is, keeping its history."""
        return cls._builder(sparkSession, CreationMode.CREATE_OR_REPLACE)

    @classmethod
    def _builder(cls, spark: SparkSession | None, mode: CreationMode) -> DeltaTableBuilder:
        session = spark if spark is not None else SparkSession.getActiveSession()
        if session is None:
            problem = "no Spark session was given and none is active"
            raise InvalidArgumentError(argument="sparkSession", value="None", problem=problem)
        if is_served(session):
            return served().builder(session, mode)
        return DeltaTableBuilder(enabled(session).spark, mode, cls)

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
        if is_served(sparkSession):
            return served().converted(sparkSession, identifier, columns)
        session = enabled(sparkSession)
        handle = convert_to_delta(session, split_identifier(identifier), partition_schema=columns)
        handle.latest()
        return cls(sparkSession, handle)

    def toDF(self) -> DataFrame:
        """The rows of the newest version."""
        return self._rows.frame(self._alias)

    def alias(self, aliasName: str) -> DeltaTable:
        """The same table; `toDF` and conditions call it `aliasName`."""
        return DeltaTable(self._spark, self._handle, alias=aliasName, rows=self._rows)

    def history(self, limit: int | None = None) -> DataFrame:
        """One row a commit, newest first; the last `limit` commits, or all that the log still has."""
        check_limit(limit)
        return describe_history(self._handle, limit)

    def detail(self) -> DataFrame:
        """One row: format, id, name, location, partitioning, size, properties and protocol."""
        return describe_detail(self._handle)

    def generate(self, mode: str) -> None:
        """Write manifests for engines without Delta; `mode` is `symlink_format_manifest`.

        Raises `UnknownGenerateModeError`, `ManifestsHideVectorsError`, `ManifestsNeedPlainColumnsError`.
        """
        generate(self._handle, mode)

    def delete(self, condition: str | Column | None = None, *, conflictRetries: int | None = None) -> None:
        """Remove the rows for which `condition` is true; all rows where there is none.

        `conflictRetries` says how often the statement may be executed again after a conflict; by default
        `spark.anabranch.conflictRetries` does. Raises the exceptions of `anabranch.exceptions`.
        """
        asked = condition_or_none(condition)
        self._rows.plans(conflictRetries).delete(self.toDF(), asked)

    def update(
        self,
        condition: str | Column | None = None,
        set: ColumnMapping | None = None,
        *,
        conflictRetries: int | None = None,
    ) -> None:
        """Set columns of the rows for which `condition` is true; of all rows where there is none.

        `set` maps columns, as `a` or `s.x`, to a Column or to SQL. `conflictRetries` is as in `delete`. Raises the
        exceptions of `anabranch.exceptions`.
        """
        values, asked = column_values(set, argument="set"), condition_or_none(condition)
        self._rows.plans(conflictRetries).update(self.toDF(), values.items(), asked)

    def merge(self, source: DataFrame, condition: str | Column) -> DeltaMergeBuilder:
        """Say what rows of `source` do to this table: clauses of the builder, then `execute`.

        A row is matched where `condition` is true for it and a row of `source`; aliases of both tell their columns
        apart.
        """
        statement = merge_statement(source, condition, alias=self._alias)
        return DeltaMergeBuilder(self._spark, self._handle, self._rows, statement)

    def vacuum(self, retentionHours: float | None = None) -> DataFrame:
        """Delete files that neither the newest version needs nor any version within the retention.

        `retentionHours` is by default the table's `delta.deletedFileRetentionDuration`. Gives back an empty frame.
        Raises `RetentionTooShortError` for less than the table's, `VacuumIncompleteError` where files could not be
        deleted.
        """
        check_retention(retentionHours)
        vacuum(self._handle, VacuumRequest(retention_hours=retentionHours))
        return nothing(self._handle)

    def upgradeTableProtocol(self, readerVersion: int, writerVersion: int) -> None:
        """Let the table support the features that these versions imply; what it supports already stays.

        Versions never get lower, so that asking for less does nothing. Raises `InvalidPropertyError`.
        """
        check_type("readerVersion", readerVersion, int, "an integer")
        check_type("writerVersion", writerVersion, int, "an integer")
        alter_upgrade_protocol(self._handle, readerVersion, writerVersion)

    def addFeatureSupport(self, featureName: str) -> None:
        """Let the table support a table feature. Raises `UnknownFeatureError`, `UnsupportedFeatureError`."""
        check_type("featureName", featureName, str, "a string")
        alter_add_feature(self._handle, featureName)

    def dropFeatureSupport(self, featureName: str, truncateHistory: bool | None = None) -> None:
        """Take a table feature out of the protocol, once what the table has of it is cleaned up.

        Raises `FeatureDropError`, which says what has to be done first; with `truncateHistory` `FeatureInHistoryError`,
        which says from when on it works; and `FeatureNotSupportedByTableError`.
        """
        check_type("featureName", featureName, str, "a string")
        if truncateHistory is not None:
            check_type("truncateHistory", truncateHistory, bool, "a boolean")
        alter_drop_feature(self._handle, featureName, truncate_history=bool(truncateHistory))

    def restoreToVersion(self, version: int) -> DataFrame:
        """Make the table what it was at that version, as a new version. One row of sizes and numbers of files.

        No row comes back where the table is at that version. Raises `VersionNotFoundError`,
        `RestoreFilesMissingError`, `RestoreBeyondRetentionError`, and the exceptions of `anabranch.exceptions`.
        """
        check_type("version", version, int, "an integer")
        return restore_frame(self._handle, TimeTravel(version=version))

    def restoreToTimestamp(self, timestamp: str) -> DataFrame:
        """As `restoreToVersion`, to the version of that time: `2024-01-31` or `2024-01-31 09:30:00`.

        Raises besides `TimestampEarlierThanFirstCommitError`, `TimestampAfterLatestCommitError`.
        """
        check_type("timestamp", timestamp, str, "a string")
        return restore_frame(self._handle, TimeTravel(timestamp=timestamp))

    def optimize(self) -> DeltaOptimizeBuilder:
        """Say how the files of the table are to be rewritten: `.where(…)`, then one of the `execute` methods."""
        return DeltaOptimizeBuilder(self._handle)

    def clone(
        self, target: str, isShallow: bool = False, replace: bool = False, properties: dict[str, str] | None = None
    ) -> DeltaTable:
        """A new table that begins with the files of this one, where they are, and the new table.

        `target` is an absolute path or a name; only `isShallow=True` is there. With `replace`, a table that is there
        becomes the clone. `properties` go before those of this table. Raises `DeepCloneError`,
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
        """As `clone`, of this table as it was at that version."""
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
        """As `clone`, of this table as it was at that time."""
        if not isinstance(timestamp, datetime):
            check_clone_argument("timestamp", timestamp, str)
        return self._clone(TimeTravel(timestamp=timestamp), target, isShallow, replace, properties)

    def _clone(
        self, travel: TimeTravel, target: str, is_shallow: bool, replace: bool, properties: dict[str, str] | None
    ) -> DeltaTable:
        handle = clone_into(self._handle, travel, target, is_shallow=is_shallow, replace=replace, properties=properties)
        return DeltaTable(self._spark, handle)


def enabled(spark: SparkSession) -> DeltaSession:
    """What is kept for the session. Raises `SessionNotEnabledError`."""
    if not is_installed(spark):
        raise SessionNotEnabledError(call="DeltaTable")
    return DeltaSession.of(spark)


def served() -> type[ServedTable]:
    """For clients' sessions whose server answers. It derives from our class, and needs packages of Spark Connect."""
    from anabranch.tables.served_table import ServedTable  # noqa: PLC0415

    return ServedTable


def check_limit(limit: object) -> None:
    """Raises `InvalidArgumentError`."""
    if limit is not None and (not isinstance(limit, int) or limit <= 0):
        raise InvalidArgumentError(argument="limit", value=str(limit), problem="it must be a whole number above 0")


def check_retention(hours: object) -> None:
    """Raises `InvalidArgumentError`."""
    if hours is not None and (isinstance(hours, bool) or not isinstance(hours, int | float)):
        check_type("retentionHours", hours, float, "a number of hours")


def check_type(argument: str, value: object, kind: type, expected: str) -> None:
    """Raises `InvalidArgumentError` unless the value is of that type. A bool is no int here."""
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        problem = f"it must be {expected}, and is {type(value).__name__}"
        raise InvalidArgumentError(argument=argument, value=str(value), problem=problem)
