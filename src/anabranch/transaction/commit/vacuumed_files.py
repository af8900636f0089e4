"""Whether the files of a commit outlive a VACUUM that landed first.

No version names what a writer has written and not committed, and what RESTORE brings back. A VACUUM with a retention
shorter than the writer takes deletes such files. Its commits, VACUUM START before the first deletion and VACUUM
END behind the last, are winners like others: a commit behind one of them looks whether its files are there. That is not
enough behind START, since they may be about to go: there a file, or its tombstone, must also be too young for that.
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
from anabranch.transaction.conflicts.latest_state import LatestState
from anabranch.transaction.conflicts.winners import Winner
from anabranch.transaction.proposed_commit import ProposedCommit
from anabranch.transaction.read_set import FileKey

START = "VACUUM START"
END = "VACUUM END"
_LOOKED_AT_ONCE = 16
_AGAIN = (
    "Run the operation again. A VACUUM whose retention is shorter than a writer takes deletes what that writer has "
    "written: keep to the table's retention, or run it while nobody writes."
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _OwnFile:
    """A file that only our commit makes one of the table."""

    path: str
    """Plain, from the table's root."""
    removed_ms: int
    """The time of the tombstone for which a VACUUM keeps it; 0 where there is none."""


def check_files_stand(ours: ProposedCommit, latest: LatestState, store: LogStore) -> None:
    """Refuse to name files that a VACUUM among the winners has deleted, or may be about to.

    Without such a winner nothing is looked at. Raises `ConcurrentDeleteReadException`, `StorageError`.
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
                advice=_AGAIN,
            )


def _cutoff_ms(start: Winner) -> int:
    """What was written before is deleted, unless a version needs it.

    The later of two clocks, and in doubt no retention: a refusal costs another run.
    """
    parameters = (start.info and start.info.operation_parameters) or {}
    asked = parameters.get("specifiedRetentionMillis", parameters.get("defaultRetentionMillis"))
    try:
        retention_ms = int(str(asked))
    except ValueError:
        retention_ms = 0
    return max(start.commit.modified_ms, start.commit.timestamp_ms) - retention_ms


def _own_files(ours: ProposedCommit, latest: LatestState, root: str) -> Iterator[_OwnFile]:
    """Data files, vectors and change data that no version before ours keeps from being deleted."""
    adds = [action for action in ours.actions if isinstance(action, AddFile)]
    live = latest.live_keys({add.path for add in adds})
    unkept = [add for add in adds if add.key not in live]
    removed_ms = _tombstones(latest, {add.path for add in unkept})
    for add in unkept:
        vector = None if add.deletion_vector is None else path_in_table(add.deletion_vector, table_root=root)
        data = None if any(path == add.path for path, _ in live) else relative_path(add.path, table_root=root)
        for path in (data, vector):
            if path is not None:
                yield _OwnFile(path=path, removed_ms=removed_ms.get(add.key, 0))
    for action in ours.actions:
        if isinstance(action, AddCDCFile) and (path := relative_path(action.path, table_root=root)) is not None:
            yield _OwnFile(path=path, removed_ms=0)


def _tombstones(latest: LatestState, paths: set[str]) -> dict[FileKey, int]:
    """When these files were removed, as far as they were. A file that is written anew costs only the look."""
    found: dict[FileKey, int] = {}
    if latest.base is not None and paths:
        table = latest.base.tombstones()
        table = table.filter(pc.is_in(table["path"], value_set=pa.array(sorted(paths), pa.string())))
        keys = zip(table["path"].to_pylist(), vector_ids(table["deletion_vector"]).to_pylist(), strict=True)
        found = {
            key: removed_ms or 0 for key, removed_ms in zip(keys, table["deletion_timestamp"].to_pylist(), strict=True)
        }
    for winner in latest.winners:
        found |= {remove.key: remove.deletion_timestamp or 0 for remove in winner.removes if remove.path in paths}
    return found


def _modified_ms(files: Sequence[_OwnFile], store: LogStore) -> list[int | None]:
    """When each was written, by the storage's clock; None where it is gone."""

    def look(file: _OwnFile) -> int | None:
        there = store.head(file.path)
        return None if there is None else there.modified_ms

    if len(files) == 1:
        return [look(files[0])]
    with concurrent.futures.ThreadPoolExecutor(min(_LOOKED_AT_ONCE, len(files))) as pool:
        return list(pool.map(look, files))
