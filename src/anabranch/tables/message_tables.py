"""Tables of a client of Spark Connect: operations are messages to the server, which runs them.

The client needs no access to the tables' storage. The module is imported for such sessions alone.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from google.protobuf.message import Message
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.connect.plan import LogicalPlan, SubqueryAlias
from pyspark.sql.types import StructField, StructType

from anabranch.commands.create.create_table import CreationMode
from anabranch.commands.definition.table_definition import TableDefinition
from anabranch.commands.merge.merge_statement import DeleteClause, MergeClause, MergeStatement, UpdateClause
from anabranch.commands.optimize.optimize_metrics import RESULT as OPTIMIZED
from anabranch.commands.restore.restore_table import RESULT as RESTORED
from anabranch.commands.table_access import TimeTravel
from anabranch.connect_messages.message_classes import message
from anabranch.connect_messages.message_sender import MessageRelation, MessageSender, raised_as_ours
from anabranch.errors.tables import ReadWithoutColumnsError
from anabranch.spark.session.table_identifiers import PathIdentifier
from anabranch.tables.merge_builder import MERGED
from anabranch.tables.table_operations import TableSummary


class MessageTables:
    """The tables of the server of a client."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._sender = MessageSender(spark)

    def at_path(self, path: str, storage: Mapping[str, str]) -> MessageTable:
        return self._table(message("DeltaTable", path=message("DeltaTable.Path", path=path, hadoop_conf=storage)))

    def named(self, name: str) -> MessageTable:
        return self._table(message("DeltaTable", table_or_view_name=name))

    def is_table(self, path: str) -> bool:
        ((exists,),) = self._sender.rows(message("IsDeltaTable", path=path))
        return bool(exists)

    def converted(self, identifier: str, partition_schema: StructType | None) -> MessageTable:
        schema = None if partition_schema is None else self._sender.data_type(partition_schema)
        converted = message("ConvertToDelta", identifier=identifier, partition_schema_struct=schema)
        ((name,),) = self._sender.rows(converted)
        return self.named(name)

    def created(
        self, name: str | None, location: str | None, definition: TableDefinition, mode: CreationMode
    ) -> MessageTable:
        created = message(
            "CreateDeltaTable",
            mode=f"MODE_{mode.name}",
            table_name=name,
            location=location,
            comment=definition.description,
            columns=[self._column(field) for field in definition.schema.fields],
            partitioning_columns=definition.partition_columns,
            properties=definition.properties,
            clustering_columns=definition.clustering_columns,
        )
        self._sender.run(created)
        if name is not None:
            return self.named(name)
        assert location is not None
        return self.at_path(location, {})

    def _column(self, field: StructField) -> Message:
        return message(
            "CreateDeltaTable.Column",
            name=field.name,
            data_type=self._sender.data_type(field.dataType),
            nullable=field.nullable,
            metadata=json.dumps(field.metadata) if field.metadata else None,
        )

    def _table(self, reference: Message) -> MessageTable:
        """Raises `NotADeltaTableError` where there is no such table."""
        table = MessageTable(self._spark, reference)
        with contextlib.suppress(ReadWithoutColumnsError), raised_as_ours():
            _ = table.rows(None).schema
        return table


