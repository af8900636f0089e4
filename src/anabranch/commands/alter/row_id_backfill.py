"""Row ids for files that were written before the table had any: in batches, beside writers. See "Row Tracking".

Once the table supports row tracking, every file that is committed has ids; so the files that lack them only get fewer,
whoever writes meanwhile, and what was stopped goes on when row tracking is turned on again. That ends where somebody
else takes row tracking away: each batch looks whether the table still has it.

What stands after which commit: after the first, the table supports row tracking, new files have ids, and nobody reads
any; after each batch, more files have ids; only the property, which `alter_properties` sets last, lets them be read.
"""

from __future__ import annotations

import logging
import math

import numpy as np
import pyarrow.compute as pc

from anabranch.commands.alter.alter_transaction import Alteration
from anabranch.commands.definition.table_definition import current_properties
from anabranch.commands.dml.target_table import with_counted_rows
from anabranch.commands.table_access import TableRef, check_same_table
from anabranch.errors.alterations import RowTrackingEnablementError
from anabranch.log.file_columns import FileMask
from anabranch.protocol.actions import AddFile
from anabranch.protocol.features import supported
from anabranch.protocol.properties import FEATURE_PREFIX
from anabranch.protocol.protocol_evolution import requested_protocol
from anabranch.snapshot.snapshot import Snapshot
from anabranch.transaction.commit.commit_draft import tracks_rows
from anabranch.transaction.proposed_commit import Operation
from anabranch.transaction.rows.row_ids import ROW_TRACKING_FEATURE
from anabranch.transaction.statement_retry import execute_with_retries

LOGGER = logging.getLogger("anabranch.features")
SUSPENDED = "delta.rowTrackingSuspended"
BATCH_FILES_MAX = 50_000
"""Files of one commit. Each costs a few hundred bytes of the log."""
LOST_RACES_MAX = 100
"""How often a batch is made anew behind writers that took or changed one of its files. It takes no Spark job."""


def files_without_ids(snapshot: Snapshot) -> int:
    """How many files have no row ids."""
    return int(_lacking(snapshot).sum())


def give_row_ids(table: TableRef) -> None:
    """Give ids to the rows of all files. No row changes, so statements beside it do not conflict with it.

    There are as many batches as the files without ids need when it begins; who brings others meanwhile does not keep to
    the protocol, and they are left. Raises `DeltaConcurrentModificationException` where writers are faster again and
    again, `RowTrackingEnablementError` where somebody turns row tracking off, and `StorageError` for files whose rows
    have to be counted and that cannot be opened.
    """
    _support(table)
    begun = table.latest()
    for batch in range(math.ceil(files_without_ids(begun) / BATCH_FILES_MAX)):
        if not _numbered(table, batch, table_id=begun.metadata.id):
            return


def _support(table: TableRef) -> None:
    """From here on all new files have ids."""
    alteration = Alteration(table)
    metadata, protocol = alteration.snapshot.metadata, alteration.snapshot.protocol
    if supported(protocol, ROW_TRACKING_FEATURE) and SUSPENDED not in metadata.configuration:
        return
    asked = {f"{FEATURE_PREFIX}{ROW_TRACKING_FEATURE}": "supported"}
    configuration = {name: value for name, value in current_properties(metadata).items() if name != SUSPENDED}
    defined = alteration.define(configuration=configuration, requested=requested_protocol(asked))
    alteration.commit("SET TBLPROPERTIES", {"properties": asked}, defined)


def _numbered(table: TableRef, batch: int, *, table_id: str) -> bool:
    """Commit some files again, with ids; False where none lacks them.

    A file that a writer took meanwhile is not to come back: then the batch is made of those that are left.
    """
    session = table.session
    return execute_with_retries(
        lambda _: _numbered_once(table, batch, table_id=table_id),
        retries_max=LOST_RACES_MAX,
        random=session.random,
        sleep=session.clock.sleep_ms,
    )


def _numbered_once(table: TableRef, batch: int, *, table_id: str) -> bool:
    snapshot = table.latest()
    check_same_table(table, snapshot, table_id=table_id)
    if not tracks_rows(snapshot.protocol, snapshot.metadata):
        reason = (
            "another statement, such as DROP FEATURE rowTracking, turned it off while rows were given ids. Set the "
            "property again once that statement has ended"
        )
        raise RowTrackingEnablementError(table=table.label, reason=reason)
    chosen = _lacking(snapshot)
    chosen[np.flatnonzero(chosen)[BATCH_FILES_MAX:]] = False
    if not chosen.any():
        return False
    files = [with_counted_rows(add, table) for add in snapshot.files.to_actions(chosen, data_change=False)]
    operation = Operation(name="ROW TRACKING BACKFILL", parameters={"batchId": batch})
    landed = table.begin_at(operation, snapshot=snapshot).commit(files)
    # Else the same files would come again in the next batch.
    assert all(each.base_row_id is not None for each in landed.actions if isinstance(each, AddFile))
    LOGGER.info("%s: batch %d of row ids: %d files", table.label, batch, len(files))
    return True


def _lacking(snapshot: Snapshot) -> FileMask:
    return np.array(pc.is_null(snapshot.files.columns("base_row_id")["base_row_id"]), dtype=np.bool_)
