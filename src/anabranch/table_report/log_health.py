"""The state of `_delta_log`: checkpoint, checksum, clean-up, in-commit timestamps."""

from __future__ import annotations

from collections.abc import Iterator

from anabranch.log.checksum import discrepancies, read_checksum
from anabranch.log.cleanup import cutoff_ms, plan_cleanup
from anabranch.log.last_checkpoint import read_last_checkpoint
from anabranch.log.log_segment import LogListing
from anabranch.protocol.log_paths import LOG_DIRECTORY
from anabranch.snapshot.snapshot import Snapshot
from anabranch.storage.log_store import LogStore
from anabranch.table_report.report_values import HealthCheck, Level, LogHealth
from anabranch.text_format import count, size

OVERDUE_INTERVALS = 2
OVERDUE_COMMITS_MIN = 100
"""After that many intervals, and commits, without a checkpoint, writers do not write them; delta-rs writes one after
100 commits where the table does not say."""
DAY_MS = 86_400_000


def log_health(store: LogStore, snapshot: Snapshot, listing: LogListing, *, now_ms: int) -> LogHealth:
    """The state of the log. Raises `MissingInCommitTimestampError`, `StorageError`."""
    properties = snapshot.properties
    checkpoint = snapshot.segment.checkpoint
    files = list(store.list_tree(LOG_DIRECTORY))
    retention_ms = properties.log_retention_ms
    cleanup = plan_cleanup(
        store,
        upto=snapshot.version,
        cutoff_ms=cutoff_ms(now_ms=now_ms, retention_ms=retention_ms),
        protected_before=properties.checkpoint_protection_version,
        properties=properties,
    )
    checkpoint_version = None if checkpoint is None else checkpoint.version
    since = snapshot.version if checkpoint_version is None else snapshot.version - checkpoint_version
    checksum = _checksum_state(store, snapshot)
    expired = 0 if cleanup is None else len(cleanup.paths)
    checks = (
        _checkpoint_check(checkpoint_version, since, interval=properties.checkpoint_interval),
        *_hint_check(store, listing),
        _checksum_check(checksum, snapshot.version),
        _cleanup_check(expired, enabled=properties.expired_log_cleanup_enabled, retention_ms=retention_ms),
        _time_check(in_commit=properties.in_commit_timestamps_enabled),
        HealthCheck(
            name="Size",
            level=Level.OK,
            text=f"{count(len(files), 'file')}, {size(sum(file.size_bytes for file in files))}.",
        ),
        HealthCheck(
            name="Time travel",
            level=Level.OK,
            text=f"Versions {listing.earliest_recreatable_version()} to {snapshot.version} can be rebuilt.",
        ),
    )
    return LogHealth(
        checkpoint_version=checkpoint_version,
        checkpoint_ms=None if checkpoint is None else checkpoint.files[0].modified_ms,
        commits_since_checkpoint=since,
        checkpoint_interval=properties.checkpoint_interval,
        checksum=checksum,
        log_files=len(files),
        log_bytes=sum(file.size_bytes for file in files),
        earliest_version=listing.earliest_recreatable_version(),
        log_retention_ms=retention_ms,
        cleanup_enabled=properties.expired_log_cleanup_enabled,
        expired_files=expired,
        in_commit_timestamps=properties.in_commit_timestamps_enabled,
        checks=checks,
    )


def _checksum_state(store: LogStore, snapshot: Snapshot) -> str:
    recorded = read_checksum(store, snapshot.version)
    if recorded is None:
        return "missing"
    return "differs" if discrepancies(recorded, snapshot.checksum()) else "agrees"


def _checkpoint_check(version: int | None, since: int, *, interval: int) -> HealthCheck:
    if version is None:
        text = f"None yet; readers replay {count(since + 1, 'commit')}."
    else:
        text = f"Of version {version}; readers replay {count(since, 'commit')} after it."
    overdue = since > max(OVERDUE_INTERVALS * interval, OVERDUE_COMMITS_MIN)
    if overdue:
        text += f" Writers should write one every {interval} commits. `anabranch checkpoint` writes one now."
    return HealthCheck(name="Checkpoint", level=Level.WARNING if overdue else Level.OK, text=text)


def _hint_check(store: LogStore, listing: LogListing) -> Iterator[HealthCheck]:
    newest = listing.newest_checkpoint()
    if newest is None:
        return
    hint = read_last_checkpoint(store)
    if hint is not None and hint.version == newest.version:
        return
    text = "It is missing or damaged" if hint is None else f"It names version {hint.version}, not {newest.version}"
    yield HealthCheck(
        name="_last_checkpoint",
        level=Level.NOTICE,
        text=f"{text}; readers list more of the log. `anabranch fsck` says more.",
    )


def _checksum_check(state: str, version: int) -> HealthCheck:
    match state:
        case "agrees":
            text = f"Version {version} has one, and it agrees with the log."
            return HealthCheck(name="Checksum", level=Level.OK, text=text)
        case "missing":
            text = f"Version {version} has none. Its writer does not write checksums; nothing is wrong."
            return HealthCheck(name="Checksum", level=Level.OK, text=text)
        case _:
            text = f"That of version {version} differs from the log. `anabranch fsck` says in which field."
            return HealthCheck(name="Checksum", level=Level.WARNING, text=text)


def _cleanup_check(expired: int, *, enabled: bool, retention_ms: int) -> HealthCheck:
    days = retention_ms / DAY_MS
    kept = f"The log is kept for {days:,.4g} {'day' if days == 1 else 'days'}."
    if not expired:
        return HealthCheck(name="Clean-up", level=Level.OK, text=f"{kept} No file is older and unneeded.")
    if enabled:
        text = f"{kept} The next checkpoint deletes {count(expired, 'file')}."
        return HealthCheck(name="Clean-up", level=Level.OK, text=text)
    text = f"{kept} {count(expired, 'file')} could go, but delta.enableExpiredLogCleanup is false."
    return HealthCheck(name="Clean-up", level=Level.NOTICE, text=text)


def _time_check(*, in_commit: bool) -> HealthCheck:
    if in_commit:
        text = "The times of commits are recorded in the commits, so copying the table keeps them."
    else:
        text = "The times of commits are those of their files, so copying the table changes them."
    return HealthCheck(name="Times", level=Level.OK, text=text)