class MessageTable:
    """One table, named by a message `DeltaTable`."""

    def __init__(self, spark: SparkSession, reference: Message) -> None:
        self._spark = spark
        self._sender = MessageSender(spark)
        self._reference = reference
        self._scans: dict[str | None, LogicalPlan] = {None: MessageRelation(message("Scan", table=reference))}
        """Plans by alias. Columns of a frame belong to its plan, so all plans are kept."""

    @property
    def label(self) -> str:
        reference: Any = self._reference
        return str(reference.table_or_view_name) or str(PathIdentifier(reference.path.path))

    def summary(self) -> TableSummary:
        with raised_as_ours():
            return TableSummary(facts=(), schema=self.rows(None).schema)

    def rows(self, alias: str | None) -> DataFrame:
        return self._sender.frame(self._scan(alias))

    def history(self, limit: int | None) -> DataFrame:
        rows = self._sender.frame(MessageRelation(message("DescribeHistory", table=self._reference)))
        return rows if limit is None else rows.limit(limit)

    def detail(self) -> DataFrame:
        return self._sender.frame(MessageRelation(message("DescribeDetail", table=self._reference)))

    def delete(self, condition: str | Column | None, *, alias: str | None, conflict_retries: int | None) -> None:
        deleted = message(
            "DeleteFromTable",
            target=self._target(alias),
            condition=self._expression(condition),
            conflict_retries=_text(conflict_retries),
        )
        self._sender.rows(deleted)

    def update(
        self,
        values: Mapping[str, str | Column],
        condition: str | Column | None,
        *,
        alias: str | None,
        conflict_retries: int | None,
    ) -> None:
        updated = message(
            "UpdateTable",
            target=self._target(alias),
            condition=self._expression(condition),
            assignments=self._assignments(values),
            conflict_retries=_text(conflict_retries),
        )
        self._sender.rows(updated)

    def merge(self, statement: MergeStatement, *, alias: str | None, conflict_retries: int | None) -> DataFrame:
        merged = message(
            "MergeIntoTable",
            target=self._target(alias),
            source=self._sender.relation(statement.source),
            condition=self._expression(statement.condition),
            matched_actions=self._actions(statement.matched),
            not_matched_actions=self._actions(statement.not_matched),
            not_matched_by_source_actions=self._actions(statement.not_matched_by_source),
            with_schema_evolution=statement.evolves,
            conflict_retries=_text(conflict_retries),
        )
        return self._spark.createDataFrame(self._sender.rows(merged), MERGED)

    def optimize(self, predicates: tuple[str, ...], zorder_by: list[str]) -> DataFrame:
        optimized = message(
            "OptimizeTable", table=self._reference, partition_filters=predicates, zorder_columns=zorder_by
        )
        return self._spark.createDataFrame(self._sender.rows(optimized), OPTIMIZED)

    def vacuum(self, retention_hours: float | None) -> DataFrame:
        hours = None if retention_hours is None else float(retention_hours)
        self._sender.run(message("VacuumTable", table=self._reference, retention_hours=hours))
        return self._spark.createDataFrame([], StructType([]))

    def generate(self, mode: str) -> None:
        self._sender.run(message("Generate", table=self._reference, mode=mode))

    def upgrade_protocol(self, reader_version: int, writer_version: int) -> None:
        versions = {"reader_version": reader_version, "writer_version": writer_version}
        self._sender.run(message("UpgradeTableProtocol", table=self._reference, **versions))

    def add_feature(self, name: str) -> None:
        self._sender.run(message("AddFeatureSupport", table=self._reference, feature_name=name))

    def drop_feature(self, name: str, *, truncate_history: bool) -> None:
        dropped = message(
            "DropFeatureSupport", table=self._reference, feature_name=name, truncate_history=truncate_history
        )
        self._sender.run(dropped)

    def restore(self, travel: TimeTravel) -> DataFrame:
        restored = message(
            "RestoreTable", table=self._reference, version=travel.version, timestamp=_timestamp(travel.timestamp)
        )
        return self._spark.createDataFrame(self._sender.rows(restored), RESTORED)

    def clone(
        self, travel: TimeTravel, target: str, *, is_shallow: bool, replace: bool, properties: Mapping[str, str]
    ) -> MessageTable:
        cloned = message(
            "CloneTable",
            table=self._reference,
            target=target,
            version=travel.version,
            timestamp=_timestamp(travel.timestamp),
            is_shallow=is_shallow,
            replace=replace,
            properties=properties,
        )
        self._sender.run(cloned)
        return MessageTables(self._spark).named(target)

    def _scan(self, alias: str | None) -> LogicalPlan:
        if alias not in self._scans:
            assert alias is not None
            self._scans[alias] = SubqueryAlias(self._scans[None], alias)
        return self._scans[alias]

    def _target(self, alias: str | None) -> Message:
        return self._sender.relation(self._scan(alias))

    def _expression(self, value: str | Column | None) -> Message | None:
        return None if value is None else self._sender.expression(value)

    def _assignments(self, values: Mapping[str, str | Column]) -> list[Message]:
        sender = self._sender
        return [
            message("Assignment", field=sender.column_name(name), value=sender.expression(value))
            for name, value in values.items()
        ]

    def _actions(self, clauses: Iterable[MergeClause]) -> list[Message]:
        return [self._action(clause) for clause in clauses]

    def _action(self, clause: MergeClause) -> Message:
        kind, content = "Delete", message("MergeIntoTable.Action.DeleteAction")
        if not isinstance(clause, DeleteClause):
            kind = "Update" if isinstance(clause, UpdateClause) else "Insert"
            if clause.values is None:
                kind = f"{kind}Star"
                content = message(f"MergeIntoTable.Action.{kind}Action")
            else:
                assignments = self._assignments(clause.values)
                content = message(f"MergeIntoTable.Action.{kind}Action", assignments=assignments)
        field = {"UpdateStar": "update_star", "InsertStar": "insert_star"}.get(kind, kind.lower())
        condition = self._expression(clause.condition)
        return message("MergeIntoTable.Action", condition=condition, **{f"{field}_action": content})


def _text(conflict_retries: int | None) -> str | None:
    return None if conflict_retries is None else str(conflict_retries)


def _timestamp(timestamp: str | datetime | None) -> str | None:
    return timestamp.isoformat(sep=" ") if isinstance(timestamp, datetime) else timestamp
