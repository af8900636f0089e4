"""Which files lead from one version to another, and whether they are still there. No Spark, and no object a file."""

from __future__ import annotations

import concurrent.futures
import dataclasses

import pyarrow as pa
import pyarrow.compute as pc

from anabranch.deletion_vectors.locations import vector_path
from anabranch.log.file_columns import logical_keys
from anabranch.protocol.actions import DeletionVectorDescriptor
from anabranch.protocol.data_paths import decode_path_column
from anabranch.snapshot.live_files import LiveFiles
from anabranch.storage.elsewhere import allowed_places
from anabranch.storage.log_store import LogStore

LISTED_FROM = 256
"""So many files and more are looked up in a listing of the table, fewer one by one."""
_AT_ONCE = 16


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FileDifference:
    """What has to leave and to come so that the files of one version become those of another.

    A logical file is a path and a vector: a file whose vector differs leaves and comes.
    """

    leaving: pa.Array
    """By row of the files there are: True for those that the other version has not."""
    coming: pa.Array
    """By row of the other version's files: True for those that are not there."""

    @property
    def num_leaving(self) -> int:
        return int(self.leaving.true_count)


def file_difference(now: LiveFiles, then: LiveFiles) -> FileDifference:
    """From `now` to `then`."""
    ours, theirs = (logical_keys(files.columns("path", "deletion_vector")) for files in (now, then))
    return FileDifference(leaving=_not_in(ours, theirs), coming=_not_in(theirs, ours))


def missing_files(store: LogStore, files: pa.Table) -> list[str]:
    """Data files and vector files of these live files that the store has not, in plain text, sorted.

    Raises `UnsafePathError` for a file outside of where the table may reach, `StorageError`.
    """
    places = allowed_places(store)
    wanted = decode_path_column(files["path"], table_root=store.root, allowed_prefixes=places)
    vectors = files["deletion_vector"].drop_null().to_pylist()
    named = {
        vector_path(DeletionVectorDescriptor(**vector), table_root=store.root, allowed_prefixes=places)
        for vector in vectors
        if vector["storage_type"] != "i"
    }
    wanted = pc.unique(pa.concat_arrays([wanted, pa.array(sorted(named), pa.string())]))
    if len(wanted) >= LISTED_FROM:
        listed = pa.array([file.path for file in store.list_tree()], pa.string())
        wanted = wanted.filter(_not_in(wanted, listed))
    if not len(wanted):
        return []
    # What a listing lacks is asked for by name: files outside the table are in none.
    paths: list[str] = sorted(wanted.to_pylist())
    with concurrent.futures.ThreadPoolExecutor(min(_AT_ONCE, len(paths)), thread_name_prefix="restore") as pool:
        there = list(pool.map(lambda path: store.head(path) is not None, paths))
    return [path for path, found in zip(paths, there, strict=True) if not found]


def _not_in(keys: pa.Array | pa.ChunkedArray, others: pa.Array | pa.ChunkedArray) -> pa.Array:
    mask = pc.invert(pc.is_in(keys, value_set=others))
    return mask.combine_chunks() if isinstance(mask, pa.ChunkedArray) else mask
