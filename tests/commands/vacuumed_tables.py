"""Tables of files that are nothing but names, and VACUUM on them without Spark."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable

import msgspec

from anabranch.commands.vacuum.vacuum_command import Vacuumed, VacuumJob, run_vacuum
from anabranch.commands.vacuum.vacuum_listing import Inventory
from anabranch.commands.vacuum.vacuum_settings import VacuumSettings
from anabranch.protocol.actions import Action, CommitInfo, Protocol, RemoveFile
from anabranch.snapshot.snapshot import Snapshot
from anabranch.storage.log_store import LogStore
from anabranch.transactions.delta_log import DeltaLog
from anabranch.transactions.proposed_commit import Operation
from anabranch.transactions.transaction import Transaction
from transactions.table_on_memory import PLAIN, TestClock, created, features, metadata, rival_of, with_properties

HOUR_MS = 3_600_000
WEEK_HOURS = 168
SETTINGS = VacuumSettings(checks_retention=True, logs=True, lite=False, threads=2)
VECTORS = features("appendOnly", "deletionVectors", "invariants", "v2Checkpoint", "changeDataFeed")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Target:
    """A table and its files; what is written is as old as the clock says."""

    delta_log: DeltaLog
    store: LogStore
    clock: TestClock
    settings: VacuumSettings = SETTINGS
    label: str = "delta.`t`"

    @classmethod
    def made(
        cls,
        store: LogStore,
        clock: TestClock,
        *,
        protocol: Protocol = PLAIN,
        by: tuple[str, ...] = (),
        **properties: str,
    ) -> Target:
        described = with_properties(metadata(partition_by=by), **properties)
        writer = rival_of(created(protocol=protocol, described=described, store=store))
        table = DeltaLog(store, clock, random.Random(3))
        assert writer.store is store
        return cls(delta_log=table, store=store, clock=clock)

    def latest(self) -> Snapshot:
        return self.delta_log.snapshots.latest()

    def begin_at(self, operation: Operation, *, snapshot: Snapshot | None) -> Transaction:
        return self.delta_log.begin_at(operation, snapshot=snapshot)

    def commit(self, *actions: Action, name: str = "WRITE") -> None:
        self.delta_log.begin(Operation(name=name)).commit(actions)

    def removed(self, path: str) -> RemoveFile:
        """The tombstone of a live file, of now."""
        add = next(add for add in self.latest().files.to_actions() if add.path == path)
        return RemoveFile(
            path=path,
            deletion_timestamp=self.clock.now_ms(),
            data_change=True,
            extended_file_metadata=True,
            partition_values=add.partition_values,
            size=add.size,
            deletion_vector=add.deletion_vector,
        )

    def write(self, *paths: str) -> None:
        """Files of these plain paths."""
        for path in paths:
            self.store.put(path, b"data")

    def wait(self, hours: float) -> None:
        self.clock.time_ms += hours * HOUR_MS

    def vacuum(
        self,
        *,
        lite: bool | None = None,
        hours: float | None = None,
        dry_run: bool = False,
        inventory: Callable[[], Inventory] | None = None,
        clock: TestClock | None = None,
    ) -> Vacuumed:
        job = VacuumJob(
            target=self,
            settings=self.settings,
            clock=clock or self.clock,
            random=random.Random(5),
            lite=lite,
            retention_hours=hours,
            inventory=inventory,
            dry_run=dry_run,
        )
        return run_vacuum(job)

    def with_settings(self, **changes: object) -> Target:
        return dataclasses.replace(self, settings=dataclasses.replace(self.settings, **changes))

    def files(self) -> set[str]:
        """All but the log."""
        return {file.path for file in self.store.list_tree() if not file.path.startswith("_delta_log/")}

    def notes(self) -> list[CommitInfo]:
        """The entries of VACUUM in the history, oldest first."""
        infos = []
        for file in self.store.list_from("_delta_log"):
            if file.path.endswith(".json"):
                for line in self.store.read(file.path).splitlines():
                    info = msgspec.json.decode(line).get("commitInfo")
                    if info is not None and str(info.get("operation")).startswith("VACUUM"):
                        infos.append(msgspec.convert(info, CommitInfo))
        return infos
