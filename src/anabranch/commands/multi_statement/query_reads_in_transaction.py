"""What queries in a transaction of several statements read, on which its commit depends."""

from __future__ import annotations

from typing import Any

from pyspark.sql.types import StructType

from anabranch.commands.dml.query_reads import scan_of
from anabranch.commands.table_access import TableRef, table_at
from anabranch.snapshot.snapshot import Snapshot
from anabranch.spark.native.plan_reading import reads_of_query
from anabranch.spark.session.delta_session import DeltaSession
from anabranch.transactions.multi_statement.open_transaction import open_transaction
from anabranch.transactions.read_set import WHOLE_TABLE
from anabranch.transactions.rows.deletion_vector_actions import StoredVectors


def record_reads(session: DeltaSession, key: str, plan: Any) -> None:
    """Record the reads of an optimized plan in the transaction of that key. Does nothing if that has ended."""
    transaction = open_transaction(key)
    if transaction is None:
        return

    def table(root: str) -> TableRef:
        return table_at(session, root, transaction=key)

    def schema_of(root: str, version: int) -> StructType:
        return table(root).delta_log.snapshots.at_version(version).schema

    for query in reads_of_query(session.spark, plan, key, schema_of):
        reference = table(query.table_root)
        changed = transaction.table_of(reference.committed_log)
        if changed is None:
            continue
        seen = changed.log.snapshots.at_version(query.version)
        if query.read is None:
            changed.record_scan(WHOLE_TABLE, seen)
            continue
        vectors = StoredVectors(reference.committed_log.store, session.random)
        changed.record_scan(scan_of(reference, seen, vectors, query.read, at_snapshot=True), seen)


def record_whole_table(table: TableRef, seen: Snapshot) -> None:
    """Record that a query in the table's transaction, if there is one, depends on all rows."""
    transaction = table.open_transaction
    changed = None if transaction is None else transaction.table_of(table.committed_log)
    if changed is not None:
        changed.record_scan(WHOLE_TABLE, seen)
