"""What a table must be for a DataFrame to be written to it: as it is, grown, or with a new schema."""

from __future__ import annotations

import dataclasses

from pyspark.sql.types import StructType

from anabranch.commands.alter.column_usage import check_constraints_find_columns, check_types_unused
from anabranch.commands.definition.clustering import check_clustering, clustering_left_behind
from anabranch.commands.definition.table_definition import (
    ResolvedDefinition,
    TableDefinition,
    define_table,
    with_clustering,
    with_schema,
)
from anabranch.commands.table_access import TableRef
from anabranch.commands.write.write_options import SaveMode, WriteOptions
from anabranch.errors.alterations import ClusteringMismatchError
from anabranch.protocol.actions import Action, Metadata
from anabranch.protocol.iceberg_compat import compat_versions
from anabranch.protocol.properties import TableProperties
from anabranch.schema.casts import Casting
from anabranch.schema.column_mapping import ColumnMappingMode
from anabranch.schema.enforcement import WriteApi, WritePlan, plan_new_schema, plan_write, rules_for
from anabranch.schema.logical_types import without_void
from anabranch.schema.serialization import parse_schema
from anabranch.schema.type_widening import Widening
from anabranch.schema.write_rules import row_rules
from anabranch.snapshot.snapshot import Snapshot
from anabranch.spark.session.delta_session import DeltaSession

CASE_SENSITIVE_SETTING = "spark.sql.caseSensitive"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class WriteTarget:
    """The table as the commit will leave it, and the actions that make it so."""

    plan: WritePlan
    metadata: Metadata
    actions: tuple[Action, ...] = ()
    """Protocol, metadata and domains that change; none for a table that stays as it is."""

    @property
    def properties(self) -> TableProperties:
        return TableProperties(self.metadata.configuration)

    @property
    def column_mapping(self) -> ColumnMappingMode:
        return ColumnMappingMode.parse(self.properties.column_mapping_mode)

    @property
    def partition_columns(self) -> tuple[str, ...]:
        return tuple(self.metadata.partition_columns)

    def actions_with(self, metadata: Metadata) -> tuple[Action, ...]:
        """`actions`, with other metadata in the place of the target's own."""
        if metadata is self.metadata:
            return self.actions
        return (*(action for action in self.actions if not isinstance(action, Metadata)), metadata)

    def file_schema(self, table: str) -> StructType:
        """The columns that rows are written with: all but those of void type, which files never hold."""
        return without_void(parse_schema(self.metadata.schema_string, table))


def new_target(table: TableRef, data: StructType, options: WriteOptions) -> WriteTarget:
    """A table made for this data."""
    plan = plan_new_schema(data, table=table.label, constraints={}, partition_columns=options.partition_by)
    defined = define_table(
        TableDefinition(
            schema=plan.schema,
            partition_columns=options.partition_by,
            clustering_columns=options.cluster_by,
            properties=options.table_properties,
        ),
        label=table.label,
        session_settings=table.session.all_settings(),
        now_ms=table.session.clock.now_ms(),
        source=table.session.random,
    )
    constraints = TableProperties(defined.metadata.configuration).constraints
    plan = dataclasses.replace(plan, row_rules=row_rules(plan.schema, constraints, table=table.label))
    return WriteTarget(
        plan=plan, metadata=defined.metadata, actions=(defined.protocol, defined.metadata, *defined.domains)
    )


def existing_target(
    table: TableRef, data: StructType, options: WriteOptions, api: WriteApi, snapshot: Snapshot
) -> WriteTarget:
    """The table as it is, or as the options let it become.

    Raises `SchemaMismatchError` and its kin, `ColumnInUseError`.
    """
    overwriting = options.mode is SaveMode.OVERWRITE
    rules = rules_for(
        api,
        overwriting=overwriting,
        merge_schema=options.merge_schema,
        overwrite_schema=options.replaces_schema,
        policy=store_assignment(table.session),
        case_sensitive=table.session.flag(CASE_SENSITIVE_SETTING, default=False),
        widening=automatic_widening(table.session, snapshot),
        iceberg=bool(compat_versions(snapshot.properties)),
        records_type_changes=snapshot.properties.type_widening_enabled,
    )
    plan = plan_write(
        data,
        snapshot.schema,
        rules,
        table=table.label,
        constraints=snapshot.properties.constraints,
        partition_columns=snapshot.partition_columns,
        requested_partitioning=options.partition_by,
    )
    defined = ResolvedDefinition(metadata=snapshot.metadata, protocol=snapshot.protocol)
    if plan.schema_changed:
        defined = _with_schema(table, options, snapshot, plan)
    if options.cluster_by and api is not WriteApi.STREAM:
        defined = _clustered(table, options, snapshot, defined)
    protocol = () if defined.protocol == snapshot.protocol else (defined.protocol,)
    metadata = () if defined.metadata is snapshot.metadata else (defined.metadata,)
    return WriteTarget(plan=plan, metadata=defined.metadata, actions=(*protocol, *metadata, *defined.domains))


def _with_schema(table: TableRef, options: WriteOptions, snapshot: Snapshot, plan: WritePlan) -> ResolvedDefinition:
    """The table with the columns of the plan; without its clustering where that does not fit them."""
    replaces = options.replaces_schema
    if replaces:
        check_constraints_find_columns(snapshot, plan.schema, table=table.label)
    else:
        check_types_unused(snapshot, plan.schema, table=table.label)
    defined = with_schema(
        snapshot.metadata,
        snapshot.protocol,
        plan.schema,
        partition_columns=options.partition_by if replaces else None,
        label=table.label,
        source=table.session.random,
    )
    unclustered = clustering_left_behind(snapshot, defined.metadata) if replaces else []
    return dataclasses.replace(defined, domains=tuple(unclustered))


def _clustered(
    table: TableRef, options: WriteOptions, snapshot: Snapshot, defined: ResolvedDefinition
) -> ResolvedDefinition:
    """The table with the clustering that the writer names, which only an overwrite of all rows can change."""
    try:
        check_clustering(options.cluster_by, snapshot, table=table.label)
        if not defined.domains:
            return defined
    except ClusteringMismatchError:
        if not options.replaces_all_rows(snapshot.partition_columns):
            raise
    return with_clustering(defined, options.cluster_by, label=table.label)


def store_assignment(session: DeltaSession) -> Casting:
    """What the session lets values become that have another type than their column."""
    return Casting.parse(session.setting("spark.sql.storeAssignmentPolicy", "ANSI") or "ANSI")


def automatic_widening(session: DeltaSession, snapshot: Snapshot) -> Widening:
    """How far a write that may change the schema widens columns on its own."""
    if not snapshot.properties.type_widening_enabled:
        return Widening.NONE
    setting = session.setting("spark.databricks.delta.typeWidening.allowAutomaticWidening", "same_family_type")
    try:
        return Widening((setting or "").lower())
    except ValueError:
        return Widening.SAME_FAMILY
