"""Checks of `_delta_log`: commits, checkpoints, `_last_checkpoint`, checksums."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from itertools import pairwise

import pyarrow as pa
import pyarrow.compute as pc

from anabranch.cli.fsck.fsck_findings import Finding, FindingKind, Steps
from anabranch.errors.base import DeltaError
from anabranch.errors.log import CorruptCheckpointError, CorruptCommitError, LogError, TableNotFoundError
from anabranch.log.checkpoint_reading import Checkpoint, read_checkpoint
from anabranch.log.checksum import decode_checksum, discrepancies
from anabranch.log.commit_files import read_actions
from anabranch.log.file_columns import logical_keys
from anabranch.log.last_checkpoint import read_last_checkpoint
from anabranch.log.log_segment import CheckpointFiles, CommitFile, CompactedFile, LogListing, find_segment, list_log
from anabranch.protocol.actions import Action
from anabranch.protocol.log_paths import LAST_CHECKPOINT_PATH, LOG_DIRECTORY, LogFileKind, parse_log_path
from anabranch.snapshot.replay import load_segment
from anabranch.snapshot.snapshot_cache import SnapshotCache
from anabranch.storage.log_store import LogStore, StoredFile

BACKUP = "Put the file back from a backup"
NEW_CHECKPOINT = "`anabranch checkpoint` writes a new one of the newest version"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LogFiles:
    """One listing of the log."""

    store: LogStore
    files: tuple[StoredFile, ...]
    """The files directly in `_delta_log`."""
    listing: LogListing

    @classmethod
    def of(cls, store: LogStore) -> LogFiles:
        """List the log. Raises `TableNotFoundError`, `StorageError`."""
        listing = list_log(store, first=0, upto=None)
        if listing.latest_version is None:
            raise TableNotFoundError(table=store.root)
        return cls(store=store, files=tuple(store.list_from(LOG_DIRECTORY)), listing=listing)

    def of_kind(self, *kinds: LogFileKind) -> Iterator[tuple[int, StoredFile]]:
        """The files of these kinds, each with its version."""
        for file in self.files:
            name = parse_log_path(file.path)
            if name is not None and name.kind in kinds:
                yield name.version, file


def check_gaps(log: LogFiles) -> Iterator[Finding]:
    """Check that commits are consecutive. Log clean-up deletes only the oldest ones, up to a checkpoint."""
    for commit, following in pairwise(log.listing.commits):
        if following.version > commit.version + 1:
            yield _gap(log, commit.version + 1, following.version - 1)
    if not log.listing.commits:
        return
    first, last = log.listing.commits[0].version, log.listing.commits[-1].version
    if first > 0 and not any(first - 1 <= checkpoint.version for checkpoint in log.listing.checkpoints):
        yield _gap(log, 0, first - 1)
    latest = log.listing.latest_version or 0
    if last < latest:
        yield _gap(log, last + 1, latest)


def check_commits(
    log: LogFiles, steps: Steps[tuple[CommitFile | CompactedFile, Iterator[Action]]]
) -> Iterator[Finding]:
    """Check that every commit and log compaction is complete and consists of actions."""
    compacted = {compaction.file.path for compaction in log.listing.compactions}
    files: list[CommitFile | CompactedFile] = [*log.listing.commits, *log.listing.compactions]
    for _, actions in steps(read_actions(log.store, files), "commits", len(files)):
        try:
            for _ in actions:
                pass
        except CorruptCommitError as error:
            is_compaction = error.path in compacted
            yield Finding(
                kind=FindingKind.COMPACTION_UNREADABLE if is_compaction else FindingKind.COMMIT_UNREADABLE,
                path=error.path,
                version=error.version,
                problem=f"It cannot be read: {_clause(error.reason)}",
                way_out="Delete it: the commits that it combines still exist" if is_compaction else BACKUP,
            )


def check_checkpoints(log: LogFiles, steps: Steps[CheckpointFiles]) -> Iterator[Finding]:
    """Check that every checkpoint can be read completely and agrees with the commits before it."""
    complete = {file.path for checkpoint in log.listing.checkpoints for file in checkpoint.files}
    kinds = [kind for kind in LogFileKind if kind.is_checkpoint]
    for version, file in log.of_kind(*kinds):
        if file.path not in complete:
            reason = "It is empty" if file.size_bytes == 0 else "Parts of this checkpoint are missing"
            yield Finding(
                kind=FindingKind.CHECKPOINT_INCOMPLETE,
                path=file.path,
                version=version,
                problem=f"{reason}, so no reader uses it",
                way_out=f"Delete it; {NEW_CHECKPOINT}",
            )
    for files in steps(log.listing.checkpoints, "checkpoints", len(log.listing.checkpoints)):
        yield from _check_checkpoint(log, files)


def check_hint(log: LogFiles) -> Iterator[Finding]:
    """Check that `_last_checkpoint` can be read and names the newest checkpoint. See "Last Checkpoint File"."""
    if not any(file.path == LAST_CHECKPOINT_PATH for file in log.files):
        return
    hint = read_last_checkpoint(log.store)
    newest = log.listing.newest_checkpoint()
    if hint is None:
        kind = FindingKind.LAST_CHECKPOINT_CORRUPT
        problem = "It is incomplete, or its checksum is wrong; readers list the whole log instead"
    elif newest is None:
        kind = FindingKind.LAST_CHECKPOINT_STALE
        problem = f"It names the checkpoint of version {hint.version}, but the log has no checkpoint"
    elif not any(checkpoint.version == hint.version for checkpoint in log.listing.checkpoints):
        kind = FindingKind.LAST_CHECKPOINT_STALE
        problem = (
            f"It names the checkpoint of version {hint.version}, which does not exist; "
            f"the newest is of version {newest.version}"
        )
    elif hint.version < newest.version:
        kind = FindingKind.LAST_CHECKPOINT_STALE
        problem = f"It names version {hint.version}, but there is a newer checkpoint of version {newest.version}"
    else:
        return
    way_out = f"No data is at risk. {NEW_CHECKPOINT}, and this file with it"
    yield Finding(kind=kind, path=LAST_CHECKPOINT_PATH, problem=problem, way_out=way_out)


def check_checksums(log: LogFiles, snapshots: SnapshotCache, steps: Steps[tuple[int, StoredFile]]) -> Iterator[Finding]:
    """Check that each `N.crc` agrees with the log at version N. See "Version Checksum File"."""
    checksums = sorted(log.of_kind(LogFileKind.CHECKSUM), key=lambda version_and_file: version_and_file[0])
    for version, file in steps(checksums, "checksums", len(checksums)):
        delete = "Delete it: the log is right, and checksums are optional"
        try:
            recorded = decode_checksum(log.store.read(file.path))
        except ValueError as error:
            yield Finding(
                kind=FindingKind.CHECKSUM_UNREADABLE,
                path=file.path,
                version=version,
                problem=f"It cannot be read: {_clause(str(error))}",
                way_out=delete,
            )
            continue
        try:
            snapshot = snapshots.at_version(version)
        except DeltaError:
            continue  # The version cannot be rebuilt: another check reports that, or log clean-up removed its commits.
        if snapshot.properties.set_transaction_retention_ms is not None:
            recorded = dataclasses.replace(recorded, set_transactions=None)
        for wrong in discrepancies(recorded, snapshot.checksum()):
            yield Finding(
                kind=FindingKind.CHECKSUM_DISAGREES,
                path=file.path,
                version=version,
                problem=f"It has {wrong.field} = {_short(wrong.recorded)}, but the log gives {_short(wrong.computed)}",
                way_out=delete,
            )


def _check_checkpoint(log: LogFiles, files: CheckpointFiles) -> Iterator[Finding]:
    path = files.files[0].path
    try:
        checkpoint = read_checkpoint(log.store, files)
        if checkpoint.load_stats is not None:
            checkpoint.load_stats()
        checkpoint.load_tombstones()
    except CorruptCheckpointError as error:
        yield Finding(
            kind=FindingKind.CHECKPOINT_UNREADABLE,
            path=error.path,
            version=files.version,
            problem=f"It cannot be read: {_clause(error.reason)}",
            way_out=_replace_checkpoint(log, files),
        )
        return
    actions = {"protocol": checkpoint.protocol, "metaData": checkpoint.metadata}
    missing = [name for name, action in actions.items() if not action]
    if missing:
        yield Finding(
            kind=FindingKind.CHECKPOINT_UNREADABLE,
            path=path,
            version=files.version,
            problem=f"It has no {' and no '.join(missing)}",
            way_out=_replace_checkpoint(log, files),
        )
    elif (difference := _difference(log, files, checkpoint)) is not None:
        yield Finding(
            kind=FindingKind.CHECKPOINT_DISAGREES,
            path=path,
            version=files.version,
            problem=difference,
            way_out="Readers that use it see another table than others. Delete it if the commits are right",
        )


def _difference(log: LogFiles, files: CheckpointFiles, checkpoint: Checkpoint) -> str | None:
    """How the live files of a checkpoint differ from those by the commits before it; None if they agree.

    None also where those commits no longer exist.
    """
    unusable = frozenset(
        file.path
        for checkpoint_files in log.listing.checkpoints
        for file in checkpoint_files.files
        if checkpoint_files.version >= files.version
    )
    try:
        replayed = load_segment(log.store, find_segment(log.store, upto=files.version, unusable=unusable)).files
    except DeltaError:
        return None
    ours, theirs = (_keys(table) for table in (checkpoint.adds, replayed.columns("path", "deletion_vector")))
    extra = pc.sum(pc.invert(pc.is_in(ours, value_set=theirs))).as_py() or 0
    lacking = pc.sum(pc.invert(pc.is_in(theirs, value_set=ours))).as_py() or 0
    if not extra and not lacking:
        return None
    return f"It has {extra} live files that the commits do not add, and lacks {lacking} that they do"


def _keys(files: pa.Table) -> pa.ChunkedArray | pa.Array:
    return logical_keys(files)


def _gap(log: LogFiles, first: int, last: int) -> Finding:
    covered = any(checkpoint.version >= last for checkpoint in log.listing.checkpoints)
    missing = f"Version {first} is" if first == last else f"Versions {first} to {last} are"
    effect = (
        "a later checkpoint covers the gap, so that newer versions can be read, but not these"
        if covered
        else f"no version from {first} on can be rebuilt"
    )
    return Finding(
        kind=FindingKind.LOG_GAP,
        path=f"{LOG_DIRECTORY}/{first:020d}.json",
        version=first,
        problem=f"{missing} missing from the log: {effect}",
        way_out="Put the files back from a backup",
    )


def _replace_checkpoint(log: LogFiles, files: CheckpointFiles) -> str:
    """The remedy for a checkpoint. It can be deleted only if the commits before it still exist."""
    unusable = frozenset(file.path for file in files.files)
    try:
        find_segment(log.store, upto=files.version, unusable=unusable)
    except (LogError, DeltaError):
        return f"{BACKUP}: the commits before it no longer exist"
    return f"Delete it: the commits before it still exist. {NEW_CHECKPOINT}"


def _clause(reason: str) -> str:
    return reason.strip().rstrip(".")


def _short(value: object, limit: int = 120) -> str:
    text = str(value)
    return text if len(text) <= limit else text[: limit - 1] + "…"
