"""A bin whose rows are written in the order of a curve, in files of about the size wanted."""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Mapping, Sequence

import msgspec
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention
from pyspark.sql.types import DataType, StructField, StructType

from anabranch.commands.definition.clustering import clustering_columns
from anabranch.commands.optimize.optimize_plan import Plan, PlannedBin
from anabranch.commands.optimize.optimize_settings import CHECK_STATISTICS_SETTING, OptimizeSettings
from anabranch.commands.optimize.rewrite_bins import (
    CLUSTERING_PROVIDER,
    COLUMNS_TAG,
    CUBE_TAG,
    CURVE_TAG,
    HILBERT,
    RewrittenBin,
    as_output,
    hidden_rows,
    rewrite_request,
    rewritten_bin,
    sources,
)
from anabranch.commands.table_access import TableRef
from anabranch.errors.alterations import UnorderedClusteringColumnError
from anabranch.errors.maintenance import (
    RowOrderError,
    ZOrderColumnMissingError,
    ZOrderPartitionColumnError,
    ZOrderTypeError,
    ZOrderWithoutStatisticsError,
)
from anabranch.errors.tables import InvalidIdentifierError
from anabranch.protocol.stats_columns import indexed_columns
from anabranch.schema.column_mapping import physical_name
from anabranch.schema.paths import FieldPath, find, quoted
from anabranch.snapshot.snapshot import Snapshot
from anabranch.spark.layout.hilbert import HilbertOrder
from anabranch.spark.layout.range_numbers import has_order
from anabranch.spark.layout.row_order import Curve, OrderColumn, ordered_frame
from anabranch.spark.layout.zorder_keys import ZOrder
from anabranch.spark.rows.row_tracking import with_stable_ids
from anabranch.spark.session.table_identifiers import quote, split_identifier
from anabranch.spark.write.rewrite_request import stored_columns, write_request
from anabranch.transaction.rows.deletion_vector_actions import removal


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RowOrder:
    """By what rows are ordered, and what the files say of it."""

    columns: Sequence[OrderColumn]
    curve: Curve
    tags: Mapping[str, str | None] = dataclasses.field(default_factory=dict)
    clustering_provider: str | None = None


