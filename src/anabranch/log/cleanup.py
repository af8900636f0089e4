"""Choosing the files of the log that are no longer needed, and deleting them. See "Metadata Cleanup"."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pyarrow.parquet as pq

from anabranch.errors.log import CorruptCheckpointError, TimestampEarlierThanFirstCommitError
from anabranch.errors.protocol import MalformedActionError, UnsafePathError
from anabranch.log.checkpoint_reading import read_checkpoint
from anabranch.log.commit_files import READERS
from anabranch.log.log_segment import CheckpointFiles, LogFile, LogListing, after_last_gap, list_log_files, sort_by_kind
from anabranch.log.time_travel import TimestampSearch
from anabranch.protocol.actions import Sidecar
from anabranch.protocol.actions_json import parse_actions
from anabranch.protocol.data_paths import decode_sidecar_path
from anabranch.protocol.log_paths import SIDECAR_DIRECTORY, LogFileKind
from anabranch.protocol.properties import TableProperties
from anabranch.storage.log_store import LogStore, read_whole

# Sidecars that no checkpoint refers to any more. See "Sidecar Files" and "Metadata Cleanup".


_COLUMN = "sidecar"


def delete_orphaned_sidecars(store: LogStore, checkpoints: Iterable[CheckpointFiles], *, before_ms: int) -> int:
    """Delete the sidecars written before `before_ms` to which none of `checkpoints` refers; return their number.

    Newer ones may belong to a checkpoint that is being written. Raises `CorruptCheckpointError` and
    `FileMissingError` where the sidecars of a checkpoint cannot be read, and then deletes none; `StorageError`.
    """
    old = [file.path for file in store.list_from(SIDECAR_DIRECTORY) if file.modified_ms < before_ms]
    if not old:
        return 0
    with ThreadPoolExecutor(max_workers=READERS, thread_name_prefix="anabranch-sidecars") as pool:
        referenced = frozenset[str]().union(*pool.map(lambda checkpoint: sidecars_of(store, checkpoint), checkpoints))
    deletion = store.delete_many([path for path in old if path not in referenced])
    if deletion.failures:
        raise deletion.failures[0]
    return deletion.count


def sidecars_of(store: LogStore, checkpoint: CheckpointFiles) -> frozenset[str]:
    """The plain paths of the sidecars of a checkpoint. Only this column of its Parquet files is read.

    Raises `CorruptCheckpointError`, `FileMissingError`, `StorageError`.
    """
    paths = set[str]()
    for file in checkpoint.files:
        try:
            uris = _of_json(read_whole(store, file)) if file.path.endswith(".json") else _of_parquet(store, file.path)
            paths |= {decode_sidecar_path(uri, table_root=store.root) for uri in uris}
        except (pa.ArrowException, MalformedActionError, UnsafePathError) as error:
            raise CorruptCheckpointError(
                table=store.root, version=checkpoint.version, path=file.path, reason=str(error)
            ) from error
    return frozenset(paths)


def _of_json(data: bytes) -> list[str]:
    return [action.path for action in parse_actions(data) if isinstance(action, Sidecar)]


def _of_parquet(store: LogStore, path: str) -> list[str]:
    with store.open(path) as opened:
        file = pq.ParquetFile(opened)
        if _COLUMN not in file.schema_arrow.names:
            return []
        column = file.read(columns=[f"{_COLUMN}.path"])[_COLUMN]
    return [uri for chunk in column.chunks for uri in chunk.field("path").drop_null().to_pylist()]


LOGGER = logging.getLogger("anabranch.log")
MINUTE_MS = 60 * 1000
DAY_MS = 24 * 60 * MINUTE_MS
BATCH_FILES = 1000
NO_PROPERTIES = TableProperties()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CleanupPlan:
    """The log files to delete, and the checkpoint from which every remaining version can be rebuilt."""

    checkpoint: CheckpointFiles
    """It replaces all deleted files."""
    paths: tuple[str, ...]
    """The files to delete. The order keeps the log readable if deletion stops anywhere: the oldest version first, and
    the commit last among the files of one version."""
    num_commits: int = 0
    """That many of `paths` must be deleted before any of the others; 0 where this does not matter."""
    deletes_checkpoints: bool = False
    remaining: tuple[CheckpointFiles, ...] = ()
    """The checkpoints that remain, including those newer than `upto`."""

    @property
    def kept_checkpoint(self) -> int:
        """The version of `checkpoint`, the oldest that can be rebuilt afterwards."""
        return self.checkpoint.version


def cutoff_ms(*, now_ms: int, retention_ms: int, granularity_ms: int = DAY_MS) -> int:
    """The start of the day (UTC), or of another `granularity_ms`, before which the log need not be kept."""
    past = now_ms - retention_ms
    return past - past % granularity_ms


def clean_up_log(store: LogStore, *, upto: int, now_ms: int, properties: TableProperties) -> None:
    """Delete log files older than `delta.logRetentionDuration` that version `upto` does not need. Lists the log once.

    Raises as `plan_cleanup` and `delete_expired`.
    """
    cutoff = cutoff_ms(now_ms=now_ms, retention_ms=properties.log_retention_ms)
    plan = plan_cleanup(
        store,
        upto=upto,
        cutoff_ms=cutoff,
        protected_before=properties.checkpoint_protection_version,
        properties=properties,
    )
    if plan is None:
        return
    LOGGER.info("%s: removing %d log files before version %d", store.root, len(plan.paths), plan.kept_checkpoint)
    delete_expired(store, plan)
    if plan.deletes_checkpoints:
        before_ms = cutoff_ms(now_ms=now_ms, retention_ms=DAY_MS)
        delete_orphaned_sidecars(store, plan.remaining, before_ms=before_ms)


def plan_cleanup(
    store: LogStore,
    *,
    upto: int,
    cutoff_ms: int,
    protected_before: int = 0,
    properties: TableProperties = NO_PROPERTIES,
) -> CleanupPlan | None:
    """The log files that no version from `cutoff_ms` on needs, or None where there are none.

    `upto` is an existing version; newer ones are ignored. The times of commits are their in-commit timestamps where
    `properties`, those of version `upto`, enable them, else those of their files, made to ascend. Versions before
    `protected_before` are deleted together or not at all: see `delta.requireCheckpointProtectionBeforeVersion`.

    Raises `MissingInCommitTimestampError`, `StorageError`.
    """
    log_files = list(list_log_files(store, first=0, upto=None))
    listing = sort_by_kind(log_files, upto=upto)
    cutoff_version = _newest_before(store, listing, cutoff_ms, upto=upto, properties=properties)
    if cutoff_version is None:
        return None
    kept = _newest_checkpoint(listing.checkpoints, cutoff_version)
    # Without its commit a checkpoint has no provenance, nor the in-commit timestamp of its version.
    if kept is None or not any(commit.version == kept.version for commit in listing.commits):
        return None
    if kept.version < protected_before:
        return None
    expired = [file for file in log_files if _is_expired(file, kept.version)]
    if not expired:
        return None
    protects = any(name.version < protected_before for name, _ in expired)
    ordered = sorted(expired, key=_checkpoints_last if protects else _order)
    checkpoints = sum(name.kind.is_checkpoint for name, _ in ordered)
    return CleanupPlan(
        checkpoint=kept,
        paths=tuple(file.path for _, file in ordered),
        num_commits=len(ordered) - checkpoints if protects else 0,
        deletes_checkpoints=checkpoints > 0,
        remaining=tuple(
            checkpoint
            for checkpoint in sort_by_kind(log_files, upto=None).checkpoints
            if checkpoint.version >= kept.version
        ),
    )


def delete_expired(store: LogStore, plan: CleanupPlan) -> None:
    """Delete the files of a plan, after reading the checkpoint completely: nothing could replace it afterwards.

    If it stops anywhere, the remaining versions can still be read, and a new plan has the rest of the files. Raises
    `CorruptCheckpointError` and `FileMissingError`, and then nothing is deleted; `StorageError`.
    """
    checkpoint = read_checkpoint(store, plan.checkpoint)
    checkpoint.load_tombstones()
    if checkpoint.load_stats is not None:
        checkpoint.load_stats()
    if checkpoint.protocol is None or checkpoint.metadata is None:
        path = plan.checkpoint.files[0].path
        reason = "it lacks the protocol or the metadata"
        raise CorruptCheckpointError(table=store.root, version=plan.kept_checkpoint, path=path, reason=reason)
    for part in (plan.paths[: plan.num_commits], plan.paths[plan.num_commits :]):
        # A service deletes the files of one request in no defined order, so commits and checkpoints never share one.
        for start in range(0, len(part), BATCH_FILES):
            deletion = store.delete_many(part[start : start + BATCH_FILES])
            if deletion.failures:
                raise deletion.failures[0]


def _newest_before(
    store: LogStore, listing: LogListing, cutoff_ms: int, *, upto: int, properties: TableProperties
) -> int | None:
    """The newest version at the cutoff, if any: it was current then, so it must stay readable."""
    commits = after_last_gap(listing.commits)
    if not commits:
        return None
    search = TimestampSearch.among(
        store,
        commits,
        latest_version=upto,
        # The true time is not needed: if the latest commit is before the cutoff, the search still returns it.
        latest_timestamp_ms=cutoff_ms + 1,
        properties=properties,
    )
    try:
        return search.version_at(cutoff_ms, can_return_last=True).version
    except TimestampEarlierThanFirstCommitError:
        return None


def _newest_checkpoint(checkpoints: tuple[CheckpointFiles, ...], version: int) -> CheckpointFiles | None:
    return next((checkpoint for checkpoint in reversed(checkpoints) if checkpoint.version <= version), None)


def _is_expired(log_file: LogFile, kept: int) -> bool:
    name, _ = log_file
    return name.version < kept or (name.version == kept and name.kind is LogFileKind.COMPACTED)


def _checkpoints_last(log_file: LogFile) -> tuple[bool, int, bool, str]:
    """The order in which checkpoints are deleted last: a reader may lack features of commits that they replace."""
    return log_file[0].kind.is_checkpoint, *_order(log_file)


def _order(log_file: LogFile) -> tuple[int, bool, str]:
    """Oldest version first, and the commit last among the files of one version."""
    name, file = log_file
    return name.version, name.kind is LogFileKind.COMMIT, file.path
