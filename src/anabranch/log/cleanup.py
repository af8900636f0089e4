"""Which files of the log are no longer needed, and how they go. See "Metadata Cleanup"."""

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
from anabranch.log.listing import CheckpointFiles, LogListing, NamedFile, consecutive, list_named, sorted_listing
from anabranch.log.time_travel import TimestampSearch
from anabranch.protocol.actions import Sidecar
from anabranch.protocol.actions_json import parse_actions
from anabranch.protocol.data_paths import decode_sidecar_path
from anabranch.protocol.log_paths import SIDECAR_DIRECTORY, LogFileKind
from anabranch.protocol.properties import TableProperties
from anabranch.storage.log_store import LogStore

# Sidecars that no checkpoint names any more. See "Sidecar Files" and "Metadata Cleanup".


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


LOGGER = logging.getLogger("anabranch.log")
MINUTE_MS = 60 * 1000
DAY_MS = 24 * 60 * MINUTE_MS
BATCH_FILES = 1000
NO_PROPERTIES = TableProperties()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CleanupPlan:
    """What may go, and what every version that remains is rebuilt from."""

    checkpoint: CheckpointFiles
    """It stands in for all that goes."""
    paths: tuple[str, ...]
    """Oldest version first, and of one version the commit last: cut short at any point, the log stays readable."""
    num_commits: int = 0
    """So many of the first of `paths` are gone for sure before another is touched; 0 where that is of no matter."""
    takes_checkpoints: bool = False
    remaining: tuple[CheckpointFiles, ...] = ()
    """The checkpoints that stay, those among them that are newer than what was looked at."""

    @property
    def kept_checkpoint(self) -> int:
        """The version of that checkpoint, the oldest that can be rebuilt afterwards."""
        return self.checkpoint.version


def cutoff_ms(*, now_ms: int, retention_ms: int, granularity_ms: int = DAY_MS) -> int:
    """The start of the day (UTC), or of the minute, up to which the log need not be kept."""
    past = now_ms - retention_ms
    return past - past % granularity_ms


def clean_up_log(store: LogStore, *, upto: int, now_ms: int, properties: TableProperties) -> None:
    """Remove what `delta.logRetentionDuration` does not keep any more, as of version `upto`. Lists the log once.

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
    if plan.takes_checkpoints:
        before_ms = cutoff_ms(now_ms=now_ms, retention_ms=DAY_MS)
        delete_unnamed_sidecars(store, plan.remaining, before_ms=before_ms)


def plan_cleanup(
    store: LogStore,
    *,
    upto: int,
    cutoff_ms: int,
    protected_before: int = 0,
    properties: TableProperties = NO_PROPERTIES,
) -> CleanupPlan | None:
    """The log files that no version from `cutoff_ms` on needs, or None where there are none.

    `upto` is a version known to be there; nothing newer is looked at. The times of commits are those that
    `properties`, which are of that version, say they have in them, else those of their files, made to ascend. Versions
    before `protected_before` go all at once or not at all: see `delta.requireCheckpointProtectionBeforeVersion`.

    Raises `MissingInCommitTimestampError`, `StorageError`.
    """
    named = list(list_named(store, first=0, upto=None))
    listing = sorted_listing(named, upto=upto)
    cutoff_version = _newest_before(store, listing, cutoff_ms, upto=upto, properties=properties)
    if cutoff_version is None:
        return None
    kept = _newest_checkpoint(listing.checkpoints, cutoff_version)
    # Without its commit a checkpoint has no provenance, nor the in-commit timestamp of its version.
    if kept is None or not any(commit.version == kept.version for commit in listing.commits):
        return None
    if kept.version < protected_before:
        return None
    expired = [entry for entry in named if _is_expired(entry, kept.version)]
    if not expired:
        return None
    protects = any(name.version < protected_before for name, _ in expired)
    ordered = sorted(expired, key=_checkpoints_last if protects else _order)
    checkpoints = sum(name.kind.is_checkpoint for name, _ in ordered)
    return CleanupPlan(
        checkpoint=kept,
        paths=tuple(file.path for _, file in ordered),
        num_commits=len(ordered) - checkpoints if protects else 0,
        takes_checkpoints=checkpoints > 0,
        remaining=tuple(one for one in sorted_listing(named, upto=None).checkpoints if one.version >= kept.version),
    )


def delete_expired(store: LogStore, plan: CleanupPlan) -> None:
    """Do as planned, once the checkpoint that is kept has been read whole: nothing could replace it any more.

    Stopped anywhere, it leaves a log whose kept versions read as before; planned again, it goes on. Raises
    `CorruptCheckpointError`, `FileMissingError`, and then nothing is deleted; `StorageError`.
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
        # What a service removes by one request goes in no known order, so commits and what hides them never share one.
        for start in range(0, len(part), BATCH_FILES):
            deletion = store.delete_many(part[start : start + BATCH_FILES])
            if deletion.failures:
                raise deletion.failures[0]


def _newest_before(
    store: LogStore, listing: LogListing, cutoff_ms: int, *, upto: int, properties: TableProperties
) -> int | None:
    """The newest commit that is not newer than the cut-off: what was current then must stay readable."""
    commits = consecutive(listing.commits)
    if not commits:
        return None
    search = TimestampSearch.among(
        store,
        commits,
        latest_version=upto,
        # Not looked up for its own sake: if the latest is that old, the search among all commits finds it.
        latest_timestamp_ms=cutoff_ms + 1,
        properties=properties,
    )
    try:
        return search.version_at(cutoff_ms, can_return_last=True).version
    except TimestampEarlierThanFirstCommitError:
        return None


def _newest_checkpoint(checkpoints: tuple[CheckpointFiles, ...], version: int) -> CheckpointFiles | None:
    return next((one for one in reversed(checkpoints) if one.version <= version), None)


def _is_expired(entry: NamedFile, kept: int) -> bool:
    name, _ = entry
    return name.version < kept or (name.version == kept and name.kind is LogFileKind.COMPACTED)


def _checkpoints_last(entry: NamedFile) -> tuple[bool, int, bool, str]:
    """Commits that a reader may not understand are never there without the checkpoints that hide them."""
    return entry[0].kind.is_checkpoint, *_order(entry)


def _order(entry: NamedFile) -> tuple[int, bool, str]:
    name, file = entry
    return name.version, name.kind is LogFileKind.COMMIT, file.path
