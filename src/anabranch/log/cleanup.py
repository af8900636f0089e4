"""Which files of the log are no longer needed, and how they go. See "Metadata Cleanup"."""

from __future__ import annotations

import dataclasses

from anabranch.errors.log import CorruptCheckpointError
from anabranch.log.checkpoint_reading import read_checkpoint
from anabranch.log.listing import CheckpointFiles, CommitFile, list_log
from anabranch.log.time_travel import monotonic_times
from anabranch.protocol.log_paths import LOG_DIRECTORY, LogFileKind, LogPath, parse_log_path
from anabranch.storage.log_store import LogStore, StoredFile

MINUTE_MS = 60 * 1000
DAY_MS = 24 * 60 * MINUTE_MS


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CleanupPlan:
    """What may go, and what every version that remains is rebuilt from."""

    checkpoint: CheckpointFiles
    """It stands in for all that goes."""
    paths: tuple[str, ...]
    """Oldest version first, and of one version the commit last: cut short at any point, the log stays readable."""

    @property
    def kept_checkpoint(self) -> int:
        """The version of that checkpoint, the oldest that can be rebuilt afterwards."""
        return self.checkpoint.version


def cutoff_ms(*, now_ms: int, retention_ms: int, granularity_ms: int = DAY_MS) -> int:
    """The start of the day (UTC), or of the minute, up to which the log need not be kept."""
    past = now_ms - retention_ms
    return past - past % granularity_ms


def plan_cleanup(store: LogStore, *, upto: int, cutoff_ms: int, protected_before: int = 0) -> CleanupPlan | None:
    """The log files that no version from `cutoff_ms` on needs, or None where there are none.

    `upto` is a version known to be there; nothing newer is looked at. The times of commits are those of
    their files, made to ascend. Versions before `protected_before` go all at once or not at all: see
    `delta.requireCheckpointProtectionBeforeVersion`.
    """
    listing = list_log(store, first=0, upto=upto)
    cutoff_version = _newest_before(listing.commits, cutoff_ms)
    if cutoff_version is None:
        return None
    kept = _newest_checkpoint(listing.checkpoints, cutoff_version)
    # Without its commit a checkpoint has no provenance, nor the in-commit timestamp of its version.
    if kept is None or not any(commit.version == kept.version for commit in listing.commits):
        return None
    if kept.version < protected_before:
        return None
    expired = _expired(store, kept.version)
    if not expired:
        return None
    protects = any(name.version < protected_before for name, _ in expired)
    ordered = sorted(expired, key=_checkpoints_last if protects else _order)
    return CleanupPlan(checkpoint=kept, paths=tuple(file.path for _, file in ordered))


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
    for expired in plan.paths:
        store.delete(expired)


def _newest_before(commits: tuple[CommitFile, ...], cutoff_ms: int) -> int | None:
    """The newest commit that is not newer than the cut-off: what was current then must stay readable."""
    times = monotonic_times(commits)
    return max((time.version for time in times if time.timestamp_ms <= cutoff_ms), default=None)


def _newest_checkpoint(checkpoints: tuple[CheckpointFiles, ...], version: int) -> CheckpointFiles | None:
    return next((one for one in reversed(checkpoints) if one.version <= version), None)


def _expired(store: LogStore, kept: int) -> list[tuple[LogPath, StoredFile]]:
    found = []
    for file in store.list_from(LOG_DIRECTORY):
        name = parse_log_path(file.path.rpartition("/")[2])
        if name is None:
            continue
        if name.version > kept:
            break
        if name.version < kept or name.kind is LogFileKind.COMPACTED:
            found.append((name, file))
    return found


def _checkpoints_last(entry: tuple[LogPath, StoredFile]) -> tuple[bool, int, bool, str]:
    """Commits that a reader may not understand are never there without the checkpoints that hide them."""
    return entry[0].kind.is_checkpoint, *_order(entry)


def _order(entry: tuple[LogPath, StoredFile]) -> tuple[int, bool, str]:
    name, file = entry
    return name.version, name.kind is LogFileKind.COMMIT, file.path