def ordered(
    table: TableRef,
    snapshot: Snapshot,
    plan: Plan,
    planned: PlannedBin,
    order: RowOrder,
    settings: OptimizeSettings,
) -> RewrittenBin:
    """Without word of where rows went: who has to know looks for them by their values."""
    adds = sources(snapshot, planned)
    request = rewrite_request(table, snapshot, plan, planned)
    counts, scan = request.row_counts, dataclasses.replace(request.scan, with_positions=True)
    shown = None if counts is None else sum(counts) - sum(map(hidden_rows, adds))
    frame = with_stable_ids(table.session.engine.scan(scan), scan.files, request.row_tracking)
    rows = ordered_frame(
        frame,
        order.columns,
        order.curve,
        row_count=shown if shown is not None else frame.count(),
        ranges_max=settings.ranges_max,
        file_count=max(1, planned.size_bytes // max(1, settings.max_file_bytes)),
    )
    stored = rows.select(*(rows[quote(field.name)] for field in stored_columns(request)))
    written = table.session.engine.write(write_request(request, stored))
    if shown is not None and written.num_rows != shown:
        raise RowOrderError(table=table.label, problem=f"{written.num_rows} rows came where {shown} were due")
    outputs = tuple(
        msgspec.structs.replace(
            output, tags={**(output.tags or {}), **order.tags}, clustering_provider=order.clustering_provider
        )
        for output in (as_output(add, adds, target=settings.max_file_bytes) for add in written.adds)
    )
    now_ms = table.session.clock.now_ms()
    removes = tuple(removal(add, removed_at_ms=now_ms, data_change=False) for add in adds)
    return rewritten_bin(planned, outputs, removes)


# ZORDER BY: all rows of a partition written anew, near each other where they are alike in the columns named.


def check_zorder_columns(table: TableRef, snapshot: Snapshot, names: Sequence[str], settings: OptimizeSettings) -> None:
    """Raises a typed error for a column by which rows cannot be ordered, or need not be."""
    indexed = indexed_columns(snapshot.schema, snapshot.properties, partition_columns=snapshot.partition_columns)
    without: list[str] = []
    for name in names:
        fields = _fields_of(table, snapshot, name)
        if fields[0].name in snapshot.partition_columns:
            raise ZOrderPartitionColumnError(table=table.label, column=name)
        kind = fields[-1].dataType
        if not has_order(kind):
            raise ZOrderTypeError(table=table.label, column=name, data_type=kind.simpleString())
        if tuple(physical_name(field, snapshot.column_mapping_mode) for field in fields) not in indexed:
            without.append(name)
    if without and settings.check_statistics:
        raise ZOrderWithoutStatisticsError(table=table.label, columns=tuple(without), setting=CHECK_STATISTICS_SETTING)


def zordered(
    table: TableRef,
    snapshot: Snapshot,
    plan: Plan,
    planned: PlannedBin,
    names: Sequence[str],
    settings: OptimizeSettings,
) -> RewrittenBin:
    """The rows of a bin in the order of their keys, in files of about the size wanted."""
    order = RowOrder(columns=[_column(table, snapshot, name) for name in names], curve=ZOrder())
    return ordered(table, snapshot, plan, planned, order, settings)


def _column(table: TableRef, snapshot: Snapshot, name: str) -> OrderColumn:
    fields = _fields_of(table, snapshot, name)
    return OrderColumn(column=F.col(".".join(quote(field.name) for field in fields)), data_type=fields[-1].dataType)


def _fields_of(table: TableRef, snapshot: Snapshot, name: str) -> list[StructField]:
    """The fields on the way to the column. A name with a dot is that of a column, if there is such a one."""
    whole = _field(snapshot.schema, name)
    if whole is not None:
        return [whole]
    found: list[StructField] = []
    here: DataType = snapshot.schema
    for part in _parts(name):
        field = _field(here, part) if isinstance(here, StructType) else None
        if field is None:
            raise ZOrderColumnMissingError(table=table.label, column=name, known=tuple(snapshot.schema.fieldNames()))
        found.append(field)
        here = field.dataType
    return found


def _field(struct: StructType, name: str) -> StructField | None:
    return next((field for field in struct.fields if field.name.lower() == name.lower()), None)


def _parts(name: str) -> tuple[str, ...]:
    """The names on the way to a column, as SQL writes them; one that SQL could not have stands for itself."""
    try:
        return split_identifier(name)
    except InvalidIdentifierError:
        return (name,)


# Clustering: rows that are alike in the clustering columns written together. See "Clustered Table".


def order_columns(table: TableRef, snapshot: Snapshot) -> list[OrderColumn]:
    """The clustering columns.

    Raises `UnorderedClusteringColumnError` where another engine let the table be clustered by what has no order.
    """
    paths = clustering_columns(snapshot)
    found: list[OrderColumn] = []
    for path in paths:
        field = find(snapshot.schema, path)
        assert field is not None, "a path that the schema has"
        if not has_order(field.dataType):
            reason = f"values of {quoted(path)} are {field.dataType.simpleString()}, unordered"
            raise UnorderedClusteringColumnError(table=table.label, columns=tuple(map(quoted, paths)), reason=reason)
        found.append(OrderColumn(column=F.col(_reference(path)), data_type=field.dataType))
    return found


def clustered(
    table: TableRef, snapshot: Snapshot, plan: Plan, planned: PlannedBin, settings: OptimizeSettings
) -> RewrittenBin:
    """The rows of a bin as a new cube: along the Hilbert curve, or in the order of the one clustering column."""
    columns = order_columns(table, snapshot)
    order = RowOrder(
        columns=columns,
        curve=HilbertOrder() if len(columns) > 1 else ZOrder(),
        tags=cube_tags([quoted(path) for path in clustering_columns(snapshot)]),
        clustering_provider=CLUSTERING_PROVIDER,
    )
    return ordered(table, snapshot, plan, planned, order, settings)


def cube_tags(columns: Sequence[str]) -> dict[str, str | None]:
    """Of the files of a cube that did not exist before."""
    return {
        CUBE_TAG: str(uuid.uuid4()),
        COLUMNS_TAG: msgspec.json.encode(list(columns)).decode(),
        CURVE_TAG: HILBERT,
    }


def _reference(path: FieldPath) -> str:
    return ".".join(map(quote, path))
