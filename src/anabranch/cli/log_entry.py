"""`anabranch log N`: one commit in words."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from anabranch.errors.base import DeltaError
from anabranch.errors.environment import FileMissingError
from anabranch.errors.log import VersionNotFoundError
from anabranch.log.commit_files import Commit, read_commit
from anabranch.protocol.actions import (
    DomainMetadata,
    Metadata,
    Protocol,
    SetTransaction,
)
from anabranch.protocol.actions_json import encode_action
from anabranch.snapshot.snapshot import Snapshot
from anabranch.snapshot.snapshot_cache import SnapshotCache
from anabranch.table_report.commit_text import (
    landed_after,
    landed_after_in_words,
    parameters_in_words,
    reconciled_in_words,
    reconciliation_document,
    user_and_engine,
)
from anabranch.table_report.description_changes import metadata_changes, protocol_changes
from anabranch.table_report.file_change_summary import FileChangeSummary
from anabranch.text_format import harmless_json, iso_time, local_time, plain

if TYPE_CHECKING:
    from rich.console import Console


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LogEntry:
    """One commit and the version before it."""

    table: str
    commit: Commit
    before: Snapshot | None
    """None for version 0, and where the version before cannot be rebuilt any more."""

    def document(self) -> dict[str, Any]:
        commit, info = self.commit, self.commit.info
        return {
            "table": self.table,
            "version": commit.version,
            "timestamp": iso_time(commit.timestamp_ms),
            "timestampMs": commit.timestamp_ms,
            "operation": info.operation if info else None,
            "operationParameters": info.operation_parameters if info else None,
            "operationMetrics": info.operation_metrics if info else None,
            "engineInfo": info.engine_info if info else None,
            "readVersion": info.read_version if info else None,
            "isolationLevel": info.isolation_level if info else None,
            "isBlindAppend": info.is_blind_append if info else None,
            "landedAfter": list(landed_after(info)) if info else [],
            "reconciled": reconciliation_document(info) if info else None,
            "userMetadata": info.user_metadata if info else None,
            "files": msgspec.to_builtins(FileChangeSummary.of(commit.actions)),
            "changes": list(_changes_in_words(self)),
        }

    def print_to(self, out: Console) -> None:
        commit, info = self.commit, self.commit.info
        operation = plain(info.operation or "a commit without the name of its operation") if info else "a commit"
        author = f" by {user_and_engine(info)}" if info and user_and_engine(info) else ""
        out.print(f"Version {commit.version}: {operation}{author}, {local_time(commit.timestamp_ms)}", style="bold")
        for line in _lines(self):
            out.print(f"  {line}")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RawCommit:
    """The actions of one commit, as they are in the log."""

    table: str
    commit: Commit

    def document(self) -> dict[str, Any]:
        actions = [msgspec.json.decode(line) for line in self._lines()]
        return {"table": self.table, "version": self.commit.version, "actions": actions}

    def print_to(self, out: Console) -> None:
        """One action a line. Not printed by rich, which would wrap the lines."""
        for line in self._lines():
            out.file.write(f"{line}\n")

    def _lines(self) -> Iterator[str]:
        for action in self.commit.actions:
            yield harmless_json(encode_action(action).decode())


def read_entry(snapshots: SnapshotCache, number: int) -> LogEntry:
    """The commit of a version; negative numbers count from the newest, which is -1.

    Raises `VersionNotFoundError`, `CorruptCommitError`, `StorageError`.
    """
    latest = snapshots.latest().version
    version = number if number >= 0 else latest + 1 + number
    try:
        if not 0 <= version <= latest:
            raise FileMissingError(root=snapshots.store.root, path="")
        commit = read_commit(snapshots.store, version)
    except FileMissingError:
        earliest = snapshots.earliest_version()
        raise VersionNotFoundError(
            table=snapshots.store.root, version=version, earliest=earliest, latest=latest
        ) from None
    try:
        before = snapshots.at_version(version - 1) if version > 0 else None
    except DeltaError:
        before = None
    return LogEntry(table=snapshots.store.root, commit=commit, before=before)


def _lines(entry: LogEntry) -> Iterator[str]:
    info = entry.commit.info
    if info:
        if parameters := parameters_in_words(info.operation_parameters):
            yield parameters
        if info.user_metadata:
            yield f"user metadata: {plain(info.user_metadata)}"
        if read := _read_in_words(entry):
            yield read
        yield from reconciled_in_words(info)
    files = list(FileChangeSummary.of(entry.commit.actions).in_words())
    changes = list(_changes_in_words(entry))
    yield from files
    yield from changes
    if not files and not changes:
        yield "it changed nothing"


def _read_in_words(entry: LogEntry) -> str:
    info = entry.commit.info
    assert info is not None
    phrases = []
    if info.is_blind_append:
        phrases.append("read nothing of the table (a blind append)")
    elif info.read_version is not None:
        phrases.append(f"read version {info.read_version}")
    if after := landed_after_in_words(info):
        phrases.append(after)
    if info.isolation_level:
        phrases.append(f"isolation {plain(info.isolation_level, 40)}")
    return "; ".join(phrases)


def _changes_in_words(entry: LogEntry) -> Iterator[str]:
    """Changes other than those of files: protocol, metadata, application transactions and domains."""
    actions = entry.commit.actions
    for action in actions:
        match action:
            case Protocol():
                yield from protocol_changes(entry.before.protocol if entry.before else None, action)
            case Metadata():
                yield from metadata_changes(entry.before.metadata if entry.before else None, action)
            case SetTransaction():
                yield f"application {plain(action.app_id, 80)} has written up to its version {action.version}"
            case DomainMetadata(removed=True):
                yield f"removed the domain {plain(action.domain, 80)}"
            case DomainMetadata():
                yield f"set the domain {plain(action.domain, 80)} to {plain(action.configuration, 200)}"
