"""Whether a VACUUM that landed first deletes files of a commit.

Files that a writer has written and not committed, and files that RESTORE adds again, are in no version of the table. A
VACUUM deletes them if its retention is shorter than the writer takes. Its commits, VACUUM START before the first
deletion and VACUUM END after the last, are winners like others: a commit that follows one of them checks that its files
exist. After START that is not enough, since they may be deleted next: there a file, or its tombstone, must also be too
young for that VACUUM.
"""

from __future__ import annotations

import concurrent.futures
import dataclasses
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from anabranch.deletion_vectors.vector_reading import path_in_table
from anabranch.errors.commits import ConcurrentDeleteReadException, ConflictReason
from anabranch.log.file_columns import vector_ids
from anabranch.protocol.actions import AddCDCFile, AddFile
from anabranch.protocol.data_paths import relative_path
from anabranch.storage.log_store import LogStore
from anabranch.transactions.conflicts.latest_state import LatestState
from anabranch.transactions.conflicts.winners import Winner
from anabranch.transactions.proposed_commit import ProposedCommit
from anabranch.transactions.read_set import FileKey

START = "VACUUM START"
END = "VACUUM END"
_PARALLEL_CHECKS_MAX = 16
_ADVICE = (
    "Run the operation again. A VACUUM whose retention is shorter than a writer takes deletes what that writer has "
    "written: keep to the table's retention, or run VACUUM while no other operation writes to the table."
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _OwnFile:
    """A file that is in the table only by our commit."""

    path: str
    """The unencoded path, relative to the table's root."""
    removed_ms: int
    """The time of the tombstone for which a VACUUM keeps the file; 0 where there is none."""


def check_files_exist(ours: ProposedCommit, latest: LatestState, store: LogStore) -> None:
    """Refuse a commit whose files a VACUUM among the winners has deleted, or may delete next.

    Without such a winner no file is checked. Raises `ConcurrentDeleteReadException`, `StorageError`.
    """
    vacuums = [winner for winner in latest.winners if winner.operation in (START, END)]
    own = list(_own_files(ours, latest, store.root)) if vacuums else []
    if not own:
        return
    cutoff_ms = max((_cutoff_ms(winner) for winner in vacuums if winner.operation == START), default=0)
    for file, modified_ms in zip(own, _modified_ms(own, store), strict=True):
        if modified_ms is None or max(modified_ms, file.removed_ms) < cutoff_ms:
            raise ConcurrentDeleteReadException(
                table=latest.table,
                version=vacuums[-1].version,
                operation=vacuums[-1].operation,
                read_version=ours.read_version,
                reason=ConflictReason.FILES_VACUUMED,
                where=file.path,
                advice=_ADVICE,
            )


def _cutoff_ms(start: Winner) -> int:
    """The time before which files were written that the VACUUM deletes, unless a version needs them.

    The later of two clocks counts, and a retention that cannot be read counts as 0: a false refusal only costs
    another run.
    """
    parameters = (start.info and start.info.operation_parameters) or {}
    retention = parameters.get("specifiedRetentionMillis", parameters.get("defaultRetentionMillis"))
    try:
        retention_ms = int(str(retention))
    except ValueError:
        retention_ms = 0
    return max(start.commit.modified_ms, start.commit.timestamp_ms) - retention_ms


def _own_files(ours: ProposedCommit, latest: LatestState, root: str) -> Iterator[_OwnFile]:
    """Data files, vectors and change data that a VACUUM may delete, since no version before ours has them."""
    adds = [action for action in ours.actions if isinstance(action, AddFile)]
    live = latest.live_keys({add.path for add in adds})
    new = [add for add in adds if add.key not in live]
    removed_ms = _removal_times_ms(latest, {add.path for add in new})
    for add in new:
        vector = None if add.deletion_vector is None else path_in_table(add.deletion_vector, table_root=root)
        data = None if any(path == add.path for path, _ in live) else relative_path(add.path, table_root=root)
        for path in (data, vector):
            if path is not None:
                yield _OwnFile(path=path, removed_ms=removed_ms.get(add.key, 0))
    for action in ours.actions:
        if isinstance(action, AddCDCFile) and (path := relative_path(action.path, table_root=root)) is not None:
            yield _OwnFile(path=path, removed_ms=0)


def _removal_times_ms(latest: LatestState, paths: set[str]) -> dict[FileKey, int]:
    """The times at which files of these paths were removed, for those that have a tombstone."""
    removed_ms: dict[FileKey, int] = {}
    if latest.base is not None and paths:
        table = latest.base.tombstones()
        table = table.filter(pc.is_in(table["path"], value_set=pa.array(sorted(paths), pa.string())))
        keys = zip(table["path"].to_pylist(), vector_ids(table["deletion_vector"]).to_pylist(), strict=True)
        times = table["deletion_timestamp"].to_pylist()
        removed_ms = {key: time_ms or 0 for key, time_ms in zip(keys, times, strict=True)}
    for winner in latest.winners:
        removed_ms |= {remove.key: remove.deletion_timestamp or 0 for remove in winner.removes if remove.path in paths}
    return removed_ms


def _modified_ms(files: Sequence[_OwnFile], store: LogStore) -> list[int | None]:
    """The times at which the files were written, by the storage's clock; None for a file that is gone."""

    def modified_ms(file: _OwnFile) -> int | None:
        stored = store.head(file.path)
        return None if stored is None else stored.modified_ms

    if len(files) == 1:
        return [modified_ms(files[0])]
    with concurrent.futures.ThreadPoolExecutor(min(_PARALLEL_CHECKS_MAX, len(files))) as pool:
        return list(pool.map(modified_ms, files))
