"""Acts beside statements: streams, row ids in several commits, other programs that leave files, and DROP TABLE."""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections.abc import Iterator
from typing import Any

from anabranch.commands.alter import row_id_backfill
from anabranch.snapshot.snapshot import Snapshot
from anabranch.streaming.source_options import SourceOptions
from anabranch.streaming.stream_source import StreamSource
from anabranch.transactions.delta_log import DeltaLog
from anabranch.transactions.proposed_commit import Operation
from anabranch.transactions.transaction import Transaction
from simulation.acts import Act, Process
from simulation.log_watch import LogWatch
from transactions.log_linter import parsed

BatchFile = tuple[int, str]
"""The version and the path of a file."""


@dataclasses.dataclass(kw_only=True)
class StreamProgress:
    """What a query has written down; it survives the process."""

    ends: list[str] = dataclasses.field(default_factory=list)
    """The ends of all batches that were planned."""
    files: list[list[BatchFile]] = dataclasses.field(default_factory=list)
    """The files of those that were read."""


@dataclasses.dataclass(frozen=True)
class MicroBatch(Act):
    """The next batch of a stream, or the one again that was planned and not read."""

    files_max: int

    def run(self, process: Process) -> None:
        progress: StreamProgress = process.memory.setdefault("stream", StreamProgress())
        snapshots = process.played.table.snapshots
        options = SourceOptions(skip_change_commits=True, files_max=self.files_max)
        source = StreamSource(snapshots, table="t", snapshot=snapshots.latest(), options=options, to_milliseconds=int)
        if len(progress.ends) == len(progress.files):
            start = progress.ends[-1] if progress.ends else None
            end = source.latest_offset(start)
            if end is None or end == start:
                return
            progress.ends.append(end)
        start = progress.ends[-2] if len(progress.ends) > 1 else None
        parts = source.batch(start, progress.ends[-1])
        progress.files.append(
            [(part.files.version, path) for part in parts for path in _paths(part.files.adds)[part.first : part.end]]
        )
        process.check(problems_of_stream(progress, process.watch))

    def __str__(self) -> str:
        return f"the next batch of a stream, of at most {self.files_max} files"


def _paths(adds: Any) -> list[str]:
    return [] if adds is None else adds["path"].to_pylist()


def problems_of_stream(progress: StreamProgress, watch: LogWatch) -> list[str]:
    """A stream has each file of its first version, then each of every commit that only adds rows, once and in order."""
    read = [file for batch in progress.files for file in batch]
    first = json.loads(progress.ends[0])
    begun = first["reservoirVersion"] - (0 if first["isStartingVersion"] else 1)
    if begun > watch.newest_version:
        return []  # The table that it read was deleted.
    expected = [{(begun, path) for path, _ in watch.commits[begun].live}]
    for version in range(begun + 1, watch.newest_version + 1):
        actions = parsed(watch.commits[version].data)
        if not any(action["remove"]["dataChange"] for action in actions if "remove" in action):
            expected.append({(version, a["add"]["path"]) for a in actions if "add" in a and a["add"]["dataChange"]})
    wanted = [files for files in expected if files]
    for files in wanted:
        part, read = read[: len(files)], read[len(files) :]
        if len(set(part)) != len(part) or not set(part) <= files:
            return [f"a stream has read {part}, where it should read {sorted(files)}"]
    return [f"a stream has read {read} beyond the log"] if read else []


@dataclasses.dataclass(frozen=True, kw_only=True)
class _NumberedTable:
    """The part of a table in a session that giving ids to its rows needs."""

    process: Process
    label: str = "delta.`t`"
    path: str = "memory:/table"
    entry: None = None

    @property
    def session(self) -> _NumberedTable:
        return self

    @property
    def clock(self) -> object:
        return self.process.played.clock

    @property
    def random(self) -> object:
        return self.process.played.random

    @property
    def open_transaction(self) -> None:
        return None

    def setting(self, name: str) -> None:
        return None

    @property
    def count_tasks(self) -> None:
        return None

    @contextlib.contextmanager
    def described_jobs(self) -> Iterator[None]:
        yield

    @property
    def delta_log(self) -> DeltaLog:
        return self.process.played.table

    def latest(self) -> Snapshot:
        return self.delta_log.snapshots.latest()

    def begin_at(self, operation: Operation, *, snapshot: Snapshot | None) -> Transaction:
        return self.delta_log.begin_at(operation, snapshot=snapshot)


@dataclasses.dataclass(frozen=True)
class GiveRowIds(Act):
    """The batches of turning row tracking on, each of which is a commit."""

    def run(self, process: Process) -> None:
        table = _NumberedTable(process=process)
        begun = table.latest()
        if not row_id_backfill.tracks_rows(begun.protocol, begun.metadata):
            return
        row_id_backfill.give_row_ids(table)  # type: ignore[arg-type]

    def __str__(self) -> str:
        return "ROW TRACKING BACKFILL, in batches"


JUNK = ("{0:020d}.json.tmp", "{0}.json", "{0:020d}.json.bak", "{0:021d}.json", "{0:020d}.JSON", "{0:020d}.tmp.json")
"""Names that other programs leave in a log; none is a commit."""


@dataclasses.dataclass(frozen=True)
class LeaveJunk(Act):
    """Another program leaves a file in the log, with half of a commit of the next version."""

    name: int

    def run(self, process: Process) -> None:
        newest = process.played.table.snapshots.latest().version
        path = f"_delta_log/{JUNK[self.name % len(JUNK)].format(newest + 1)}"
        process.played.store.put(path, b'{"commitInfo":{"operation":"WRITE"}}\n{"add":{"path":"junk","partitionValues"')

    def __str__(self) -> str:
        return f"another program leaves {JUNK[self.name % len(JUNK)]}"


@dataclasses.dataclass(frozen=True)
class DropTable(Act):
    """Another program deletes the folder of the table at once."""

    def run(self, process: Process) -> None:
        process.watch.drop()

    def __str__(self) -> str:
        return "the folder of the table is deleted"
