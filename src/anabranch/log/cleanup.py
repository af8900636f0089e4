"""Which files of the log are no longer needed. See "Metadata Cleanup". Nothing is deleted here."""

from __future__ import annotations

import dataclasses

from anabranch.log.listing import CheckpointFiles, CommitFile, list_log
from anabranch.log.time_travel import monotonic_times
from anabranch.protocol.log_paths import LOG_DIRECTORY, LogFileKind, LogPath, parse_log_path
from anabranch.storage.log_store import LogStore, StoredFile

DAY_MS = 24 * 60 * 60 * 1000


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CleanupPlan:
    """What may go, and what every version that remains is rebuilt from."""

    kept_checkpoint: int
    """The version of the checkpoint that stands in for all that goes."""
    paths: tuple[str, ...]
    """Oldest version first, and of one version the commit last: cut short at any point, the log stays readable."""


def cutoff_ms(*, now_ms: int, retention_ms: int) -> int:
    """Midnight UTC of the day up to which the log need not be kept."""
    past = now_ms - retention_ms
    return past - past % DAY_MS


def plan_cleanup(store: LogStore, *, upto: int, cutoff_ms: int) -> CleanupPlan | None:
    """The log files that no version from `cutoff_ms` on needs, or None where there are none.

    `upto` is a version known to be there; nothing newer is looked at. The times of commits are those of
    their files, made to ascend.
    """
    listing = list_log(store, first=0, upto=upto)
    cutoff_version = _newest_before(listing.commits, cutoff_ms)
    if cutoff_version is None:
        return None
    kept = _newest_checkpoint(listing.checkpoints, cutoff_version)
    # Without its commit a checkpoint has no provenance, nor the in-commit timestamp of its version.
    if kept is None or not any(commit.version == kept for commit in listing.commits):
        return None
    expired = sorted(_expired(store, kept), key=_order)
    if not expired:
        return None
    return CleanupPlan(kept_checkpoint=kept, paths=tuple(file.path for _, file in expired))


def _newest_before(commits: tuple[CommitFile, ...], cutoff_ms: int) -> int | None:
    """The newest commit that is not newer than the cut-off: what was current then must stay readable."""
    times = monotonic_times(commits)
    return max((time.version for time in times if time.timestamp_ms <= cutoff_ms), default=None)


def _newest_checkpoint(checkpoints: tuple[CheckpointFiles, ...], version: int) -> int | None:
    return max((one.version for one in checkpoints if one.version <= version), default=None)


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


def _order(entry: tuple[LogPath, StoredFile]) -> tuple[int, bool, str]:
    name, file = entry
    return name.version, name.kind is LogFileKind.COMMIT, file.path
