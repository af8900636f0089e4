"""Tables of a session in this process, read and changed by Spark's plans and our commands."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.types import StructType

from anabranch.commands.clone.clone_definition import delta_source
from anabranch.commands.clone.clone_table import clone_target, shallow_clone
from anabranch.commands.convert.convert_table import convert_to_delta
from anabranch.commands.create.create_table import CreationMode, create_table
from anabranch.commands.definition.table_definition import TableDefinition
from anabranch.commands.describe.describe_table import describe_detail, describe_history
from anabranch.commands.drop_feature.drop_feature import alter_add_feature, alter_drop_feature, alter_upgrade_protocol
from anabranch.commands.merge.merge_statement import DeleteClause, MergeClause, MergeStatement, UpdateClause
from anabranch.commands.optimize.optimize_command import optimize_frame
from anabranch.commands.other_formats.symlink_manifests import generate
from anabranch.commands.restore.restore_table import restore_frame
from anabranch.commands.table_access import (
    TableRef,
    TimeTravel,
    existing_table_at,
    table_at,
    table_named,
    table_to_create,
)
from anabranch.commands.vacuum.vacuum_command import VacuumRequest, nothing, vacuum
from anabranch.errors.arguments import InvalidArgumentError
from anabranch.errors.log import TableNotFoundError
from anabranch.errors.tables import DeepCloneError
from anabranch.spark.extension.row_change_plans import PlannedClause, RowChangePlans, copy_of_frame
from anabranch.spark.session.delta_session import DeltaSession
from anabranch.spark.session.table_identifiers import PathIdentifier, parse_identifier, split_identifier
from anabranch.tables.table_operations import TableSummary


class LocalTables:
    """The tables of a session that knows Delta."""

    def __init__(self, session: DeltaSession) -> None:
        self._session = session

    def at_path(self, path: str, storage: Mapping[str, str]) -> LocalTable:
        return self._table(existing_table_at(self._session, path, storage))

    def named(self, name: str) -> LocalTable:
        return self._table(table_named(self._session, name))

    def is_table(self, path: str) -> bool:
        try:
            return table_at(self._session, path).delta_log.snapshots.latest_or_none() is not None
        except TableNotFoundError:
            return False

    def converted(self, identifier: str, partition_schema: StructType | None) -> LocalTable:
        parts = split_identifier(identifier)
        table = convert_to_delta(self._session, parts, partition_schema=partition_schema)
        table.latest()
        return self._table(table)

    def created(
        self, name: str | None, location: str | None, definition: TableDefinition, mode: CreationMode
    ) -> LocalTable:
        return self._table(create_table(self._to_create(name, location, mode), definition, mode))

    def _to_create(self, name: str | None, location: str | None, mode: CreationMode) -> TableRef:
        if name is None:
            if location is None:
                problem = "a table needs a name or a location; call tableName or location"
                raise InvalidArgumentError(argument="tableName", value="", problem=problem)
            return table_at(self._session, location)
        identifier = parse_identifier(name)
        if isinstance(identifier, PathIdentifier):
            if location not in {None, identifier.path}:
                problem = f"the table is named by the path {identifier.path}"
                raise InvalidArgumentError(argument="location", value=str(location), problem=problem)
            return table_at(self._session, identifier.path)
        return table_to_create(self._session, identifier, location=location, replaces=mode.replaces)

    def _table(self, table: TableRef) -> LocalTable:
        return LocalTable(self._session.spark, table)


class LocalTable:
    """One existing table."""

    def __init__(self, spark: SparkSession, table: TableRef) -> None:
        self._spark = spark
        self._table = table
        self._frame: DataFrame | None = None
        self._schema_string = ""

    @property
    def label(self) -> str:
        return self._table.label

    def summary(self) -> TableSummary:
        snapshot = self._table.latest()
        facts = [
            ("Location", self._table.path),
            ("Version", str(snapshot.version)),
            ("Files", f"{snapshot.files.count:,}"),
            ("Bytes", f"{snapshot.files.size_bytes:,}"),
            ("Partitioned by", ", ".join(snapshot.partition_columns)),
            ("Description", snapshot.metadata.description or ""),
        ]
        return TableSummary(facts=[fact for fact in facts if fact[1]], schema=snapshot.schema)

    def rows(self, alias: str | None) -> DataFrame:
        """The rows of the newest version.

        They are one frame for as long as the table has the same columns, so that Columns taken from it can be used in
        conditions and values.
        """
        schema_string = self._table.latest().metadata.schema_string
        if self._frame is None or schema_string != self._schema_string:
            self._frame = rows_by_spark(self._spark, self._table)
            self._schema_string = schema_string
        # A frame that has run once keeps its rows; a copy with the same columns reads the newest version.
        frame = copy_of_frame(self._frame)
        return frame if alias is None else frame.alias(alias)

    def history(self, limit: int | None) -> DataFrame:
        return describe_history(self._table, limit)

    def detail(self) -> DataFrame:
        return describe_detail(self._table)

    def delete(self, condition: str | Column | None, *, alias: str | None, conflict_retries: int | None) -> None:
        self._plans(conflict_retries).delete(self.rows(alias), condition)

    def update(
        self,
        values: Mapping[str, str | Column],
        condition: str | Column | None,
        *,
        alias: str | None,
        conflict_retries: int | None,
    ) -> None:
        self._plans(conflict_retries).update(self.rows(alias), values.items(), condition)

    def merge(self, statement: MergeStatement, *, alias: str | None, conflict_retries: int | None) -> DataFrame:
        return self._plans(conflict_retries).merge(
            self.rows(alias),
            statement.source,
            statement.condition,
            matched=[_planned(clause) for clause in statement.matched],
            not_matched=[_planned(clause) for clause in statement.not_matched],
            not_matched_by_source=[_planned(clause) for clause in statement.not_matched_by_source],
            evolves=statement.evolves,
        )

    def optimize(self, predicates: tuple[str, ...], zorder_by: list[str]) -> DataFrame:
        predicate = " AND ".join(f"({text})" for text in predicates) if predicates else None
        return optimize_frame(
            self._table, predicate=predicates[0] if len(predicates) == 1 else predicate, zorder_by=zorder_by
        )

    def vacuum(self, retention_hours: float | None) -> DataFrame:
        vacuum(self._table, VacuumRequest(retention_hours=retention_hours))
        return nothing(self._table)

    def generate(self, mode: str) -> None:
        generate(self._table, mode)

    def upgrade_protocol(self, reader_version: int, writer_version: int) -> None:
        alter_upgrade_protocol(self._table, reader_version, writer_version)

    def add_feature(self, name: str) -> None:
        alter_add_feature(self._table, name)

    def drop_feature(self, name: str, *, truncate_history: bool) -> None:
        alter_drop_feature(self._table, name, truncate_history=truncate_history)

    def restore(self, travel: TimeTravel) -> DataFrame:
        return restore_frame(self._table, travel)

    def clone(
        self, travel: TimeTravel, target: str, *, is_shallow: bool, replace: bool, properties: Mapping[str, str]
    ) -> LocalTable:
        if not is_shallow:
            raise DeepCloneError(target=target)
        clone = clone_target(self._table.session, target)
        mode = CreationMode.CREATE_OR_REPLACE if replace else CreationMode.CREATE
        shallow_clone(clone, delta_source(self._table, travel), mode, dict(properties))
        return LocalTable(self._spark, clone)

    def _plans(self, conflict_retries: int | None) -> RowChangePlans:
        return RowChangePlans(self._spark, conflict_retries=conflict_retries)


def rows_by_spark(spark: SparkSession, table: TableRef) -> DataFrame:
    """The newest rows, in a plan that Spark makes from the path or the name."""
    if table.entry is None:
        return spark.read.format("delta").options(**dict(table.storage)).load(table.path)
    return spark.table(table.entry.full_name.quoted)


def _planned(clause: MergeClause) -> PlannedClause:
    if isinstance(clause, DeleteClause):
        return PlannedClause(action="delete", condition=clause.condition)
    action = "update" if isinstance(clause, UpdateClause) else "insert"
    values = None if clause.values is None else clause.values.items()
    return PlannedClause(action=action, condition=clause.condition, values=values)
