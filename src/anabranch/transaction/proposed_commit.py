"""What a transaction wants to add to the log, before it is known where it will stand."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import msgspec
from pyroaring import BitMap64

from anabranch.log.commit_files import Commit
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
from anabranch.protocol.property_table import IsolationLevel
from anabranch.snapshot.snapshot import Snapshot
from anabranch.transaction.read_set import DescribeRows, FileKey, ReadSet
from anabranch.transaction.rows.row_ids import ROW_TRACKING_DOMAIN

# What a commit says of itself in `commitInfo`. See "Commit Provenance Information".


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """What is being done, in Delta's words."""

    name: str
    """`WRITE`, `DELETE`, `CREATE TABLE` …"""
    parameters: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    user_metadata: str | None = None
    user: str | None = None
    """Who does it."""

    def encoded_parameters(self) -> dict[str, str]:
        """Parameters as the log holds them: a text as it is, anything else as the text of its JSON."""
        return {name: _as_text(value) for name, value in self.parameters.items() if value is not None}


def encoded_metrics(metrics: Mapping[str, int | str]) -> dict[str, str]:
    """Metrics as the log holds them."""
    return {name: str(value) for name, value in metrics.items()}


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


ConflictsWith = Callable[[Commit], str | None]
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
    conflicts_with: ConflictsWith | None = None
    """Asked of every winner, beside all other checks: for a commit that is right only as long as nobody does a
    certain thing, such as using the feature that it drops."""
    edited_properties: frozenset[str] | None = None
    """For a statement whose metadata is what it read but for single things, which it would change the same way on
    another version: the properties that it states, and `comment` where it states the table's. None for one that says
    what the whole description is, as REPLACE and RESTORE do."""

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

    def with_tags(self, tags: Mapping[str, str]) -> ProposedCommit:
        """The same commit, with these tags beside its own in `commitInfo`."""
        return dataclasses.replace(self, tags={**self.tags, **tags}) if tags else self

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


# Writes that an application numbers, so that doing one again does nothing. See "Transaction Identifiers".


def already_written(snapshot: Snapshot | None, *, app_id: str, version: int) -> bool:
    """Whether the table has this write of the application, or a later one.

    The loop asks again of every commit that lands meanwhile: see `conflict_checks.application_ids`.
    """
    found = None if snapshot is None else snapshot.set_transactions.get(app_id)
    return found is not None and found.version >= version


# How strictly a commit must fit behind those that landed first.


SNAPSHOT_ISOLATION = "SnapshotIsolation"


def changes_no_row(actions: Sequence[Action]) -> bool:
    """Whether a commit only rearranges rows, as OPTIMIZE does.

    Nothing that such a commit has read can make it wrong, as long as the files it replaces are still there.
    """
    files = [action for action in actions if isinstance(action, AddFile | RemoveFile)]
    describes_table = any(isinstance(action, Metadata | Protocol) for action in actions)
    return bool(files) and not describes_table and not any(file.data_change for file in files)


def written_level(level: IsolationLevel | None) -> str:
    """As `commitInfo.isolationLevel` spells it; None for a commit that changes no row."""
    return SNAPSHOT_ISOLATION if level is None else level.value
