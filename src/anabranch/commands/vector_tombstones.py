"""Files of vectors that older versions need, named by tombstones before the table forgets what vectors are.

A VACUUM that knows no deletion vectors deletes whatever no action names as a path. Tombstones it spares as long as
`delta.deletedFileRetentionDuration` says, and with them the versions that can be read back that far.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from anabranch.commands.table_access import TableHandle
from anabranch.deletion_vectors.locations import vector_path
from anabranch.errors.protocol import UnsafePathError
from anabranch.errors.vectors import DeletionVectorDescriptorError
from anabranch.protocol.actions import DeletionVectorDescriptor, RemoveFile
from anabranch.protocol.data_paths import encode_path
from anabranch.transaction.operation import Operation

INLINE = "i"


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
    vectors = pc.drop_null(tombstones["deletion_vector"])
    found = set[str]()
    for storage_type, text in {(each["storage_type"], each["path_or_inline_dv"]) for each in vectors.to_pylist()}:
        if storage_type == INLINE:
            continue
        descriptor = DeletionVectorDescriptor(
            storage_type=storage_type, path_or_inline_dv=text, size_in_bytes=0, cardinality=0
        )
        try:
            found.add(encode_path(vector_path(descriptor, table_root=table_root)))
        except (DeletionVectorDescriptorError, UnsafePathError):
            continue
    return frozenset(found)
