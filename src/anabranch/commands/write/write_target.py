"""The table as it must be for a DataFrame to be written to it (unchanged, with more columns, or with a new schema), and
the rows as its data files.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention
from pyspark.sql.types import StructField, StructType

from anabranch.commands.data_files import write_data_files
from anabranch.commands.definition.clustering import check_clustering, clustering_removal
from anabranch.commands.definition.column_usage import check_constraints_find_columns, check_types_unused
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
from anabranch.errors.base import DeltaError
from anabranch.errors.constraints import ReplaceWhereMismatchError
from anabranch.protocol.actions import Action, Metadata
from anabranch.protocol.properties import TableProperties, compat_versions
from anabranch.schema.column_mapping import ColumnMappingMode
from anabranch.schema.enforcement import ColumnPlan, Fill, WritePlan, plan_new_schema, plan_write
from anabranch.schema.logical_types import DECLARED_TYPE, without_char_varchar, without_void
from anabranch.schema.paths import quote
from anabranch.schema.serialization import parse_schema
from anabranch.schema.write_rules import WriteApi, row_rules, rules_for
from anabranch.snapshot.snapshot import Snapshot
from anabranch.spark.conditions.column_names import named
from anabranch.spark.conditions.user_condition import text_of
from anabranch.spark.engine import WrittenFiles
from anabranch.spark.session.session_settings import CASE_SENSITIVE_SETTING, automatic_widening, store_assignment
from anabranch.spark.write.conform import conform
from anabranch.spark.write.file_schema import with_partition_values
from anabranch.spark.write.row_checks import refuse_when
from anabranch.transactions.proposed_commit import OnNewColumns, RowsWithColumns


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class WriteTarget:
    """The table as it will be after the commit, and the actions that change it."""

    plan: WritePlan
    metadata: Metadata
    schema: StructType
    """The columns of the table, as its metadata describes them."""
    actions: tuple[Action, ...] = ()
    """The new protocol, metadata and domains; none where nothing of the table itself changes."""
    on_new_columns: OnNewColumns | None = None
    """What would be written if another commit has added columns to the table that exists."""

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

    @property
    def file_schema(self) -> StructType:
        """The columns of the files: all but those of void type, which are never stored."""
        return without_void(self.schema)


def new_target(table: TableRef, data: StructType, options: WriteOptions) -> WriteTarget:
    """A new table for this data."""
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
        plan=plan,
        metadata=defined.metadata,
        schema=parse_schema(defined.metadata.schema_string, table.label),
        actions=(defined.protocol, defined.metadata, *defined.domains),
    )


def existing_target(
    table: TableRef, data: StructType, options: WriteOptions, api: WriteApi, snapshot: Snapshot
) -> WriteTarget:
    """The table, changed as far as the options allow.

    Raises `SchemaMismatchError` and its subclasses, `ColumnInUseError`.
    """
    overwriting = options.mode is SaveMode.OVERWRITE
    rules = rules_for(
        api,
        overwriting=overwriting,
        merge_schema=options.merge_schema,
        overwrite_schema=options.replaces_schema,
        policy=store_assignment(table.session),
        case_sensitive=table.session.flag(CASE_SENSITIVE_SETTING, default=False),
        widening=automatic_widening(table.session, snapshot.properties),
        iceberg=bool(compat_versions(snapshot.properties)),
        records_type_changes=snapshot.properties.type_widening_enabled,
    )

    def schema_of(metadata: Metadata) -> StructType:
        is_unchanged = metadata is snapshot.metadata
        return snapshot.schema if is_unchanged else parse_schema(metadata.schema_string, table.label)

    def planned(metadata: Metadata) -> WritePlan:
        return plan_write(
            data,
            schema_of(metadata),
            rules,
            table=table.label,
            constraints=TableProperties(metadata.configuration).constraints,
            partition_columns=metadata.partition_columns,
            requested_partitioning=options.partition_by,
        )

    def on_new_columns(metadata: Metadata) -> RowsWithColumns:
        return rows_with_columns(plan, planned, metadata)

    plan = planned(snapshot.metadata)
    defined = ResolvedDefinition(metadata=snapshot.metadata, protocol=snapshot.protocol)
    if plan.schema_changed:
        defined = _with_schema(table, options, snapshot, plan)
    if options.cluster_by and api is not WriteApi.STREAM:
        defined = _clustered(table, options, snapshot, defined)
    protocol = () if defined.protocol == snapshot.protocol else (defined.protocol,)
    metadata = () if defined.metadata is snapshot.metadata else (defined.metadata,)
    return WriteTarget(
        plan=plan,
        metadata=defined.metadata,
        schema=schema_of(defined.metadata),
        actions=(*protocol, *metadata, *defined.domains),
        on_new_columns=on_new_columns,
    )


def rows_with_columns(plan: WritePlan, planned: Callable[[Metadata], WritePlan], metadata: Metadata) -> RowsWithColumns:
    """Whether the data, planned again for the table with more columns, would have the same values, and no others."""
    try:
        again = planned(metadata)
    except DeltaError:
        return RowsWithColumns.UNKNOWN
    names = {column.target.name for column in plan.columns}
    columns = [column for column in again.columns if column.target.name in names]
    are_null = all(column.fill is Fill.NULL for column in again.columns if column.target.name not in names)
    same = [_values_of(column) for column in columns] == [_values_of(column) for column in plan.columns]
    return RowsWithColumns.SAME if same and are_null and not again.schema_changed else RowsWithColumns.UNKNOWN


def _values_of(column: ColumnPlan) -> ColumnPlan:
    """The plan of a column without what does not matter to its values."""
    target = StructField(column.target.name, column.target.dataType)
    return dataclasses.replace(column, target=target)


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
    unclustered = clustering_removal(snapshot, defined.metadata) if replaces else []
    return dataclasses.replace(defined, domains=tuple(unclustered))


def _clustered(
    table: TableRef, options: WriteOptions, snapshot: Snapshot, defined: ResolvedDefinition
) -> ResolvedDefinition:
    """The table with the clustering columns of the writer, which only an overwrite of all rows can change."""
    try:
        check_clustering(options.cluster_by, snapshot, table=table.label)
        if not defined.domains:
            return defined
    except ClusteringMismatchError:
        if not options.replaces_all_rows(snapshot.partition_columns):
            raise
    return with_clustering(defined, options.cluster_by, label=table.label)


_CHAR_IS_A_TYPE = "spark.sql.preserveCharVarcharTypeInfo"
_CHAR = re.compile(r"(?<!var)char\(", re.IGNORECASE)


def write_rows(
    table: TableRef,
    frame: DataFrame,
    target: WriteTarget,
    options: WriteOptions,
    first_numbers: Mapping[str, int] | None = None,
) -> WrittenFiles:
    """Run the frame and write its rows as the target's files. Nothing is committed.

    `first_numbers` are those of identity columns with reserved numbers.
    """
    rows = conform(_with_strings(frame), target.plan, table=table.label, first_numbers=first_numbers)
    if options.replace_where is not None and options.check_replace_where:
        rows = with_partition_values(rows, target.file_schema, target.partition_columns)
        rows, advice = _compared_as_read(table, rows)
        rows = _checked(named(rows, options.target_alias), options.replace_where, table=table.label, advice=advice)
    return write_data_files(
        table,
        rows,
        schema=target.file_schema,
        partition_columns=target.partition_columns,
        properties=target.properties,
        max_records_per_file=options.max_records_per_file,
        parquet=options.parquet,
        optimize=options.optimize_write,
    )


def _with_strings(frame: DataFrame) -> DataFrame:
    """The rows with CHAR and VARCHAR columns as strings: Spark 4.0 fails to optimize expressions of these types."""
    stored = without_char_varchar(frame.schema)
    kinds = {
        field.name: field.dataType
        for field, before in zip(stored.fields, frame.schema.fields, strict=True)
        if field.dataType != before.dataType
    }
    return frame.withColumns({name: frame[quote(name)].cast(kind) for name, kind in kinds.items()}) if kinds else frame


def _compared_as_read(table: TableRef, rows: DataFrame) -> tuple[DataFrame, str]:
    """The rows with CHAR columns as queries of the session compare them, and advice for the error message.

    Otherwise rows could satisfy a condition for which a query of the table returns none of them.
    """
    chars = {field.name for field in rows.schema.fields if _CHAR.search(str(field.metadata.get(DECLARED_TYPE, "")))}
    if not chars or not table.session.flag(_CHAR_IS_A_TYPE, default=False):
        return rows, ""
    columns = [F.col(quote(name)) for name in rows.columns]
    plain = [
        # The result of a cast is not a CHAR.
        column.cast("string").alias(name) if name in chars else column
        for name, column in zip(rows.columns, columns, strict=True)
    ]
    advice = (
        f" While {_CHAR_IS_A_TYPE} is true, conditions on CHAR columns must contain the blanks that pad the values."
    )
    return rows.select(*plain), advice


def _checked(rows: DataFrame, condition: str | Column, *, table: str, advice: str) -> DataFrame:
    """The rows, failing the job where one does not satisfy the condition."""
    first, *others = rows.columns
    is_true = F.expr(condition) if isinstance(condition, str) else condition
    violated = ~F.coalesce(is_true, F.lit(False))
    facts = {"table": table, "predicate": text_of(condition), "advice": advice}
    sample = F.to_json(F.struct(*(F.col(quote(name)) for name in rows.columns)), {"ignoreNullFields": "false"})
    column = F.col(quote(first))
    checked = refuse_when(violated, column, ReplaceWhereMismatchError, facts, shown={"row": sample}).alias(first)
    return rows.select(checked, *(F.col(quote(name)) for name in others))
