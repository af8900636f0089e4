"""The net changes of several statements, of which each changed the version that the one before it had left.

Files that one statement adds and a later one removes are in no commit. A row of a file of the first version that was
deleted by any of the statements is deleted by the transaction.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
import pyarrow.compute as pc
from pyroaring import BitMap64

from anabranch.log.file_columns import FileMask
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
from anabranch.snapshot.replay import FileReconciler
from anabranch.snapshot.snapshot import Snapshot
from anabranch.transactions.conflicts.latest_state import LiveFileIndex
from anabranch.transactions.proposed_commit import ProposedCommit
from anabranch.transactions.read_set import FileKey, ReadSet, Scan

KEY_BYTES = 256
"""About what the key of a file takes in memory; in a mask a file takes a byte."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NetChanges:
    """All that statements have changed together, as the changes of one commit to the version that they began with."""

    base_files: LiveFileIndex
    """The files of the version that the first statement began with, the *base*."""
    adds: Mapping[str, AddFile] = dataclasses.field(default_factory=dict)
    """The live files that the base does not have, or not with this deletion vector, by path."""
    removes: Mapping[FileKey, RemoveFile] = dataclasses.field(default_factory=dict)
    """The files of the base that are not live any more, or not with this deletion vector."""
    deleted_rows: Mapping[FileKey, BitMap64 | None] = dataclasses.field(default_factory=dict)
    """The deleted rows of files of the base, as `Transaction.commit` takes them."""
    rewritten: frozenset[FileKey] = frozenset()
    """The files of the base that were removed without naming the deleted rows."""
    change_files: tuple[tuple[AddCDCFile, ...], ...] = ()
    """The change data files of each statement that changed rows."""
    changes_own_rows: bool = False
    """Whether a statement deleted or replaced rows that an earlier one had written."""
    metadata: Metadata | None = None
    protocol: Protocol | None = None
    domains: Mapping[str, DomainMetadata] = dataclasses.field(default_factory=dict)
    applications: Mapping[str, SetTransaction] = dataclasses.field(default_factory=dict)

    def after(self, proposal: ProposedCommit) -> Self:
        """The net changes with those of the next statement."""
        adds, removes = dict(self.adds), dict(self.removes)
        own_rows = self.changes_own_rows
        in_base = {key[0]: key for key in self.base_files.find(remove.path for remove in proposal.removes)}
        for remove in proposal.removes:
            if adds.pop(remove.path, None) is None:
                removes[remove.key] = remove
            own_rows |= remove.path not in in_base
        adds |= {add.path: add for add in proposal.adds}
        deleted = dict(self.deleted_rows)
        for (path, _), positions in proposal.deleted_rows.items():
            if path not in in_base:
                continue
            before = deleted.get(in_base[path], BitMap64())
            deleted[in_base[path]] = None if positions is None or before is None else before | positions
        rewritten = {
            in_base[remove.path]
            for remove in proposal.removes
            if remove.path in in_base and remove.key not in proposal.deleted_rows
        }
        change_files = tuple(action for action in proposal.actions if isinstance(action, AddCDCFile))
        return dataclasses.replace(
            self,
            adds=adds,
            removes=removes,
            deleted_rows=deleted,
            rewritten=self.rewritten | rewritten,
            change_files=(*self.change_files, change_files) if proposal.files else self.change_files,
            changes_own_rows=own_rows,
            metadata=proposal.metadata or self.metadata,
            protocol=proposal.protocol or self.protocol,
            domains={**self.domains, **proposal.domain_metadata},
            applications={**self.applications, **_later(proposal.set_transactions, self.applications)},
        )

    @property
    def files(self) -> list[Action]:
        """The actions on data files."""
        return [*self.removes.values(), *self.adds.values()]

    @property
    def others(self) -> list[Action]:
        """The actions on neither data files nor change data files."""
        described = [action for action in (self.protocol, self.metadata) if action is not None]
        return [*described, *self.domains.values(), *self.applications.values()]

    @property
    def named_rows(self) -> dict[FileKey, BitMap64 | None]:
        """The deleted rows of the files for which all statements name them."""
        return {key: rows for key, rows in self.deleted_rows.items() if key not in self.rewritten}

    @property
    def needs_net_feed(self) -> bool:
        """Whether the change data files of the statements together are not those of the net changes."""
        with_files = [files for files in self.change_files if files]
        return bool(with_files) and (self.changes_own_rows or len(with_files) < len(self.change_files))


