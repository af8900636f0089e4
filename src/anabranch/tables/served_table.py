"""`DeltaTable` on a client's session whose server answers for tables: its methods are messages, and run there.

The client needs no access to the tables' storage. Imported for such sessions alone.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from datetime import datetime

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.connect.plan import SubqueryAlias
from pyspark.sql.types import StructField, StructType

from anabranch.commands.definition.create_table import CreationMode
from anabranch.commands.merge.merge_source import DeleteClause, MergeClause, MergeStatement, UpdateClause
from anabranch.commands.optimize.optimize_metrics import RESULT as OPTIMIZED
from anabranch.commands.read.read_table import TimeTravel
from anabranch.commands.restore.restore_table import RESULT as RESTORED
from anabranch.errors.tables import ReadWithoutColumnsError
from anabranch.spark.served.message_kinds import COLUMN_METADATA, CONFLICT_RETRIES, CREATION_MODES
from anabranch.spark.served.sent_messages import Sender, SentRelation, Written, raised_as_ours
from anabranch.spark.served.wire_fields import data, double, integer, text, texts, texts_by_name
from anabranch.tables.builder import DeltaTableBuilder
from anabranch.tables.delta_table import DeltaTable, check_clone_arguments, check_limit, check_retention, check_type
from anabranch.tables.merge_builder import (
    MERGED,
    ColumnMapping,
    DeltaMergeBuilder,
    column_values,
    condition_or_none,
    merge_statement,
)
from anabranch.tables.optimize_builder import DeltaOptimizeBuilder

_TABLE = 1
"""The field of the table, or of the plan that reads it, in all messages about one."""


class ServedTable(DeltaTable):
    """A table that the server reads and changes. `toDF` follows it; conditions and values may use its Columns."""

    def __init__(
        self, spark: SparkSession, reference: bytes, *, scan: SentRelation | None = None, alias: str | None = None
    ) -> None:
        """`reference` is the message that names the table."""
        self._spark = spark
        self._sender = Sender(spark)
        self._reference = reference
        self._scan = scan or SentRelation(self._sender, "Scan", lambda _: self._table())
        self._plan = self._scan if alias is None else SubqueryAlias(self._scan, alias)

    @classmethod
    def at_path(cls, spark: SparkSession, path: str, storage: dict[str, str]) -> ServedTable:
        """Raises `NotADeltaTableError` where there is none."""
        return cls(spark, data(1, text(1, path) + texts_by_name(2, storage))).found()

    @classmethod
    def named(cls, spark: SparkSession, name: str) -> ServedTable:
        """Raises `NotADeltaTableError` where there is none."""
        return cls(spark, text(2, name)).found()

    @classmethod
    def is_there(cls, spark: SparkSession, path: str) -> bool:
        """Whether a Delta table is in the folder, as the server sees it."""
        ((found,),) = Sender(spark).rows("IsDeltaTable", lambda _: text(1, path))
        return bool(found)

    @classmethod
    def converted(cls, spark: SparkSession, identifier: str, columns: StructType | None) -> ServedTable:
        """As `DeltaTable.convertToDelta`."""
        ((name,),) = Sender(spark).rows(
            "ConvertToDelta",
            lambda sender: text(1, identifier) + (b"" if columns is None else data(3, sender.type(columns))),
        )
        return cls.named(spark, name)

    @classmethod
    def builder(cls, spark: SparkSession, mode: CreationMode) -> ServedTableBuilder:
        """As `DeltaTable.create` and its kin."""
        return ServedTableBuilder(spark, mode, cls)

    def found(self) -> ServedTable:
        """Itself. Raises `NotADeltaTableError` where there is no such table."""
        with contextlib.suppress(ReadWithoutColumnsError), raised_as_ours():
            _ = self.toDF().schema
        return self

    def toDF(self) -> DataFrame:
        """The rows of the newest version."""
        return self._sender.frame(self._plan)

    def alias(self, aliasName: str) -> ServedTable:
        """The same table; `toDF` and conditions call it `aliasName`."""
        return ServedTable(self._spark, self._reference, scan=self._scan, alias=aliasName)

    def history(self, limit: int | None = None) -> DataFrame:
        """One row a commit, newest first; the last `limit` commits, or all that the log still has."""
        check_limit(limit)
        rows = self._sender.frame(SentRelation(self._sender, "DescribeHistory", lambda _: self._table()))
        return rows if limit is None else rows.limit(limit)

    def detail(self) -> DataFrame:
        """One row: format, id, name, location, partitioning, size, properties and protocol."""
        return self._sender.frame(SentRelation(self._sender, "DescribeDetail", lambda _: self._table()))

    def generate(self, mode: str) -> None:
        """Write manifests for engines without Delta."""
        self._run("Generate", text(2, mode))

    def delete(self, condition: str | Column | None = None, *, conflictRetries: int | None = None) -> None:
        """Remove the rows for which `condition` is true; all rows where there is none."""
        asked = condition_or_none(condition)
        self._sender.rows(
            "DeleteFromTable",
            lambda sender: self._target(sender) + _condition(sender, 2, asked) + _retries(conflictRetries),
        )

    def update(
        self,
        condition: str | Column | None = None,
        set: ColumnMapping | None = None,
        *,
        conflictRetries: int | None = None,
    ) -> None:
        """Set columns of the rows for which `condition` is true; of all rows where there is none."""
        values, asked = column_values(set, argument="set"), condition_or_none(condition)
        self._sender.rows(
            "UpdateTable",
            lambda sender: (
                self._target(sender)
                + _condition(sender, 2, asked)
                + _assignments(sender, 3, values)
                + _retries(conflictRetries)
            ),
        )

    def merge(self, source: DataFrame, condition: str | Column) -> DeltaMergeBuilder:
        """Say what rows of `source` do to this table: clauses of the builder, then `execute`."""
        statement = merge_statement(source, condition, alias=None)
        return _ServedMergeBuilder(self._spark, self._sender, self._target, statement)

    def vacuum(self, retentionHours: float | None = None) -> DataFrame:
        """Delete files that are not needed any more. Gives back an empty frame."""
        check_retention(retentionHours)
        self._run("VacuumTable", b"" if retentionHours is None else double(2, float(retentionHours)))
        return self._spark.createDataFrame([], StructType([]))

    def upgradeTableProtocol(self, readerVersion: int, writerVersion: int) -> None:
        """Let the table support the features that these versions imply."""
        check_type("readerVersion", readerVersion, int, "an integer")
        check_type("writerVersion", writerVersion, int, "an integer")
        self._run("UpgradeTableProtocol", integer(2, readerVersion) + integer(3, writerVersion))

    def addFeatureSupport(self, featureName: str) -> None:
        """Let the table support a table feature."""
        check_type("featureName", featureName, str, "a string")
        self._run("AddFeatureSupport", text(2, featureName))

    def dropFeatureSupport(self, featureName: str, truncateHistory: bool | None = None) -> None:
        """Take a table feature out of the protocol, once what the table has of it is cleaned up."""
        check_type("featureName", featureName, str, "a string")
        if truncateHistory is not None:
            check_type("truncateHistory", truncateHistory, bool, "a boolean")
        self._run("DropFeatureSupport", text(2, featureName) + integer(3, bool(truncateHistory)))

    def restoreToVersion(self, version: int) -> DataFrame:
        """Make the table what it was at that version, as a new version."""
        check_type("version", version, int, "an integer")
        return self._restored(integer(2, version))

    def restoreToTimestamp(self, timestamp: str) -> DataFrame:
        """As `restoreToVersion`, to the version of that time."""
        check_type("timestamp", timestamp, str, "a string")
        return self._restored(text(3, timestamp))

    def optimize(self) -> DeltaOptimizeBuilder:
        """Say how the files of the table are to be rewritten: `.where(…)`, then one of the `execute` methods."""
        return _ServedOptimizeBuilder(self._spark, self._sender, self._table())

    def _clone(
        self, travel: TimeTravel, target: str, is_shallow: bool, replace: bool, properties: dict[str, str] | None
    ) -> ServedTable:
        check_clone_arguments(target=target, is_shallow=is_shallow, replace=replace, properties=properties)
        when = b"" if travel.version is None else integer(3, travel.version)
        if travel.timestamp is not None:
            when = text(4, _time(travel.timestamp))
        flags = integer(5, is_shallow) + integer(6, replace)
        self._run("CloneTable", text(2, target) + when + flags + texts_by_name(7, properties or {}))
        return ServedTable.named(self._spark, target)

    def _table(self) -> bytes:
        return data(_TABLE, self._reference)

    def _target(self, sender: Sender) -> bytes:
        return data(_TABLE, sender.relation(self._plan))

    def _run(self, kind: str, fields: bytes) -> None:
        self._sender.run(kind, lambda _: self._table() + fields)

    def _restored(self, when: bytes) -> DataFrame:
        rows = self._sender.rows("RestoreTable", lambda _: self._table() + when)
        return self._spark.createDataFrame(rows, RESTORED)


class _ServedMergeBuilder(DeltaMergeBuilder):
    def __init__(self, spark: SparkSession, sender: Sender, target: Written, statement: MergeStatement) -> None:
        self._spark = spark
        self._sender = sender
        self._target = target
        self._statement = statement

    def execute(self, *, conflictRetries: int | None = None) -> DataFrame:
        """Merge, and say in one row how many rows were affected: updated, deleted and inserted."""
        statement = self._statement

        def written(sender: Sender) -> bytes:
            clauses = ((4, statement.matched), (5, statement.not_matched), (6, statement.not_matched_by_source))
            return b"".join(
                (
                    self._target(sender),
                    data(2, sender.rows_of(statement.source)),
                    data(3, sender.expression(statement.condition)),
                    *(data(number, _action(sender, clause)) for number, group in clauses for clause in group),
                    integer(7, statement.evolves),
                    _retries(conflictRetries),
                )
            )

        return self._spark.createDataFrame(self._sender.rows("MergeIntoTable", written), MERGED)

    def _with(self, statement: MergeStatement) -> DeltaMergeBuilder:
        return _ServedMergeBuilder(self._spark, self._sender, self._target, statement)


class _ServedOptimizeBuilder(DeltaOptimizeBuilder):
    def __init__(self, spark: SparkSession, sender: Sender, table: bytes, *, predicates: tuple[str, ...] = ()) -> None:
        self._spark = spark
        self._sender = sender
        self._table = table
        self._predicates = predicates

    def _with(self, predicates: tuple[str, ...]) -> DeltaOptimizeBuilder:
        return _ServedOptimizeBuilder(self._spark, self._sender, self._table, predicates=predicates)

    def _optimized(self, zorder_by: list[str]) -> DataFrame:
        fields = self._table + texts(2, self._predicates) + texts(3, zorder_by)
        return self._spark.createDataFrame(self._sender.rows("OptimizeTable", lambda _: fields), OPTIMIZED)


class ServedTableBuilder(DeltaTableBuilder):
    """Says step by step what table the server is to create or replace."""

    def execute(self) -> DeltaTable:
        """Create or replace the table, and give it back."""
        Sender(self._spark).run("CreateDeltaTable", self._written)
        if self._name is not None:
            return ServedTable.named(self._spark, self._name)
        assert self._location is not None
        return ServedTable.at_path(self._spark, self._location, {})

    def _written(self, sender: Sender) -> bytes:
        return b"".join(
            (
                integer(1, CREATION_MODES.index(self._mode.value) + 1),
                text(2, self._name),
                text(3, self._location),
                text(4, self._comment),
                *(data(5, _column(sender, field)) for field in self._fields),
                texts(6, self._partition_columns),
                texts_by_name(7, self._properties),
                texts(8, self._clustering_columns),
            )
        )


def _column(sender: Sender, field: StructField) -> bytes:
    metadata = text(COLUMN_METADATA, json.dumps(field.metadata)) if field.metadata else b""
    return text(1, field.name) + data(2, sender.type(field.dataType)) + integer(3, field.nullable) + metadata


def _condition(sender: Sender, number: int, condition: Column | str | None) -> bytes:
    return b"" if condition is None else data(number, sender.expression(condition))


def _assignments(sender: Sender, number: int, values: Mapping[str, Column | str]) -> bytes:
    return b"".join(
        data(number, data(1, sender.name(name)) + data(2, sender.expression(value))) for name, value in values.items()
    )


def _action(sender: Sender, clause: MergeClause) -> bytes:
    condition = _condition(sender, 1, clause.condition)
    if isinstance(clause, DeleteClause):
        return condition + data(2, b"")
    number = 3 if isinstance(clause, UpdateClause) else 5
    if clause.values is None:
        return condition + data(number + 1, b"")
    return condition + data(number, _assignments(sender, 1, clause.values))


def _retries(conflict_retries: int | None) -> bytes:
    return text(CONFLICT_RETRIES, None if conflict_retries is None else str(conflict_retries))


def _time(timestamp: str | datetime) -> str:
    return timestamp if isinstance(timestamp, str) else timestamp.isoformat(sep=" ")
