"""What a transaction wants to add to the log, before its version is known."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec
from pyroaring import BitMap64

from anabranch.cached_property import cached_property
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
from anabranch.transactions.read_set import DescribeRows, FileKey, ReadSet
from anabranch.transactions.reserved_numbers import NumberRange, ReservedNumbers
from anabranch.transactions.rows.row_ids import ROW_TRACKING_DOMAIN

# How a commit describes itself in `commitInfo`. See "Commit Provenance Information".


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """The operation of a commit as `commitInfo` names it."""

    name: str
    """`WRITE`, `DELETE`, `CREATE TABLE` …"""
    parameters: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    user_metadata: str | None = None
    user: str | None = None
    """The user who runs the operation."""

    def encoded_parameters(self) -> dict[str, str]:
        """The parameters as the log holds them: a string unchanged, any other value as JSON."""
        return {name: _as_text(value) for name, value in self.parameters.items() if value is not None}


def encoded_metrics(metrics: Mapping[str, int | str]) -> dict[str, str]:
    """The metrics as the log holds them."""
    return {name: str(value) for name, value in metrics.items()}


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


ConflictsWith = Callable[[Commit], str | None]
"""Returns why a commit that landed first makes ours wrong, as text; None where it does not."""


class RowsWithColumns(enum.IntEnum):
    """What a statement would write on a table with more columns, nullable and without values, than the one it read."""

    SAME = 0
    """The same rows, with NULL in the new columns."""
    UNKNOWN = 1
    """Perhaps other rows, or an error, as for columns by position. So it comes before the new columns, if at all."""
    OTHER = 2
    """Values for a new column that it has left out."""


OnNewColumns = Callable[[Metadata], RowsWithColumns]
"""Returns what the statement would write on a table with this metadata, to which only columns were added."""


def least_certain(proposals: Iterable[ProposedCommit]) -> OnNewColumns:
    """What several statements would write together."""
    effects = [proposal.on_new_columns for proposal in proposals]

    def rows(metadata: Metadata) -> RowsWithColumns:
        return max(RowsWithColumns.UNKNOWN if effect is None else effect(metadata) for effect in effects)

    return rows


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Bin:
    """Files whose rows a commit that changes no row has rewritten together into other files.

    A bin is independent of the others: left out of the commit, its sources stay in the table unchanged.
    """

    sources: frozenset[FileKey]
    outputs: frozenset[str]
    """Paths as in the log. No other bin writes these files."""
    metrics: Mapping[str, int] = dataclasses.field(default_factory=dict)
    """The part of the commit's metrics that counts this bin."""


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class ProposedCommit:
    """The actions of a commit, and what they depend on.

    `commitInfo`, the ids of new rows and timestamps follow from the version and are not part of it. They are computed
    for each attempt, so a proposal is valid at any version. Rebasing makes a new proposal.
    """

    txn_id: str
    """Unique in the log, also when storage retries a write: a writer recognizes its own commit by it."""
    operation: Operation
    metrics: Mapping[str, int | str] = dataclasses.field(default_factory=dict)
    tags: Mapping[str, str] = dataclasses.field(default_factory=dict)
    read_version: int
    """-1 where the table did not exist."""
    isolation: IsolationLevel | None
    """None for a commit that changes no row."""
    reads: ReadSet
    actions: tuple[Action, ...]
    deleted_rows: Mapping[FileKey, BitMap64 | None] = dataclasses.field(default_factory=dict)
    """The rows that it newly hides, by file as it was read; None for all visible rows of a file. `actions` has a
    remove for each of these files, and an add under the same path where rows are left. A file that is removed and
    missing here was rewritten: which of its rows were deleted is not known."""
    bins: tuple[Bin, ...] = ()
    """For a commit that changes no row: its parts, each of which it can leave out."""
    describe_rows: DescribeRows | None = None
    """Formats rows in conflict by their values."""
    conflicts_with: ConflictsWith | None = None
    """Called for every winner, in addition to all other checks. For a commit that is right only as long as no other
    commit does a certain thing, such as using the feature that it drops."""
    edited_properties: frozenset[str] | None = None
    """For a statement that edits single parts of the metadata it read, and would edit them the same way on another
    version: the properties that it sets, and `comment` where it sets the table's. Empty for a write that moves marks of
    identity columns. None for a statement that replaces the whole description, as REPLACE and RESTORE do."""

    on_new_columns: OnNewColumns | None = None
    """What it would write if winners have only added columns; None where that is not known."""
    precedes_columns: bool = False
    """Whether it is ordered before a winner that added columns."""
    may_be_grouped: bool = False
    """Whether it may be part of one commit with other appends of this process, as far as its user wants that."""
    statements: tuple[ProposedCommit, ...] = ()
    """For a transaction of several statements: what each of them reads and deletes, for the message of a conflict."""
    generated: Mapping[str, NumberRange] = dataclasses.field(default_factory=dict)
    """The numbers that it has generated, by identity column, where its statement can be executed again with others."""
    reserved: ReservedNumbers | None = None
    """Numbers that an earlier commit has reserved for it, behind which it has moved the mark."""
    reserves: Mapping[str, NumberRange] = dataclasses.field(default_factory=dict)
    """For a commit that only reserves numbers: which, by identity column."""

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
        """The remove actions by the key of the file that each removes."""
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
        """The transaction identifiers by application id."""
        return {action.app_id: action for action in self.actions if isinstance(action, SetTransaction)}

    @cached_property
    def domain_metadata(self) -> dict[str, DomainMetadata]:
        """The domain actions by domain, without that of the row ids, which every attempt computes."""
        domains = (action for action in self.actions if isinstance(action, DomainMetadata))
        return {action.domain: action for action in domains if action.domain != ROW_TRACKING_DOMAIN}

    @cached_property
    def changes_data(self) -> bool:
        """Whether rows may change."""
        return any(file.data_change for file in self.files)

    @cached_property
    def is_blind_append(self) -> bool:
        """Whether the commit only adds rows and read none to make them. True also for a commit without files.

        One that is ordered before new columns is none: a statement that has read these columns comes after it, too, and
        may not ignore its rows.
        """
        if self.precedes_columns:
            return False
        only_adds = not self.removes and not any(isinstance(action, AddCDCFile) for action in self.actions)
        return only_adds and not self.reads.scans and all(add.data_change for add in self.adds)

    def without(self, *dropped: Action | None) -> ProposedCommit:
        """The same commit without some of its actions."""
        dropped_ids = {id(action) for action in dropped if action is not None}
        if not dropped_ids:
            return self
        kept = tuple(action for action in self.actions if id(action) not in dropped_ids)
        return dataclasses.replace(self, actions=kept)

    def with_tags(self, tags: Mapping[str, str]) -> ProposedCommit:
        """The same commit, with these tags beside its own in `commitInfo`."""
        return dataclasses.replace(self, tags={**self.tags, **tags}) if tags else self

    def without_bins(self, dropped: tuple[Bin, ...]) -> ProposedCommit:
        """The same commit without these bins."""
        if not dropped:
            return self
        sources = {key for dropped_bin in dropped for key in dropped_bin.sources}
        outputs = {path for dropped_bin in dropped for path in dropped_bin.outputs}
        metrics = dict(self.metrics)
        for dropped_bin in dropped:
            for name, amount in dropped_bin.metrics.items():
                metrics[name] = int(metrics.get(name, 0)) - amount
        actions = [
            *(remove for remove in self.removes if remove.key in sources),
            *(add for add in self.adds if add.path in outputs),
        ]
        kept = tuple(kept_bin for kept_bin in self.bins if kept_bin not in dropped)
        return dataclasses.replace(self.without(*actions), metrics=metrics, bins=kept)


# Writes that an application numbers, so that repeating one has no effect. See "Transaction Identifiers".


def already_written(snapshot: Snapshot | None, *, app_id: str, version: int) -> bool:
    """Whether the table has this write of the application, or a later one.

    The commit loop checks it for every later commit, too: see `conflict_checks.application_ids`.
    """
    progress = None if snapshot is None else snapshot.set_transactions.get(app_id)
    return progress is not None and progress.version >= version


# The isolation level of a commit.


SNAPSHOT_ISOLATION = "SnapshotIsolation"


def changes_no_row(actions: Sequence[Action]) -> bool:
    """Whether a commit only rearranges rows, as OPTIMIZE does.

    No change of the rows that such a commit has read makes it wrong, as long as the files it replaces still exist.
    """
    files = [action for action in actions if isinstance(action, AddFile | RemoveFile)]
    describes_table = any(isinstance(action, Metadata | Protocol) for action in actions)
    return bool(files) and not describes_table and not any(file.data_change for file in files)


def isolation_level_text(level: IsolationLevel | None) -> str:
    """The level as `commitInfo.isolationLevel` spells it. `level` is None for a commit that changes no row."""
    return SNAPSHOT_ISOLATION if level is None else level.value
