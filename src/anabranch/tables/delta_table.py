"""`DeltaTable`, with the names, arguments and results of Delta's Python API."""

from __future__ import annotations

from datetime import datetime
from typing import Any, NoReturn

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.types import StructType

from anabranch.commands.create_table import CreationMode
from anabranch.commands.describe import describe_detail, describe_history
from anabranch.commands.read import read
from anabranch.commands.table_access import TableHandle, table_at, table_named
from anabranch.errors.arguments import InvalidArgumentError, UnsupportedOperationError
from anabranch.errors.log import TableNotFoundError
from anabranch.spark.delta_session import DeltaSession
from anabranch.tables.builder import DeltaTableBuilder

ColumnMapping = dict[str, str | Column]


class DeltaTable:
    """A Delta table, found by path or by name.

    Rows are read at the newest version each time `toDF` is called; a frame that was given out stays at its
    version.
    """

    def __init__(self, spark: SparkSession, handle: TableHandle, *, alias: str | None = None) -> None:
        self._spark = spark
        self._handle = handle
        self._alias = alias

    @classmethod
    def forPath(cls, sparkSession: SparkSession, path: str, hadoopConf: dict[str, str] = {}) -> DeltaTable:  # noqa: B006
        """The table in the folder `path`; `hadoopConf` holds `fs.*` settings for its storage.

        Raises `NotADeltaTableError` where there is none.
        """
        for key in hadoopConf:
            if not key.startswith(("fs.", "dfs.")):
                problem = "only settings that start with fs. or dfs. are taken"
                raise InvalidArgumentError(argument="hadoopConf", value=key, problem=problem)
        handle = table_at(DeltaSession.of(sparkSession), path, hadoopConf)
        handle.latest()
        return cls(sparkSession, handle)

    @classmethod
    def forName(cls, sparkSession: SparkSession, tableOrViewName: str) -> DeltaTable:
        """The table of that name, or delta.`path`. Raises `NotADeltaTableError`, also for views."""
        return cls(sparkSession, table_named(DeltaSession.of(sparkSession), tableOrViewName))

    @classmethod
    def isDeltaTable(cls, sparkSession: SparkSession, identifier: str) -> bool:
        """Whether a Delta table is in the folder `identifier`."""
        try:
            handle = table_at(DeltaSession.of(sparkSession), identifier)
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
        return DeltaTableBuilder(session, mode, cls)

    @classmethod
    def convertToDelta(
        cls, sparkSession: SparkSession, identifier: str, partitionSchema: str | StructType | None = None
    ) -> DeltaTable:
        """Not in this version: raises `UnsupportedOperationError`."""
        _refuse("DeltaTable.convertToDelta", "Read the Parquet files and write them with format delta.")

    def toDF(self) -> DataFrame:
        """The rows of the newest version."""
        frame = read(self._handle)
        return frame if self._alias is None else frame.alias(self._alias)

    def alias(self, aliasName: str) -> DeltaTable:
        """The same table; `toDF` and conditions call it `aliasName`."""
        return DeltaTable(self._spark, self._handle, alias=aliasName)

    def history(self, limit: int | None = None) -> DataFrame:
        """One row a commit, newest first; the last `limit` commits, or all that the log still has."""
        if limit is not None and (not isinstance(limit, int) or limit <= 0):
            raise InvalidArgumentError(argument="limit", value=str(limit), problem="it must be a whole number above 0")
        return describe_history(self._handle, limit)

    def detail(self) -> DataFrame:
        """One row: format, id, name, location, partitioning, size, properties and protocol."""
        return describe_detail(self._handle)

    def generate(self, mode: str) -> None:
        """Not in this version: raises `UnsupportedOperationError`."""
        _refuse("DeltaTable.generate")

    def delete(self, condition: str | Column | None = None) -> None:
        """Not in this version: raises `UnsupportedOperationError`."""
        _refuse("DeltaTable.delete", 'Overwrite the rows that stay: df.write.format("delta").mode("overwrite").')

    def update(self, condition: str | Column | None = None, set: ColumnMapping | None = None) -> None:
        """Not in this version: raises `UnsupportedOperationError`."""
        _refuse("DeltaTable.update", 'Overwrite with changed rows: df.write.format("delta").mode("overwrite").')

    def merge(self, source: DataFrame, condition: str | Column) -> Any:
        """Not in this version: raises `UnsupportedOperationError`."""
        _refuse("DeltaTable.merge", "Join, and overwrite by replaceWhere.")

    def vacuum(self, retentionHours: float | None = None) -> DataFrame:
        """Not in this version: raises `UnsupportedOperationError`."""
        _refuse("DeltaTable.vacuum")

    def upgradeTableProtocol(self, readerVersion: int, writerVersion: int) -> None:
        """Not in this version: raises `UnsupportedOperationError`."""
        _refuse("DeltaTable.upgradeTableProtocol")

    def addFeatureSupport(self, featureName: str) -> None:
        """Not in this version: raises `UnsupportedOperationError`."""
        _refuse("DeltaTable.addFeatureSupport")

    def dropFeatureSupport(self, featureName: str, truncateHistory: bool | None = None) -> None:
        """Not in this version: raises `UnsupportedOperationError`."""
        _refuse("DeltaTable.dropFeatureSupport")

    def restoreToVersion(self, version: int) -> DataFrame:
        """Not in this version: raises `UnsupportedOperationError`."""
        _refuse("DeltaTable.restoreToVersion", "Read with versionAsOf and overwrite.")

    def restoreToTimestamp(self, timestamp: str) -> DataFrame:
        """Not in this version: raises `UnsupportedOperationError`."""
        _refuse("DeltaTable.restoreToTimestamp", "Read with timestampAsOf and overwrite.")

    def optimize(self) -> Any:
        """Not in this version: raises `UnsupportedOperationError`."""
        _refuse("DeltaTable.optimize")

    def clone(
        self, target: str, isShallow: bool = False, replace: bool = False, properties: dict[str, str] | None = None
    ) -> DeltaTable:
        """Not in this version: raises `UnsupportedOperationError`."""
        _refuse("DeltaTable.clone")

    def cloneAtVersion(
        self,
        version: int,
        target: str,
        isShallow: bool = False,
        replace: bool = False,
        properties: dict[str, str] | None = None,
    ) -> DeltaTable:
        """Not in this version: raises `UnsupportedOperationError`."""
        _refuse("DeltaTable.cloneAtVersion")

    def cloneAtTimestamp(
        self,
        timestamp: str | datetime,
        target: str,
        isShallow: bool = False,
        replace: bool = False,
        properties: dict[str, str] | None = None,
    ) -> DeltaTable:
        """Not in this version: raises `UnsupportedOperationError`."""
        _refuse("DeltaTable.cloneAtTimestamp")


def _refuse(operation: str, instead: str = "") -> NoReturn:
    raise UnsupportedOperationError(operation=operation, instead=instead)
