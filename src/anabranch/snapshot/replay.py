"""Commits over a state make the next state. See "Action Reconciliation"."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from types import MappingProxyType

from anabranch.protocol.actions import (
    Action,
    AddFile,
    CommitInfo,
    DomainMetadata,
    Metadata,
    Protocol,
    RemoveFile,
    SetTransaction,
)
from anabranch.snapshot.live_files import LiveFiles
from anabranch.snapshot.reconciliation import FileReconciler
from anabranch.snapshot.tombstones import Tombstones


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TableState:
    """What replaying a log comes to. `protocol` and `metadata` are missing where the log is damaged."""

    protocol: Protocol | None
    metadata: Metadata | None
    files: LiveFiles
    tombstones: Tombstones
    set_transactions: Mapping[str, SetTransaction]
    domain_metadata: Mapping[str, DomainMetadata]
    info: CommitInfo | None = None
    """Of the last commit replayed, if that was a commit."""


EMPTY_STATE = TableState(
    protocol=None,
    metadata=None,
    files=LiveFiles(),
    tombstones=Tombstones(),
    set_transactions=MappingProxyType({}),
    domain_metadata=MappingProxyType({}),
)


class Replay:
    """Takes the actions of consecutive commits, in order, on top of a state."""

    def __init__(self, base: TableState) -> None:
        self._base = base
        self._protocol = base.protocol
        self._metadata = base.metadata
        self._set_transactions = dict(base.set_transactions)
        self._domain_metadata = dict(base.domain_metadata)
        self._files = FileReconciler()
        self._info: CommitInfo | None = None

    def begin_commit(self) -> None:
        """What follows belongs to the next version."""
        self._info = None

    def take(self, action: Action) -> None:
        match action:
            case AddFile() | RemoveFile():
                self._files.take(action)
            case CommitInfo():
                self._info = self._info or action
            case SetTransaction():
                self._set_transactions[action.app_id] = action
            case DomainMetadata(removed=True):
                self._domain_metadata.pop(action.domain, None)
            case DomainMetadata():
                self._domain_metadata[action.domain] = action
            case Metadata():
                self._metadata = action
            case Protocol():
                self._protocol = action
            case _:
                # Change data files are no part of a version, and the actions of V2 checkpoints take no
                # part in the replay of commits.
                pass

    def state(self) -> TableState:
        changes = self._files.changes()
        return TableState(
            protocol=self._protocol,
            metadata=self._metadata,
            files=self._base.files.apply(changes),
            tombstones=self._base.tombstones.apply(changes),
            set_transactions=MappingProxyType(self._set_transactions),
            domain_metadata=MappingProxyType(self._domain_metadata),
            info=self._info,
        )
