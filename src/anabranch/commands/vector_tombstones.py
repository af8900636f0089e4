"""Files of vectors that older versions need, named by tombstones before the table forgets what vectors are.

A VACUUM that knows no deletion vectors deletes whatever no action names as a path. Tombstones it spares as long as
`delta.deletedFileRetentionDuration` says, and with them the versions that can be read back that far.
"""

from __future__ import annotations

from contextlib import suppress

import pyarrow as pa
import pyarrow.compute as pc

from anabranch.commands.table_access import TableHandle
from anabranch.deletion_vectors.vector_files import distinct_files, path_in_table
from anabranch.errors.protocol import UnsafePathError
from anabranch.errors.vectors import DeletionVectorDescriptorError
from anabranch.protocol.actions import RemoveFile
from anabranch.protocol.data_paths import encode_path
from anabranch.transaction.operation import Operation


def name_vector_files(handle: TableHandle) -> None:
    """One commit of tombstones, if some are missing."""
    snapshot, now_ms = handle.latest(), handle.session.clock.now_ms()
    tombstones = snapshot.tombstones(after_ms=snapshot.tombstone_retention_start_ms(now_ms=now_ms))
    named = frozenset(tombstones.filter(pc.is_null(tombstones["deletion_vector"]))["path"].to_pylist())
    paths = sorted(_vector_files(tombstones, handle.path) - named)
    if not paths:
        return
    removes = [RemoveFile(path=path, deletion_timestamp=now_ms, data_change=False) for path in paths]
    handle.begin_at(Operation(name="Deletion Vector Tombstones"), snapshot=snapshot).commit(removes)


def _vector_files(tombstones: pa.Table, table_root: str) -> frozenset[str]:
    """As the log spells paths. Files outside the table are nobody's to delete."""
    found = set[str]()
    for descriptor in distinct_files(tombstones["deletion_vector"]):
        with suppress(DeletionVectorDescriptorError, UnsafePathError):
            path = path_in_table(descriptor, table_root=table_root)
            if path is not None:
                found.add(encode_path(path))
    return frozenset(found)
