"""Reading checkpoints of every kind as columns. See "Checkpoints", "Checkpoint Specs", "Checkpoint Schema"."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import pyarrow as pa

from anabranch.errors.environment import FileMissingError
from anabranch.errors.log import CorruptCheckpointError
from anabranch.errors.protocol import MalformedActionError, UnsafePathError
from anabranch.log.checkpoint_part import CheckpointPart, DamagedPartError
from anabranch.log.commit_files import READERS
from anabranch.log.file_columns import (
    COLUMNS_WITHOUT_STATS,
    TOMBSTONE_SCHEMA,
    CompressedTexts,
    table_of_adds,
    table_of_removes,
)
from anabranch.log.log_segment import CheckpointFiles
from anabranch.protocol.actions import (
    Action,
    AddFile,
    DomainMetadata,
    Metadata,
    Protocol,
    RemoveFile,
    SetTransaction,
    Sidecar,
)
from anabranch.protocol.actions_json import parse_actions
from anabranch.protocol.data_paths import decode_sidecar_path
from anabranch.protocol.log_paths import SIDECAR_DIRECTORY
from anabranch.storage.log_store import LogStore, StoredFile, read_whole

A = TypeVar("A", bound=Action)
Argument = TypeVar("Argument")
Result = TypeVar("Result")

SIDECARS_MAX = 100_000
"""More sidecars than any engine writes: one holds tens of thousands of files."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """The content of a checkpoint."""

    protocol: Protocol | None
    metadata: Metadata | None
    set_transactions: tuple[SetTransaction, ...]
    domain_metadata: tuple[DomainMetadata, ...]
    adds: pa.Table
    """Live files as in `LIVE_FILE_SCHEMA`, without `stats`."""
    load_stats: Callable[[], CompressedTexts]
    """Decodes the column `stats`, in the order of `adds`. Reads nothing from storage."""
    load_tombstones: Callable[[], pa.Table]
    """Decodes the tombstones as in `TOMBSTONE_SCHEMA`. Reads nothing from storage."""


@dataclasses.dataclass(slots=True)
class _Contents:
    """One file of a checkpoint. `actions` are all of its actions if it is JSON, else those that are not files."""

    actions: list[Action]
    part: CheckpointPart | None = None


def read_checkpoint(store: LogStore, checkpoint: CheckpointFiles) -> Checkpoint:
    """Read a complete checkpoint, its parts and sidecars in parallel.

    Raises `CorruptCheckpointError` where a file is damaged or a sidecar is missing, `FileMissingError`
    where the checkpoint itself has been deleted since it was listed, `StorageError`.
    """
    top = _in_parallel(lambda file: _read_part(store, checkpoint, file), checkpoint.files)
    actions = [action for contents in top for action in contents.actions]
    sidecars = [action for action in actions if isinstance(action, Sidecar)]
    if len(sidecars) > SIDECARS_MAX:
        raise _corrupt(store, checkpoint, checkpoint.files[0].path, f"it names {len(sidecars)} sidecars")
    paths = dict.fromkeys(_sidecar_path(store, checkpoint, sidecar) for sidecar in sidecars)
    sidecar_contents = _in_parallel(lambda path: _read_sidecar(store, checkpoint, path), list(paths))
    parts = [contents.part for contents in (*top, *sidecar_contents) if contents.part is not None]
    return _assemble(store, checkpoint, actions, parts)


def _assemble(
    store: LogStore, checkpoint: CheckpointFiles, actions: Sequence[Action], parts: Sequence[CheckpointPart]
) -> Checkpoint:
    inline_adds = table_of_adds([action for action in actions if isinstance(action, AddFile)])
    inline_removes = table_of_removes([action for action in actions if isinstance(action, RemoveFile)])

    def adds() -> pa.Table:
        decoded = _in_parallel(
            lambda part: _decode(store, checkpoint, part, lambda: part.adds(COLUMNS_WITHOUT_STATS)), parts
        )
        return pa.concat_tables([*decoded, inline_adds.select(list(COLUMNS_WITHOUT_STATS))])

    def stats() -> CompressedTexts:
        decoded = _in_parallel(
            lambda part: _decode(store, checkpoint, part, lambda: CompressedTexts(part.statistics())), parts
        )
        return CompressedTexts.concat([*decoded, CompressedTexts([inline_adds["stats"]])])

    def removes() -> pa.Table:
        decoded = _in_parallel(lambda part: _decode(store, checkpoint, part, part.removes), parts)
        return pa.concat_tables([TOMBSTONE_SCHEMA.empty_table(), *decoded, inline_removes])

    def only_inline_removes() -> pa.Table:
        return inline_removes

    has_removes = any(part.has_removes for part in parts)
    return Checkpoint(
        protocol=_last_of(Protocol, actions),
        metadata=_last_of(Metadata, actions),
        set_transactions=tuple(action for action in actions if isinstance(action, SetTransaction)),
        domain_metadata=tuple(action for action in actions if isinstance(action, DomainMetadata)),
        adds=adds(),
        load_stats=stats,
        load_tombstones=removes if has_removes else only_inline_removes,
    )


def _read_part(store: LogStore, checkpoint: CheckpointFiles, file: StoredFile) -> _Contents:
    path = file.path
    if path.endswith(".json"):
        try:
            return _Contents(list(parse_actions(read_whole(store, file))))
        except MalformedActionError as error:
            raise _corrupt(store, checkpoint, path, error.explain()) from error
    try:
        part = CheckpointPart(path, store.read(path))
        return _Contents(list(part.actions()), part)
    except DamagedPartError as error:
        raise _corrupt(store, checkpoint, path, str(error)) from error


def _read_sidecar(store: LogStore, checkpoint: CheckpointFiles, path: str) -> _Contents:
    try:
        part = CheckpointPart(path, store.read(path))
        part.check()
        return _Contents([], part)
    except FileMissingError as error:
        raise _corrupt(store, checkpoint, path, "this sidecar is missing") from error
    except DamagedPartError as error:
        raise _corrupt(store, checkpoint, path, str(error)) from error


def _decode(store: LogStore, checkpoint: CheckpointFiles, part: CheckpointPart, work: Callable[[], Result]) -> Result:
    try:
        return work()
    except DamagedPartError as error:
        raise _corrupt(store, checkpoint, part.path, str(error)) from error


def _sidecar_path(store: LogStore, checkpoint: CheckpointFiles, sidecar: Sidecar) -> str:
    try:
        return decode_sidecar_path(sidecar.path, table_root=store.root)
    except UnsafePathError as error:
        reason = f"its sidecar {sidecar.path[:200]!r} is outside {SIDECAR_DIRECTORY}"
        raise _corrupt(store, checkpoint, checkpoint.files[0].path, reason) from error


def _corrupt(store: LogStore, checkpoint: CheckpointFiles, path: str, reason: str) -> CorruptCheckpointError:
    return CorruptCheckpointError(table=store.root, version=checkpoint.version, path=path, reason=reason)


def _last_of(kind: type[A], actions: Iterable[Action]) -> A | None:
    last = None
    for action in actions:
        if isinstance(action, kind):
            last = action
    return last


def _in_parallel(work: Callable[[Argument], Result], arguments: Sequence[Argument]) -> list[Result]:
    if len(arguments) < 2:
        return [work(argument) for argument in arguments]
    with ThreadPoolExecutor(max_workers=READERS, thread_name_prefix="anabranch-checkpoint") as pool:
        return list(pool.map(work, arguments))
