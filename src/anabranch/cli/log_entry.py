"""`anabranch log N`: one commit in words."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from anabranch.cli.commit_text import (
    landed_after,
    landed_after_in_words,
    parameters_in_words,
    reconciled_in_words,
    reconciliation_document,
    user_and_engine,
)
from anabranch.cli.text_format import count, harmless_json, iso_time, listed, local_time, plain, size
from anabranch.errors.base import DeltaError
from anabranch.errors.environment import FileMissingError
from anabranch.errors.log import VersionNotFoundError
from anabranch.log.commit_files import Commit, read_commit
from anabranch.protocol.actions import (
    Action,
    AddCDCFile,
    AddFile,
    DomainMetadata,
    Metadata,
    Protocol,
    RemoveFile,
    SetTransaction,
)
from anabranch.protocol.actions_json import encode_action
from anabranch.protocol.features import supported_features
from anabranch.schema.paths import schema_differences
from anabranch.schema.serialization import parse_schema
from anabranch.snapshot.snapshot import Snapshot
from anabranch.snapshot.snapshot_cache import SnapshotCache

if TYPE_CHECKING:
    from rich.console import Console

# What a commit did to the files of a table, added up.


class _Statistics(msgspec.Struct, rename="camel"):
    """The part of a file's statistics that is shown here."""

    num_records: int | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FileChangeSummary:
    """Files that one commit added and removed. A file that only got another deletion vector counts as neither."""

    added: int
    added_rows: int | None
    """None where a file has no row count."""
    added_bytes: int
    removed: int
    removed_rows: int | None
    removed_bytes: int | None
    with_new_vector: int
    rows_hidden: int
    """Rows hidden by new deletion vectors; negative where rows came back."""
    change_files: int
    change_bytes: int
    data_change: bool
    """Whether any file action says that it changes rows."""

    @classmethod
    def of(cls, actions: Sequence[Action]) -> FileChangeSummary:
        """The summary of one commit's actions."""
        adds = {action.path: action for action in actions if isinstance(action, AddFile)}
        removes = {action.path: action for action in actions if isinstance(action, RemoveFile)}
        changes = [action for action in actions if isinstance(action, AddCDCFile)]
        revised = adds.keys() & removes.keys()
        new = [add for path, add in adds.items() if path not in revised]
        gone = [remove for path, remove in removes.items() if path not in revised]
        hidden = sum(_hidden(adds[path]) - _hidden(removes[path]) for path in revised)
        return cls(
            added=len(new),
            added_rows=_sum([_live_rows(add) for add in new]),
            added_bytes=sum(add.size for add in new),
            removed=len(gone),
            removed_rows=_sum([_live_rows(remove) for remove in gone]),
            removed_bytes=_sum([remove.size for remove in gone]),
            with_new_vector=len(revised),
            rows_hidden=hidden,
            change_files=len(changes),
            change_bytes=sum(change.size for change in changes),
            data_change=any(add.data_change for add in adds.values())
            or any(remove.data_change for remove in removes.values()),
        )

    def in_words(self) -> Iterator[str]:
        """One line for each kind of change."""
        if self.added:
            rows = "" if self.added_rows is None else f"{count(self.added_rows, 'row')}, "
            yield f"{count(self.added, 'file')} added ({rows}{size(self.added_bytes)})"
        if self.removed:
            facts = []
            if self.removed_rows is not None:
                facts.append(count(self.removed_rows, "row"))
            if self.removed_bytes is not None:
                facts.append(size(self.removed_bytes))
            yield f"{count(self.removed, 'file')} removed" + (f" ({', '.join(facts)})" if facts else "")
        if self.with_new_vector:
            rows = count(abs(self.rows_hidden), "row")
            change = f"{rows} came back in" if self.rows_hidden < 0 else f"{rows} hidden by deletion vectors in"
            yield f"{change} {count(self.with_new_vector, 'file')}, which stay as they are"
        if self.change_files:
            yield f"{count(self.change_files, 'file')} of change data ({size(self.change_bytes)})"
        if (self.added or self.removed or self.with_new_vector) and not self.data_change:
            yield "no row changed: the files were only rearranged"

    def document(self) -> dict[str, Any]:
        return {
            "added": self.added,
            "addedRows": self.added_rows,
            "addedBytes": self.added_bytes,
            "removed": self.removed,
            "removedRows": self.removed_rows,
            "removedBytes": self.removed_bytes,
            "withNewDeletionVector": self.with_new_vector,
            "rowsHidden": self.rows_hidden,
            "changeFiles": self.change_files,
            "changeBytes": self.change_bytes,
            "dataChange": self.data_change,
        }


