"""Clustering: rows that are alike in the clustering columns written together. See "Clustered Table"."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

import msgspec
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from anabranch.commands.bin_packing import PlannedBin
from anabranch.commands.cluster_cubes import CLUSTERING_PROVIDER, COLUMNS_TAG, CUBE_TAG, CURVE_TAG, HILBERT
from anabranch.commands.clustering import clustering_columns
from anabranch.commands.optimize_plan import Plan
from anabranch.commands.optimize_settings import OptimizeSettings
from anabranch.commands.ordered_bins import RowOrder, ordered
from anabranch.commands.rewritten_bins import RewrittenBin
from anabranch.commands.table_access import TableHandle
from anabranch.errors.alterations import InvalidClusteringError
from anabranch.schema.paths import FieldPath, find, quoted
from anabranch.snapshot.snapshot import Snapshot
from anabranch.spark.hilbert_keys import HilbertOrder
from anabranch.spark.range_numbers import has_order
from anabranch.spark.row_order import OrderColumn
from anabranch.spark.table_identifiers import quote
from anabranch.spark.zorder_keys import ZOrder


def order_columns(handle: TableHandle, snapshot: Snapshot) -> list[OrderColumn]:
    """The clustering columns.

    Raises `InvalidClusteringError` where another engine let the table be clustered by what has no order.
    """
    paths = clustering_columns(snapshot)
    found: list[OrderColumn] = []
    for path in paths:
        field = find(snapshot.schema, path)
        assert field is not None, "a path that the schema has"
        if not has_order(field.dataType):
            reason = f"values of {quoted(path)} are {field.dataType.simpleString()}, unordered"
            raise InvalidClusteringError(table=handle.label, columns=tuple(map(quoted, paths)), reason=reason)
        found.append(OrderColumn(column=F.col(_reference(path)), data_type=field.dataType))
    return found


def clustered(
    handle: TableHandle, snapshot: Snapshot, plan: Plan, planned: PlannedBin, settings: OptimizeSettings
) -> RewrittenBin:
    """The rows of a bin as a new cube: along the Hilbert curve, or in the order of the one clustering column."""
    columns = order_columns(handle, snapshot)
    order = RowOrder(
        columns=columns,
        curve=HilbertOrder() if len(columns) > 1 else ZOrder(),
        tags=cube_tags([quoted(path) for path in clustering_columns(snapshot)]),
        clustering_provider=CLUSTERING_PROVIDER,
    )
    return ordered(handle, snapshot, plan, planned, order, settings)


def cube_tags(columns: Sequence[str]) -> dict[str, str | None]:
    """Of the files of a cube that did not exist before."""
    return {
        CUBE_TAG: str(uuid.uuid4()),
        COLUMNS_TAG: msgspec.json.encode(list(columns)).decode(),
        CURVE_TAG: HILBERT,
    }


def _reference(path: FieldPath) -> str:
    return ".".join(map(quote, path))
