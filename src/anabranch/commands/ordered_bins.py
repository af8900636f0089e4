"""A bin whose rows are written in the order of a curve, in files of about the size wanted."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import msgspec

from anabranch.commands.bin_packing import PlannedBin
from anabranch.commands.optimize_plan import Plan
from anabranch.commands.optimize_settings import OptimizeSettings
from anabranch.commands.rewritten_bins import (
    RewrittenBin,
    as_output,
    hidden_rows,
    rewrite_request,
    rewritten_bin,
    sources,
)
from anabranch.commands.table_access import TableHandle
from anabranch.errors.optimize import RowOrderError
from anabranch.snapshot.snapshot import Snapshot
from anabranch.spark.rewriting import stored_columns, write_request
from anabranch.spark.row_order import Curve, OrderColumn, ordered_frame
from anabranch.spark.row_tracking import stable
from anabranch.spark.table_identifiers import quote
from anabranch.transaction.hiding_rows import removal


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RowOrder:
    """By what rows are ordered, and what the files say of it."""

    columns: Sequence[OrderColumn]
    curve: Curve
    tags: Mapping[str, str | None] = dataclasses.field(default_factory=dict)
    clustering_provider: str | None = None


def ordered(
    handle: TableHandle,
    snapshot: Snapshot,
    plan: Plan,
    planned: PlannedBin,
    order: RowOrder,
    settings: OptimizeSettings,
) -> RewrittenBin:
    """Without word of where rows went: who has to know looks for them by their values."""
    adds = sources(snapshot, planned)
    request = rewrite_request(handle, snapshot, plan, planned)
    counts, scan = request.row_counts, dataclasses.replace(request.scan, with_positions=True)
    shown = None if counts is None else sum(counts) - sum(map(hidden_rows, adds))
    frame = stable(handle.session.engine.scan(scan), scan.files, request.row_tracking)
    rows = ordered_frame(
        frame,
        order.columns,
        order.curve,
        row_count=shown if shown is not None else frame.count(),
        ranges_max=settings.ranges_max,
        file_count=max(1, planned.size_bytes // max(1, settings.max_file_bytes)),
    )
    stored = rows.select(*(rows[quote(field.name)] for field in stored_columns(request)))
    written = handle.session.engine.write(write_request(request, stored))
    if shown is not None and written.num_rows != shown:
        raise RowOrderError(table=handle.label, problem=f"{written.num_rows} rows came where {shown} were due")
    outputs = tuple(
        msgspec.structs.replace(
            output, tags={**(output.tags or {}), **order.tags}, clustering_provider=order.clustering_provider
        )
        for output in (as_output(add, target=settings.max_file_bytes) for add in written.adds)
    )
    now_ms = handle.session.clock.now_ms()
    removes = tuple(removal(add, removed_at_ms=now_ms, data_change=False) for add in adds)
    return rewritten_bin(planned, outputs, removes)
