"""What a transaction wants to add to the log, before it is known where it will stand."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from functools import cached_property

from pyroaring import BitMap64

from anabranch.log.commits import Commit
from anabranch.protocol.actions import (
    Action,
    AddCDCFile,
    AddFile,
    CommitInfo,
    DomainMetadata,
    Metadata,
    Protocol,
    RemoveFile,
    SetTransaction,
)
from anabranch.protocol.isolation import IsolationLevel
from anabranch.transaction.operation import Operation
from anabranch.transaction.read_set import DescribeRows, FileKey, ReadSet
from anabranch.transaction.reconciliation import Reconciliation
from anabranch.transaction.row_ids import ROW_TRACKING_DOMAIN

RulesOut = Callable[[Commit], str | None]
"""What in a commit that landed first makes ours wrong, in words; None where nothing does."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Bin:
    """Files whose rows were written together into others, by a commit that changes no row.

    It stands for itself: left out of the commit, it leaves its sources as they are.
    """

    sources: frozenset[FileKey]
    outputs: frozenset[str]
    """Paths as in the log. No other bin writes them."""
    metrics: Mapping[str, int] = dataclasses.field(default_factory=dict)
    """Its share of the commit's metrics."""


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class ProposedCommit:
    """The actions of a commit, and what they depend on.

    What follows from the version is not in it: `commitInfo`, ids of new rows, timestamps. They are worked
    out for each attempt, so that a proposal stays true wherever it lands. Rebasing makes a new proposal.
    """

    txn_id: str
    """In the log once, whatever storage does: by it we know our own commit again."""
    operation: Operation
    metrics: Mapping[str, int | str] = dataclasses.field(default_factory=dict)
    tags: Mapping[str, str] = dataclasses.field(default_factory=dict)
    read_version: int
    """-1 where there was no table."""
    isolation: IsolationLevel | None
    """None for a commit that changes no row."""
    reads: ReadSet
    actions: tuple[Action, ...]
    deleted_rows: Mapping[FileKey, BitMap64 | None] = dataclasses.field(default_factory=dict)
    """The rows it newly hides, by the files as they were read; None for all rows that a file showed. `actions`
    has a remove for each of these files, and an add under the same path where rows are left. A file that is
    removed and not named here was rewritten: its rows cannot be told apart."""
    bins: tuple[Bin, ...] = ()
    """For a commit that changes no row: the parts that it may do without."""
    describe_rows: DescribeRows | None = None
    """Tells rows in conflict by their values."""
    rules_out: RulesOut | None = None
    """Asked of every winner, beside all other checks: for a commit that is right only as long as nobody does a
    certain thing, such as using the feature that it drops."""

    def __post_init__(self) -> None:
        assert not any(isinstance(action, CommitInfo) for action in self.actions), "commitInfo is written by the loop"

    @cached_property
    def adds(self) -> tuple[AddFile, ...]:
        return tuple(action for action in self.actions if isinstance(action, AddFile))

    @cached_property
    def removes(self) -> tuple[RemoveFile, ...]:
        return tuple(action for action in self.actions if isinstance(action, RemoveFile))

    @cached_property
    def removed_files(self) -> dict[FileKey, RemoveFile]:
        """By what each removes."""
        return {remove.key: remove for remove in self.removes}

    @property
    def files(self) -> list[AddFile | RemoveFile]:
        return [*self.adds, *self.removes]

    @cached_property
    def metadata(self) -> Metadata | None:
        return next((action for action in self.actions if isinstance(action, Metadata)), None)

    @cached_property
    def protocol(self) -> Protocol | None:
        return next((action for action in self.actions if isinstance(action, Protocol)), None)

    @cached_property
    def set_transactions(self) -> dict[str, SetTransaction]:
        """By application id."""
        return {action.app_id: action for action in self.actions if isinstance(action, SetTransaction)}

    @cached_property
    def domain_metadata(self) -> dict[str, DomainMetadata]:
        """By domain, but for the row ids, which every attempt works out anew."""
        found = (action for action in self.actions if isinstance(action, DomainMetadata))
        return {action.domain: action for action in found if action.domain != ROW_TRACKING_DOMAIN}

    @cached_property
    def changes_data(self) -> bool:
        """Whether rows may change."""
        return any(file.data_change for file in self.files)

    @cached_property
    def is_blind_append(self) -> bool:
        """Whether it only adds rows and read none to make them. True also for a commit without files."""
        only_adds = not self.removes and not any(isinstance(action, AddCDCFile) for action in self.actions)
        return only_adds and not self.reads.reads_rows and all(add.data_change for add in self.adds)

    def without(self, *dropped: Action | None) -> ProposedCommit:
        """The same commit less some of its actions."""
        gone = {id(action) for action in dropped if action is not None}
        if not gone:
            return self
        return dataclasses.replace(self, actions=tuple(action for action in self.actions if id(action) not in gone))

    def reconciled(self, how: Reconciliation) -> ProposedCommit:
        """The same commit, which tells how it came to be as it is."""
        found = how.tags()
        return dataclasses.replace(self, tags={**self.tags, **found}) if found else self

    def less(self, dropped: tuple[Bin, ...]) -> ProposedCommit:
        """The same commit without these bins."""
        if not dropped:
            return self
        sources = {key for left_out in dropped for key in left_out.sources}
        outputs = {path for left_out in dropped for path in left_out.outputs}
        metrics = dict(self.metrics)
        for left_out in dropped:
            for name, amount in left_out.metrics.items():
                metrics[name] = int(metrics.get(name, 0)) - amount
        gone = [
            *(remove for remove in self.removes if remove.key in sources),
            *(add for add in self.adds if add.path in outputs),
        ]
        kept = tuple(found for found in self.bins if found not in dropped)
        return dataclasses.replace(self.without(*gone), metrics=metrics, bins=kept)
