"""Sidecars that no checkpoint names any more. See "Sidecar Files" and "Metadata Cleanup"."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pyarrow.parquet as pq

from anabranch.errors.log import CorruptCheckpointError
from anabranch.errors.protocol import MalformedActionError, UnsafePathError
from anabranch.log.commits import READERS
from anabranch.log.listing import CheckpointFiles
from anabranch.protocol.actions import Sidecar
from anabranch.protocol.actions_json import parse_actions
from anabranch.protocol.data_paths import decode_sidecar_path
from anabranch.protocol.log_paths import SIDECAR_DIRECTORY
from anabranch.storage.log_store import LogStore

_COLUMN = "sidecar"


def delete_unnamed_sidecars(store: LogStore, checkpoints: Iterable[CheckpointFiles], *, before_ms: int) -> int:
    """Remove the sidecars that were written before `before_ms` and that none of `checkpoints` names; how many.

    Younger ones may belong to a checkpoint that is being written. Raises `CorruptCheckpointError` and
    `FileMissingError` where a checkpoint does not tell its sidecars, and then removes none; `StorageError`.
    """
    old = [file.path for file in store.list_from(SIDECAR_DIRECTORY) if file.modified_ms < before_ms]
    if not old:
        return 0
    with ThreadPoolExecutor(max_workers=READERS, thread_name_prefix="anabranch-sidecars") as pool:
        named = frozenset[str]().union(*pool.map(lambda one: sidecars_of(store, one), checkpoints))
    unnamed = [path for path in old if path not in named]
    deletion = store.delete_many(unnamed)
    if deletion.failures:
        raise deletion.failures[0]
    return deletion.count


def sidecars_of(store: LogStore, checkpoint: CheckpointFiles) -> frozenset[str]:
    """The plain paths of what a checkpoint names; of its Parquet files, no other column is read.

    Raises `CorruptCheckpointError`, `FileMissingError`, `StorageError`.
    """
    found = set[str]()
    for file in checkpoint.files:
        try:
            uris = _of_json(store.read(file.path)) if file.path.endswith(".json") else _of_parquet(store, file.path)
            found |= {decode_sidecar_path(uri, table_root=store.root) for uri in uris}
        except (pa.ArrowException, MalformedActionError, UnsafePathError) as error:
            raise CorruptCheckpointError(
                table=store.root, version=checkpoint.version, path=file.path, reason=str(error)
            ) from error
    return frozenset(found)


def _of_json(data: bytes) -> list[str]:
    return [action.path for action in parse_actions(data) if isinstance(action, Sidecar)]


def _of_parquet(store: LogStore, path: str) -> list[str]:
    with store.open(path) as opened:
        file = pq.ParquetFile(opened)
        if _COLUMN not in file.schema_arrow.names:
            return []
        column = file.read(columns=[f"{_COLUMN}.path"])[_COLUMN]
    return [uri for chunk in column.chunks for uri in chunk.field("path").drop_null().to_pylist()]
