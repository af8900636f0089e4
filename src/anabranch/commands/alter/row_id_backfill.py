"""Row ids for files that were written before row tracking was on, in batches, beside writers. See "Row Tracking".

Once the table supports row tracking, every file that is committed has ids. So other writers add no files without ids,
and a backfill that was stopped continues when row tracking is turned on again. A statement may remove row tracking
meanwhile: each batch checks that the table still has it.

After the first commit the table supports row tracking and new files have ids, which are not read yet. After each batch
more files have ids. Only the property, which `alter_properties` sets last, has them read.
"""

from __future__ import annotations

import logging
import math

import numpy as np
import pyarrow.compute as pc

from anabranch.commands.alter.alter_transaction import Alteration
from anabranch.commands.definition.table_definition import current_properties
from anabranch.commands.dml.statement import check_same_table
from anabranch.commands.dml.target_table import with_counted_rows
from anabranch.commands.table_access import TableRef, reports_progress
from anabranch.errors.alterations import RowTrackingEnablementError
from anabranch.log.file_columns import FileMask
from anabranch.progress.progress_events import add_done, begin_phase
from anabranch.protocol.actions import AddFile
from anabranch.protocol.features import supported
from anabranch.protocol.properties import FEATURE_PREFIX
from anabranch.protocol.protocol_evolution import requested_protocol
from anabranch.snapshot.snapshot import Snapshot
from anabranch.transactions.commit.commit_attempt import tracks_rows
from anabranch.transactions.proposed_commit import Operation
from anabranch.transactions.rows.row_ids import ROW_TRACKING_FEATURE
from anabranch.transactions.statement_retry import execute_with_retries

LOGGER = logging.getLogger("anabranch.features")
SUSPENDED = "delta.rowTrackingSuspended"
BATCH_FILES_MAX = 50_000
"""The most files of one commit. Each takes a few hundred bytes of the log."""
LOST_RACES_MAX = 100
"""How often a batch is repeated after writers removed or changed one of its files. It takes no Spark job."""


def files_without_ids(snapshot: Snapshot) -> int:
    """How many files have no row ids."""
    return int(_without_ids(snapshot).sum())


@reports_progress("ROW TRACKING BACKFILL")
def give_row_ids(table: TableRef) -> None:
    """Give ids to the rows of all files. No row changes, so concurrent statements do not conflict with it.

    The number of batches follows from the files without ids at the start. A writer that adds others meanwhile violates
    the protocol, and its files get none. Raises `DeltaConcurrentModificationException` where a batch loses to other
    writers too often, `RowTrackingEnablementError` where another statement turns row tracking off, and `StorageError`
    for files whose rows have to be counted and that cannot be opened.
    """
    _add_feature(table)
    begun = table.latest()
    begin_phase("give row ids", files=files_without_ids(begun))
    for batch in range(math.ceil(files_without_ids(begun) / BATCH_FILES_MAX)):
        if not _commit_batch(table, batch, table_id=begun.metadata.id):
            return


def _add_feature(table: TableRef) -> None:
    """Add the feature to the table: all files that are committed after it have ids."""
    alteration = Alteration(table)
    metadata, protocol = alteration.snapshot.metadata, alteration.snapshot.protocol
    if supported(protocol, ROW_TRACKING_FEATURE) and SUSPENDED not in metadata.configuration:
        return
    properties = {f"{FEATURE_PREFIX}{ROW_TRACKING_FEATURE}": "supported"}
    configuration = {name: value for name, value in current_properties(metadata).items() if name != SUSPENDED}
    defined = alteration.define(configuration=configuration, requested=requested_protocol(properties))
    alteration.commit("SET TBLPROPERTIES", {"properties": properties}, defined)


def _commit_batch(table: TableRef, batch: int, *, table_id: str) -> bool:
    """Commit some files again, with ids; False where no file lacks them.

    A file that another writer removed meanwhile must not return: the batch is repeated with the remaining files.
    """
    session = table.session
    return execute_with_retries(
        lambda _: _commit_batch_once(table, batch, table_id=table_id),
        retries_max=LOST_RACES_MAX,
        random=session.random,
        sleep=session.clock.sleep_ms,
    )


def _commit_batch_once(table: TableRef, batch: int, *, table_id: str) -> bool:
    snapshot = table.latest()
    check_same_table(table, snapshot, table_id=table_id)
    if not tracks_rows(snapshot.protocol, snapshot.metadata):
        reason = (
            "another statement, such as DROP FEATURE rowTracking, turned it off while rows were given ids. Set the "
            "property again once that statement has ended"
        )
        raise RowTrackingEnablementError(table=table.label, reason=reason)
    chosen = _without_ids(snapshot)
    chosen[np.flatnonzero(chosen)[BATCH_FILES_MAX:]] = False
    if not chosen.any():
        return False
    files = [with_counted_rows(add, table) for add in snapshot.files.to_actions(chosen, data_change=False)]
    operation = Operation(name="ROW TRACKING BACKFILL", parameters={"batchId": batch})
    committed = table.begin_at(operation, snapshot=snapshot).commit(files)
    # Without ids, the same files would be in the next batch again.
    assert all(add.base_row_id is not None for add in committed.actions if isinstance(add, AddFile))
    add_done(files=len(files))
    LOGGER.info("%s: batch %d of row ids: %d files", table.label, batch, len(files))
    return True


def _without_ids(snapshot: Snapshot) -> FileMask:
    return np.array(pc.is_null(snapshot.files.columns("base_row_id")["base_row_id"]), dtype=np.bool_)