def _hidden(file: AddFile | RemoveFile) -> int:
    return file.deletion_vector.cardinality if file.deletion_vector else 0


def _live_rows(file: AddFile | RemoveFile) -> int | None:
    if file.stats is None:
        return None
    try:
        rows = msgspec.json.decode(file.stats, type=_Statistics).num_records
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    return None if rows is None else rows - _hidden(file)


def _sum(numbers: Sequence[int | None]) -> int | None:
    """The sum; None if one of the numbers is."""
    return None if None in numbers else sum(number for number in numbers if number is not None)


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
            "files": FileChangeSummary.of(commit.actions).document(),
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
                yield from _protocol_change(entry.before, action)
            case Metadata():
                yield from _metadata_change(entry.before, action)
            case SetTransaction():
                yield f"application {plain(action.app_id, 80)} has written up to its version {action.version}"
            case DomainMetadata(removed=True):
                yield f"removed the domain {plain(action.domain, 80)}"
            case DomainMetadata():
                yield f"set the domain {plain(action.domain, 80)} to {plain(action.configuration, 200)}"


def _protocol_change(before: Snapshot | None, protocol: Protocol) -> Iterator[str]:
    versions = f"reader version {protocol.min_reader_version} and writer version {protocol.min_writer_version}"
    features = sorted(supported_features(protocol))
    if before is None:
        names = f", with {listed([plain(name) for name in features])}" if protocol.writer_features else ""
        yield f"protocol: {versions}{names}"
        return
    old = supported_features(before.protocol)
    added, dropped = sorted(set(features) - old), sorted(old - set(features))
    phrases = [versions]
    if added:
        phrases.append(f"now supports {listed([plain(name) for name in added])}")
    if dropped:
        phrases.append(f"no longer supports {listed([plain(name) for name in dropped])}")
    yield f"protocol: {'; '.join(phrases)}"


def _metadata_change(before: Snapshot | None, metadata: Metadata) -> Iterator[str]:
    if before is None:
        yield from _first_metadata(metadata)
        return
    old = before.metadata
    if old.id != metadata.id:
        yield f"the table got another id: {plain(metadata.id)}"
    yield from _schema_change(before, metadata)
    if old.partition_columns != metadata.partition_columns:
        yield f"partitioned by {_names(metadata.partition_columns)}, was {_names(old.partition_columns)}"
    for name in sorted(old.configuration.keys() | metadata.configuration.keys()):
        value, former = metadata.configuration.get(name), old.configuration.get(name)
        if name not in metadata.configuration:
            yield f"unset property {plain(name)}, was {plain(former)}"
        elif name not in old.configuration:
            yield f"set property {plain(name)} = {plain(value)}"
        elif value != former:
            yield f"set property {plain(name)} = {plain(value)}, was {plain(former)}"
    for what in ("name", "description"):
        value, former = getattr(metadata, what), getattr(old, what)
        if value != former:
            yield f"{what}: {plain(value or 'none')}, was {plain(former or 'none')}"


def _first_metadata(metadata: Metadata) -> Iterator[str]:
    try:
        fields = parse_schema(metadata.schema_string, "the table").fields
    except DeltaError as error:
        yield f"schema: cannot be read: {plain(error.explain())}"
        return
    columns = [f"{plain(field.name)} {plain(field.dataType.simpleString())}" for field in fields]
    yield f"schema: {count(len(columns), 'column')}: {', '.join(columns)}"
    if metadata.partition_columns:
        yield f"partitioned by {_names(metadata.partition_columns)}"
    for name, value in sorted(metadata.configuration.items()):
        yield f"property {plain(name)} = {plain(value)}"


def _schema_change(before: Snapshot, metadata: Metadata) -> Iterator[str]:
    if before.metadata.schema_string == metadata.schema_string:
        return
    try:
        after = parse_schema(metadata.schema_string, before.table_root)
        changes = schema_differences(before.schema, after)
    except DeltaError as error:
        yield f"schema: cannot be read: {plain(error.explain())}"
        return
    if not changes and before.schema.fieldNames() != after.fieldNames():
        changes = ["columns in another order or spelling"]
    for change in changes:
        yield f"schema: {plain(change)}"


def _names(columns: Iterable[str]) -> str:
    return ", ".join(plain(column) for column in columns) or "nothing"
