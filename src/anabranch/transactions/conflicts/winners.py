"""Winners: commits between the version that ours read and ours."""

from __future__ import annotations

import dataclasses

from anabranch.cached_property import cached_property
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
from anabranch.transactions.rows.row_ids import ROW_TRACKING_DOMAIN


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Winner:
    """A commit that landed first, with its actions by kind.

    `commitInfo` and `dataChange` count only if the commit's own file actions agree: a blind append must not remove
    files, and one file with `dataChange` makes the whole commit a change of data.
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
        """The name of the operation for messages."""
        return (self.info and self.info.operation) or "another writer"

    @property
    def read_version(self) -> int | None:
        """The version that the commit has read; None where it does not record one."""
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
        """The transaction identifiers by application id."""
        return {action.app_id: action for action in self.commit.actions if isinstance(action, SetTransaction)}

    @cached_property
    def domain_metadata(self) -> dict[str, DomainMetadata]:
        """The domain actions by domain."""
        return {action.domain: action for action in self.commit.actions if isinstance(action, DomainMetadata)}

    @property
    def describes_table(self) -> bool:
        """Whether it changes the description of the table. The high-water mark of row ids does not count."""
        domains = self.domain_metadata.keys() - {ROW_TRACKING_DOMAIN}
        return self.metadata is not None or self.protocol is not None or bool(domains)

    @cached_property
    def changes_data(self) -> bool:
        """Whether rows may have changed: if any of its files has `dataChange`, or it has change data."""
        if any(isinstance(action, AddCDCFile) for action in self.commit.actions):
            return True
        return any(file.data_change for file in self.files)

    @cached_property
    def is_blind_append(self) -> bool:
        """Whether it only added rows, and read nothing to make them."""
        is_marked = self.info is not None and self.info.is_blind_append is True
        only_new_files = all(add.data_change and add.deletion_vector is None for add in self.adds)
        return is_marked and bool(self.adds) and not self.removes and only_new_files
