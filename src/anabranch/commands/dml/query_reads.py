"""Reads of a table by the query whose rows are written to the same table."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from py4j.protocol import Py4JError
from pyroaring import BitMap64
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from anabranch.commands.dml.target_table import TargetRows
from anabranch.commands.table_access import TableRef
from anabranch.data_skipping.file_skipping import can_be_true
from anabranch.predicates.expressions import with_physical_columns
from anabranch.schema.column_mapping import physical_paths
from anabranch.snapshot.snapshot import Snapshot
from anabranch.spark.engine import OwnRead
from anabranch.spark.native.plan_reading import own_reads
from anabranch.transactions.read_set import EvaluateRows, RowsOfFile, Scan
from anabranch.transactions.rows.deletion_vector_actions import Vectors
from anabranch.transactions.transaction import Transaction

LOGGER = logging.getLogger("anabranch.commit")


def record_query_reads(
    table: TableRef, frame: DataFrame, snapshot: Snapshot, transaction: Transaction, *, at_snapshot: bool
) -> None:
    """Record the rows of the table on which the frame depends, as far as its plan shows them.

    `at_snapshot` says that every read is of that version: only then has the query seen none of the later commits.
    """
    reads = own_reads(frame, table.path, snapshot.schema)
    if reads is None:
        transaction.record_whole_table()
        return
    for read in reads:
        scan = scan_of(table, snapshot, transaction.vectors, read, at_snapshot=at_snapshot)
        transaction.record_scan(scan.predicate, files=scan.files, reevaluate=scan.reevaluate)


def scan_of(table: TableRef, snapshot: Snapshot, vectors: Vectors, read: OwnRead, *, at_snapshot: bool) -> Scan:
    """What a query reads of a version. With `at_snapshot` its condition may be evaluated again for other rows."""
    physical = physical_paths(snapshot.schema, snapshot.column_mapping_mode)
    predicate = with_physical_columns(read.predicate, physical)
    again = None
    if at_snapshot and read.narrows:
        again = _evaluating(TargetRows(table, snapshot, vectors, alias=read.names), read)
    return Scan(predicate=predicate, files=can_be_true(predicate, snapshot.skipping_columns), reevaluate=again)


def _evaluating(target: TargetRows, read: OwnRead) -> EvaluateRows:
    def matching(rows: Sequence[RowsOfFile]) -> Sequence[BitMap64 | None]:
        try:
            return target.matching(rows, read.select)
        except (PySparkException, Py4JError):
            if not read.matches:
                raise
            # The query is evaluated again with its other tables, of which some files may be deleted by now.
            LOGGER.warning(
                "cannot find out which new rows of %s the query would have read", target.table.label, exc_info=True
            )
            return [None] * len(rows)

    return matching
