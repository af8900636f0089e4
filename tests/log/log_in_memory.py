"""A log in memory, written action by action, and the plainest possible reader to compare with."""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Iterable

from anabranch.log.checksum import Discrepancy, discrepancies, read_checksum
from anabranch.log.commit_files import reconciliation_key
from anabranch.protocol.actions import (
    PARQUET,
    Action,
    AddFile,
    CommitInfo,
    DeletionVectorDescriptor,
    DomainMetadata,
    Metadata,
    Protocol,
    RemoveFile,
    SetTransaction,
)
from anabranch.protocol.actions_json import encode_actions, parse_actions
from anabranch.protocol.log_paths import commit_path, compacted_path
from anabranch.snapshot.snapshot import Snapshot
from anabranch.snapshot.snapshot_cache import SnapshotCache
from anabranch.storage.log_store import LogStore
from anabranch.storage.memory_store import MemoryStore

SCHEMA = (
    '{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}},'
    '{"name":"day","type":"string","nullable":true,"metadata":{}}]}'
)
START_MS = 1_700_000_000_000
VECTORS = ["deletionVectors", "v2Checkpoint", "domainMetadata", "inCommitTimestamp"]
PROTOCOL = Protocol(
    min_reader_version=3, min_writer_version=7, reader_features=VECTORS[:2], writer_features=list(VECTORS)
)


class StillClock:
    """A clock that only changes when a test moves it."""

    def __init__(self, now_ms: int = START_MS) -> None:
        self.time_ms = now_ms

    def now_ms(self) -> int:
        return self.time_ms

    def elapsed_ms(self) -> int:
        return self.time_ms

    def sleep_ms(self, duration_ms: float) -> None:
        self.time_ms += int(duration_ms)


def metadata(**configuration: str) -> Metadata:
    return Metadata(
        id="b5a1b2f4-6d2e-4a4e-9b1d-3f0d5e7c9a10",
        format=PARQUET,
        schema_string=SCHEMA,
        partition_columns=["day"],
        configuration={key.replace("__", "."): value for key, value in configuration.items()},
    )


def add(path: str, *, vector: str | None = None, size: int = 100, stats: str | None = '{"numRecords":9}') -> AddFile:
    return AddFile(
        path=path,
        partition_values={"day": "monday"},
        size=size,
        modification_time=1,
        data_change=True,
        stats=stats,
        deletion_vector=None if vector is None else descriptor(vector),
    )


def remove(path: str, *, vector: str | None = None, at_ms: int | None = START_MS) -> RemoveFile:
    return RemoveFile(
        path=path,
        deletion_timestamp=at_ms,
        data_change=True,
        deletion_vector=None if vector is None else descriptor(vector),
    )


def descriptor(name: str) -> DeletionVectorDescriptor:
    return DeletionVectorDescriptor(
        storage_type="u", path_or_inline_dv=f"ab^-aqEH.-t@S}}K{name}", offset=1, size_in_bytes=34, cardinality=2
    )


@dataclasses.dataclass
class LogInMemory:
    """The log of a table in memory; each commit is a second after the previous one."""

    store: MemoryStore
    clock: StillClock
    next_version: int = 0

    @classmethod
    def empty(cls) -> LogInMemory:
        clock = StillClock()
        return cls(store=MemoryStore(clock=clock), clock=clock)

    @classmethod
    def created(cls, **configuration: str) -> LogInMemory:
        """A log with version 0: protocol and metadata."""
        log = cls.empty()
        log.commit(PROTOCOL, metadata(**configuration))
        return log

    def commit(self, *actions: Action, info: CommitInfo | None = None) -> int:
        version = self.next_version
        commit_info = info or CommitInfo(operation="WRITE", timestamp=self.clock.time_ms, txn_id=str(version))
        self.clock.time_ms += 1000
        self.store.put(commit_path(version), encode_actions([commit_info, *actions]))
        self.next_version += 1
        return version

    def snapshots(self) -> SnapshotCache:
        """A reader that knows nothing yet."""
        return SnapshotCache(self.store, self.clock)

    def delete(self, *paths: str) -> None:
        for path in paths:
            self.store.delete(path)

    def names(self) -> list[str]:
        return [file.path.rpartition("/")[2] for file in self.store.list_from("_delta_log")]


@dataclasses.dataclass
class NaiveState:
    """The replay of the protocol, as a loop over dictionaries."""

    adds: dict[tuple[str, str | None], AddFile] = dataclasses.field(default_factory=dict)
    removes: dict[tuple[str, str | None], RemoveFile] = dataclasses.field(default_factory=dict)
    transactions: dict[str, int] = dataclasses.field(default_factory=dict)
    domains: dict[str, str] = dataclasses.field(default_factory=dict)

    def replay(self, actions: Iterable[Action]) -> None:
        for action in actions:
            match action:
                case AddFile():
                    self.removes.pop(action.key, None)
                    self.adds[action.key] = action
                case RemoveFile():
                    self.adds.pop(action.key, None)
                    self.removes[action.key] = action
                case SetTransaction():
                    self.transactions[action.app_id] = action.version
                case DomainMetadata(removed=True):
                    self.domains.pop(action.domain, None)
                case DomainMetadata():
                    self.domains[action.domain] = action.configuration
                case _:
                    pass


def naive_replay(commits: list[bytes]) -> NaiveState:
    state = NaiveState()
    for data in commits:
        state.replay(parse_actions(data))
    return state


class CountedUuids:
    """The same UUIDs in every run."""

    def __init__(self) -> None:
        self.number = 0

    def __call__(self) -> str:
        self.number += 1
        return str(uuid.UUID(int=self.number, version=4))


def write_compaction(store: MemoryStore, *, first: int, last: int) -> None:
    """Commits in one file, without what a later one of them supersedes, as other engines write it. See "Log Compaction Files"."""
    newest: dict[object, Action] = {}
    for version in range(first, last + 1):
        for action in parse_actions(store.read(commit_path(version))):
            subject = reconciliation_key(action)
            if subject is not None:
                newest.pop(subject, None)
                newest[subject] = action
    store.put_if_absent(compacted_path(first, last), encode_actions(newest.values()))


def verify_checksum(store: LogStore, snapshot: Snapshot) -> list[Discrepancy] | None:
    """The fields in which `N.crc` differs from the version; None where there is no such file, or none that is valid."""
    recorded = read_checksum(store, snapshot.version)
    return None if recorded is None else discrepancies(recorded, snapshot.checksum())