def _later(ours: Mapping[str, SetTransaction], before: Mapping[str, SetTransaction]) -> dict[str, SetTransaction]:
    return {
        app_id: progress
        for app_id, progress in ours.items()
        if app_id not in before or before[app_id].version <= progress.version
    }


def on_base(proposal: ProposedCommit, reads: ReadSet, net: NetChanges, base: Snapshot) -> ProposedCommit:
    """What one statement reads and deletes of the base, as far as other commits can contradict it.

    `net` are the net changes with it. The proposal is for finding conflicts, and is never committed.
    """
    in_base = {key[0]: key for key in net.base_files.find(remove.path for remove in proposal.removes)}
    return dataclasses.replace(
        proposal,
        read_version=base.version,
        reads=reads,
        actions=tuple(net.removes[key] for key in in_base.values()),
        deleted_rows={in_base[path]: rows for (path, _), rows in proposal.deleted_rows.items() if path in in_base},
    )


def with_changes(snapshot: Snapshot, proposal: ProposedCommit, *, version: int) -> Snapshot:
    """The table after the statement, under a version number that only the transaction uses.

    It has no progress of applications: a write of the same number by a later statement is another part of the
    transaction, and not a repetition.
    """
    reconciler = FileReconciler()
    for action in proposal.files:
        reconciler.take(action)
    changes = reconciler.changes()
    changed = dataclasses.replace(
        snapshot,
        version=version,
        metadata=proposal.metadata or snapshot.metadata,
        protocol=proposal.protocol or snapshot.protocol,
        files=snapshot.files.apply(changes.adds, changes.removes),
        all_tombstones=snapshot.all_tombstones.apply(changes),
        domain_metadata={
            name: domain
            for name, domain in {**snapshot.domain_metadata, **proposal.domain_metadata}.items()
            if not domain.removed
        },
    )
    return changed.with_parsed_metadata(snapshot)


def scan_of_base(scan: Scan, seen: Snapshot, base: Snapshot, base_files: LiveFileIndex) -> Scan:
    """The part of a scan that other commits can contradict: what it read of files of the base.

    Files that the transaction itself has written are left out. So are rows that it had deleted before the scan: no
    other commit may change these, whether they were read or not.
    """
    files: Any = scan.files
    if isinstance(files, np.ndarray):
        files = _opened_in_base(files, seen, base, base_files)
    if seen is base:
        return dataclasses.replace(scan, files=files)
    if isinstance(files, frozenset):
        files = frozenset(base_files.find(path for path, _ in files))
    rows = scan.rows
    if rows is not None:
        in_base = {key[0]: key for key in base_files.find(path for path, _ in rows)}
        rows = {in_base[path]: positions for (path, _), positions in rows.items() if path in in_base}
    return dataclasses.replace(scan, files=files, rows=rows)


def _opened_in_base(
    opened: FileMask, seen: Snapshot, base: Snapshot, base_files: LiveFileIndex
) -> FileMask | frozenset[FileKey]:
    """The opened files that are in the base: keys where these take less memory, as the reads of all statements stay."""
    paths = seen.files.columns("path")["path"].filter(opened)
    if len(paths) * KEY_BYTES < base.files.count:
        return frozenset(base_files.find(paths.to_pylist()))
    if seen is base:
        return opened
    in_base: FileMask = pc.is_in(base.files.columns("path")["path"], value_set=paths.combine_chunks()).to_numpy()
    return in_base
