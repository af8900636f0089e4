"""Rows that are made of rows of the very table they are written to: on which they depend."""

from __future__ import annotations

import dataclasses

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from anabranch.commands.table_access import TableHandle
from anabranch.commands.target_rows import TargetRows
from anabranch.schema.column_mapping import ColumnMappingMode
from anabranch.snapshot.scan_plan import can_be_true
from anabranch.snapshot.snapshot import Snapshot
from anabranch.spark.conditions import understood
from anabranch.spark.engine import OwnRead
from anabranch.spark.physical_predicates import PhysicalNames
from anabranch.transaction.transaction import Transaction


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class OwnFilter:
    """A query that reads the table once, row by row, and nothing else: what its rows pass before all else."""

    condition: str
    alias: str | None
    """What it calls the table."""


def record_own_reads(
    handle: TableHandle,
    frame: DataFrame,
    snapshot: Snapshot,
    transaction: Transaction,
    *,
    told: OwnFilter | None,
    at_snapshot: bool,
) -> None:
    """The rows depend on rows of the table itself: on which, the plan of the frame may tell, or else `told`.

    `at_snapshot` says that every read is of that version: only then is what came since known to be new to it.
    """
    reads = handle.session.engine.own_reads(frame, handle.path, snapshot.schema)
    if reads is None and told is not None:
        read = _read_of_text(handle, snapshot, told)
        reads = None if read is None else (read,)
    if reads is None:
        transaction.record_whole_table()
        return
    names = PhysicalNames(snapshot.schema, snapshot.column_mapping_mode)
    for read in reads:
        predicate = names.of(read.predicate)
        files = can_be_true(predicate, snapshot.skipping_columns)
        again = None
        if at_snapshot and read.condition is not None:
            again = TargetRows(handle, snapshot, transaction.vectors, alias=read.names).asking(read.condition)
        transaction.record_scan(predicate, files=files, again=again)


def _read_of_text(handle: TableHandle, snapshot: Snapshot, told: OwnFilter) -> OwnRead | None:
    """None where the condition may tell otherwise when it is asked again."""
    session = handle.session
    try:
        asked = understood(
            session.spark,
            told.condition,
            schema=snapshot.schema,
            column_mapping=ColumnMappingMode.NONE,
            alias=told.alias,
            now_ms=session.clock.now_ms(),
            reads_table=lambda _: True,
        )
    except AnalysisException:
        # Such as a name with its schema, which stands for nothing here.
        return None
    # The frame has the clock of its own job, not this one.
    if not asked.repeatable or asked.asks_other_rows or asked.condition != told.condition:
        return None
    return OwnRead(predicate=asked.predicate, condition=F.expr(told.condition), names=told.alias)
