"""Commits that landed between the version we read and ours."""

from __future__ import annotations

import dataclasses
from functools import cached_property

from anabranch.log.commit_files import Commit
from anabranch.protocol.actions import (
    AddCDCFile,
    AddFile,
    CommitInfo,
    DomainMetadata,
    Metadata,
    Protocol,
    RemoveFile,
    SetTransaction,
)
from anabranch.transaction.rows.row_ids import ROW_TRACKING_DOMAIN


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Winner:
    """A commit that landed first, sorted by kind of action.

    What it says of itself counts only as far as its own file actions bear it out: a writer that claims a
    blind append and removes files, or "no data change" for a part of them, is not believed.
    """

    commit: Commit

    @property
    def version(self) -> int:
        return self.commit.version

    @property
    def info(self) -> CommitInfo | None:
        return self.commit.info

    @property
    def operation(self) -> str:
        """What it was, in words for a message."""
        return (self.info and self.info.operation) or "another writer"

    @property
    def read_version(self) -> int | None:
        """The version it was computed from; None where it does not say."""
        return None if self.info is None else self.info.read_version

    @cached_property
    def adds(self) -> tuple[AddFile, ...]:
        return tuple(action for action in self.commit.actions if isinstance(action, AddFile))

    @cached_property
    def removes(self) -> tuple[RemoveFile, ...]:
        return tuple(action for action in self.commit.actions if isinstance(action, RemoveFile))

    @property
    def files(self) -> list[AddFile | RemoveFile]:
        return [*self.adds, *self.removes]

    @cached_property
    def metadata(self) -> Metadata | None:
        return next((action for action in self.commit.actions if isinstance(action, Metadata)), None)

    @cached_property
    def protocol(self) -> Protocol | None:
        return next((action for action in self.commit.actions if isinstance(action, Protocol)), None)

    @cached_property
    def set_transactions(self) -> dict[str, SetTransaction]:
        """By application id."""
        return {action.app_id: action for action in self.commit.actions if isinstance(action, SetTransaction)}

    @cached_property
    def domain_metadata(self) -> dict[str, DomainMetadata]:
        """By domain."""
        return {action.domain: action for action in self.commit.actions if isinstance(action, DomainMetadata)}

    @property
    def describes_table(self) -> bool:
        """Whether it says anything of how the table is described, but for the counters that every commit moves."""
        domains = self.domain_metadata.keys() - {ROW_TRACKING_DOMAIN}
        return self.metadata is not None or self.protocol is not None or bool(domains)

    @cached_property
    def changes_data(self) -> bool:
        """Whether rows may have changed. A commit that says so of one file is taken to mean all of them."""
        if any(isinstance(action, AddCDCFile) for action in self.commit.actions):
            return True
        return any(file.data_change for file in self.files)

    @cached_property
    def is_blind_append(self) -> bool:
        """Whether it only added rows, and read nothing to make them."""
        claims = self.info is not None and self.info.is_blind_append is True
        only_fresh_files = all(add.data_change and add.deletion_vector is None for add in self.adds)
        return claims and bool(self.adds) and not self.removes and only_fresh_files
