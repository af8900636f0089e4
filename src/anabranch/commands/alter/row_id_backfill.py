"""Row ids for files that were written before the table had any: in batches, beside writers. See "Row Tracking".

Once the table supports row tracking, every file that is committed has ids; so the files that lack them only get fewer,
whoever writes meanwhile, and what was stopped goes on when row tracking is turned on again.
"""

from __future__ import annotations

import itertools
import logging

import numpy as np
import pyarrow.compute as pc

from anabranch.commands.alter.alter_transaction import Alteration
from anabranch.commands.definition.table_definition import current_properties
from anabranch.commands.dml.target_table import with_counted_rows
from anabranch.commands.table_access import TableRef
from anabranch.log.file_columns import FileMask
from anabranch.protocol.features import supported
from anabranch.protocol.properties import FEATURE_PREFIX
from anabranch.protocol.protocol_evolution import requested_protocol
from anabranch.snapshot.snapshot import Snapshot
from anabranch.transaction.proposed_commit import Operation
from anabranch.transaction.rows.row_ids import ROW_TRACKING_FEATURE
from anabranch.transaction.statement_retry import re_executed

LOGGER = logging.getLogger("anabranch.features")
SUSPENDED = "delta.rowTrackingSuspended"
BATCH_FILES_MAX = 50_000
"""Files of one commit. Each costs a few hundred bytes of the log."""
LOST_RACES_MAX = 100
"""How often a batch is made anew behind writers that took or changed one of its files. It takes no Spark job."""


def files_without_ids(snapshot: Snapshot) -> int:
    """How many files have no row ids."""
    return int(_lacking(snapshot).sum())


def give_row_ids(handle: TableRef) -> None:
    """Give ids to the rows of all files. No row changes, so statements beside it do not conflict with it.

    Raises `DeltaConcurrentModificationException` where writers are faster again and again, and `StorageError` for files
    whose rows have to be counted and that cannot be opened.
    """
    _support(handle)
    for batch in itertools.count():
        if not _numbered(handle, batch):
            return


def _support(handle: TableRef) -> None:
    """From here on all new files have ids."""
    alteration = Alteration(handle)
    metadata, protocol = alteration.snapshot.metadata, alteration.snapshot.protocol
    if supported(protocol, ROW_TRACKING_FEATURE) and SUSPENDED not in metadata.configuration:
        return
    asked = {f"{FEATURE_PREFIX}{ROW_TRACKING_FEATURE}": "supported"}
    configuration = {name: value for name, value in current_properties(metadata).items() if name != SUSPENDED}
    defined = alteration.define(configuration=configuration, requested=requested_protocol(asked))
    alteration.commit("SET TBLPROPERTIES", {"properties": asked}, defined)


def _numbered(handle: TableRef, batch: int) -> bool:
    """Commit some files again, with ids; False where none lacks them.

    A file that a writer took meanwhile is not to come back: then the batch is made of those that are left.
    """
    session = handle.session
    return re_executed(
        lambda _: _numbered_once(handle, batch),
        retries_max=LOST_RACES_MAX,
        random=session.random,
        sleep=session.clock.sleep_ms,
    )


def _numbered_once(handle: TableRef, batch: int) -> bool:
    snapshot = handle.latest()
    chosen = _lacking(snapshot)
    chosen[np.flatnonzero(chosen)[BATCH_FILES_MAX:]] = False
    if not chosen.any():
        return False
    files = [with_counted_rows(add, handle) for add in snapshot.files.to_actions(chosen, data_change=False)]
    operation = Operation(name="ROW TRACKING BACKFILL", parameters={"batchId": batch})
    handle.begin_at(operation, snapshot=snapshot).commit(files)
    LOGGER.info("%s: batch %d of row ids: %d files", handle.label, batch, len(files))
    return True


def _lacking(snapshot: Snapshot) -> FileMask:
    return np.array(pc.is_null(snapshot.files.columns("base_row_id")["base_row_id"]), dtype=np.bool_)
