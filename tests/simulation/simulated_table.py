"""The table as one simulated process has it: real snapshots, transactions and upkeep over its own connection."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Sequence

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from anabranch.commands.vacuum.vacuum_command import VacuumJob, run_vacuum
from anabranch.commands.vacuum.vacuum_settings import VacuumSettings
from anabranch.protocol.actions import AddCDCFile, AddFile
from anabranch.snapshot.snapshot import Snapshot
from anabranch.transactions.delta_log import DeltaLog
from anabranch.transactions.proposed_commit import Operation
from anabranch.transactions.transaction import Transaction
from concurrency.conditions import Row
from concurrency.played_ids import KeptId
from concurrency.played_table import PlayedTable, Version

PARQUET = pa.schema([pa.field("k", pa.int64()), pa.field("v", pa.int64())])


@dataclasses.dataclass(kw_only=True)
class SimulatedTable(PlayedTable):
    """A played table whose data files are in the storage, too."""

    content: Callable[[Sequence[Row]], bytes]

    def version(self, snapshot: Snapshot | None = None) -> Version:
        # Nothing is kept: behind a power loss another commit may have the same version.
        read = snapshot or self.table.snapshots.latest()
        adds = read.files.to_actions()
        return Version(snapshot=read, adds=adds, hidden=self.hidden(adds))

    def write(
        self,
        rows: Sequence[Row],
        *,
        data_change: bool = True,
        counted: bool = False,
        kept: Sequence[KeptId | None] = (),
    ) -> AddFile:
        add = super().write(rows, data_change=data_change, counted=counted, kept=kept)
        data = self.content(rows)
        self.store.put(add.path, data)
        return msgspec.structs.replace(add, size=len(data), modification_time=self.clock.now_ms())

    def write_changes(self, changes: Sequence[tuple[str, Row]]) -> list[AddCDCFile]:
        files = super().write_changes(changes)
        for file in files:
            self.store.put(file.path, self.content([row for _, row in changes]))
        return files


def as_parquet(rows: Sequence[Row]) -> bytes:
    """A data file."""
    sink = pa.BufferOutputStream()
    columns = [pa.array([row.k for row in rows], pa.int64()), pa.array([row.v for row in rows], pa.int64())]
    pq.write_table(pa.table(columns, schema=PARQUET), sink)
    return bytes(sink.getvalue())


def as_text(rows: Sequence[Row]) -> bytes:
    """The content of a data file that is never opened but by those who know its rows."""
    return repr(tuple(rows)).encode()


@dataclasses.dataclass(frozen=True, kw_only=True)
class VacuumedTable:
    """The part of a table that VACUUM needs."""

    delta_log: DeltaLog
    label: str = "delta.`t`"

    def latest(self) -> Snapshot:
        return self.delta_log.snapshots.latest()

    def begin_at(self, operation: Operation, *, snapshot: Snapshot | None) -> Transaction:
        return self.delta_log.begin_at(operation, snapshot=snapshot)


def vacuum(table: SimulatedTable, *, hours: float | None, lite: bool) -> None:
    """Run VACUUM; shorter retentions than the table's are allowed."""
    run_vacuum(
        VacuumJob(
            target=VacuumedTable(delta_log=table.table),
            settings=VacuumSettings(checks_retention=False, logs=True, lite=lite, threads=1),
            clock=table.clock,
            random=random.Random(table.random.getrandbits(64)),
            retention_hours=hours,
        )
    )
