"""One operation on one version of a table, from its first read to its commit."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol as Interface

import numpy as np
from pyroaring import BitMap64

from anabranch.errors.protocol import InvalidPropertyError
from anabranch.log.file_columns import FileMask
from anabranch.predicates.expressions import TRUE, Predicate
from anabranch.protocol.actions import Action, Metadata, Protocol
from anabranch.protocol.properties import TableProperties
from anabranch.protocol.property_table import IsolationLevel
from anabranch.snapshot.snapshot import Snapshot
from anabranch.transactions.commit.commit_context import CommittedVersion
from anabranch.transactions.proposed_commit import (
    Bin,
    ConflictsWith,
    OnNewColumns,
    Operation,
    ProposedCommit,
    already_written,
    changes_no_row,
)
from anabranch.transactions.read_set import (
    WHOLE_TABLE,
    DescribeRows,
    EvaluateRows,
    FileKey,
    ReadSet,
    Scan,
)
from anabranch.transactions.reserved_numbers import NumberRange, ReservedNumbers
from anabranch.transactions.rows.deletion_vector_actions import Vectors


class MultiStatementTransaction(Interface):
    """What a transaction calls that is one statement of a larger one."""

    def begin(self, statement: Transaction) -> None:
        """Take note of a statement. One that never ends has failed, which the program has seen."""

    def keep(self, proposal: ProposedCommit, read: Snapshot | None) -> CommittedVersion:
        """Take the changes of the statement, which were made from the version `read`, and return their result."""

    def keep_reads(self, reads: ReadSet, read: Snapshot | None) -> None:
        """Take the reads of a statement without changes."""

    def keep_until_end(self, release: Callable[[], None]) -> None:
        """Call the function when the larger transaction has ended."""


class Transaction:
    """One operation that reads one version, records its reads and makes at most one commit.

    Reads may be recorded from any thread: Spark plans scans in threads of its own.
    """

    def __init__(
        self,
        *,
        operation: Operation,
        snapshot: Snapshot | None,
        txn_id: str,
        vectors: Callable[[], Vectors],
        commit_proposal: Callable[[ProposedCommit], CommittedVersion | None],
        describe_rows: DescribeRows | None = None,
        part_of: MultiStatementTransaction | None = None,
    ) -> None:
        self.operation = operation
        self.snapshot = snapshot
        """None where the table does not exist yet."""
        self.txn_id = txn_id
        self._vectors = vectors
        self.describe_rows = describe_rows
        """Called once, before a conflict is raised, so that its message shows rows by their values. It may raise any
        exception: then the message shows them by file and position."""
        self._commit_proposal = commit_proposal
        self._lock = threading.Lock()
        self._scans: list[Scan] = []
        self._application_ids: set[str] = set()
        self._part_of = part_of
        self.has_ended = False
        """Whether its changes or its reads were handed on, of a statement of a larger transaction."""
        self.has_recorded_all = False
        """Whether it will read no other rows of the table than those of the scans recorded so far."""
        if part_of is not None:
            part_of.begin(self)

    @property
    def read_version(self) -> int:
        """The version that the transaction reads; -1 where the table does not exist yet."""
        return -1 if self.snapshot is None else self.snapshot.version

    @property
    def vectors(self) -> Vectors:
        """For `hide_rows`, which makes the actions of a commit that deletes rows."""
        return self._vectors()

    @property
    def metadata(self) -> Metadata | None:
        return None if self.snapshot is None else self.snapshot.metadata

    @property
    def protocol(self) -> Protocol | None:
        return None if self.snapshot is None else self.snapshot.protocol

    def record_scan(
        self,
        predicate: Predicate,
        *,
        files: FileMask | Iterable[FileKey] | None = None,
        rows: Mapping[FileKey, BitMap64] | None = None,
        reevaluate: EvaluateRows | None = None,
    ) -> None:
        """Record that this operation depends on the rows for which `predicate` is true, and opened `files` for them.

        Every row of the snapshot that satisfies the predicate must be in one of these files. Without `files`, all
        were opened. `rows` are the rows that satisfied it, by file, and `reevaluate` evaluates it for other rows. Both
        are for deterministic conditions; without them every change in `files` counts as a conflict, and so does every
        new file that the predicate does not rule out.
        """
        opened = files if files is None or isinstance(files, np.ndarray) else frozenset(files)
        is_limited = opened is not None or rows is not None or reevaluate is not None or predicate != TRUE
        scan = Scan(predicate=predicate, files=opened, rows=rows, reevaluate=reevaluate)
        with self._lock:
            self._scans.append(scan if is_limited else WHOLE_TABLE)

    def record_whole_table(self) -> None:
        """Record that this operation may depend on any row of the table."""
        self.record_scan(TRUE)

    def has_written(self, *, app_id: str, version: int) -> bool:
        """Whether an earlier run of the application has done this write; if so, there is nothing to do.

        From here on, progress of this application that another commit records is a conflict.
        """
        with self._lock:
            self._application_ids.add(app_id)
        return already_written(self.snapshot, app_id=app_id, version=version)

    def record_applications(self, app_ids: Iterable[str]) -> None:
        """Record that the progress of these applications was read, as `has_written` does."""
        with self._lock:
            self._application_ids.update(app_ids)

    def reads(self) -> ReadSet:
        """All reads recorded so far."""
        with self._lock:
            return ReadSet(scans=tuple(self._scans), application_ids=frozenset(self._application_ids))

    def propose(
        self,
        actions: Sequence[Action],
        *,
        deleted_rows: Mapping[FileKey, BitMap64 | None] | None = None,
        bins: Sequence[Bin] = (),
        metrics: Mapping[str, int | str] | None = None,
        tags: Mapping[str, str] | None = None,
        conflicts_with: ConflictsWith | None = None,
        edited_properties: frozenset[str] | None = None,
        on_new_columns: OnNewColumns | None = None,
        may_be_grouped: bool = False,
        statements: Sequence[ProposedCommit] = (),
        generated: Mapping[str, NumberRange] | None = None,
        reserved: ReservedNumbers | None = None,
    ) -> ProposedCommit:
        """The commit that `actions` would make. The commit loop adds `commitInfo`, row ids and timestamps."""
        # Otherwise commits after the one that has reserved the numbers would never be checked.
        assert reserved is None or self.read_version <= reserved.version, "the numbers were reserved before it has read"
        return ProposedCommit(
            txn_id=self.txn_id,
            operation=self.operation,
            metrics=metrics or {},
            tags=tags or {},
            read_version=self.read_version,
            isolation=None if changes_no_row(actions) else self._isolation_level(actions),
            reads=self.reads(),
            actions=tuple(actions),
            deleted_rows=deleted_rows or {},
            bins=tuple(bins),
            describe_rows=self.describe_rows,
            conflicts_with=conflicts_with,
            edited_properties=edited_properties,
            on_new_columns=on_new_columns,
            may_be_grouped=may_be_grouped,
            statements=tuple(statements),
            generated=generated or {},
            reserved=reserved,
        )

    def commit(
        self,
        actions: Sequence[Action],
        *,
        deleted_rows: Mapping[FileKey, BitMap64 | None] | None = None,
        metrics: Mapping[str, int | str] | None = None,
        tags: Mapping[str, str] | None = None,
        conflicts_with: ConflictsWith | None = None,
        edited_properties: frozenset[str] | None = None,
        on_new_columns: OnNewColumns | None = None,
        may_be_grouped: bool = False,
        statements: Sequence[ProposedCommit] = (),
        generated: Mapping[str, NumberRange] | None = None,
        reserved: ReservedNumbers | None = None,
    ) -> CommittedVersion:
        """Commit `actions` as the next version, after all commits that landed first.

        `deleted_rows` names the rows that `actions` newly hide, by file as it was read, None for all rows of a file:
        so they can also be hidden after winners that changed other rows of the same files. A file that is removed and
        not named counts as rewritten, and then no winner may have changed it. `conflicts_with` is called for every
        winner; a text that it returns is a conflict. With `edited_properties` the metadata is merged with that of
        winners, where the changes commute. `on_new_columns` says what it would write if winners have only added
        columns; without it, it can only be ordered before them. With `may_be_grouped` an append may be part of one
        commit with others. `statements` are those of which the commit is the net change.

        `generated` are the numbers of identity columns that the statement has generated. If they are taken, and there
        is no other conflict, the commit reserves as many others instead and raises `ExecuteAgainError`: executed again,
        the statement uses these and names them as `reserved`.

        Raises the exceptions of `errors.commits`, among them the conflicts with winners that make this commit wrong.
        After any of them nothing of the commit is in the table, except after `CommitFateUnknownError`.
        """
        proposal = self.propose(
            actions,
            deleted_rows=deleted_rows,
            metrics=metrics,
            tags=tags,
            conflicts_with=conflicts_with,
            edited_properties=edited_properties,
            on_new_columns=on_new_columns,
            may_be_grouped=may_be_grouped,
            statements=statements,
            generated=generated,
            reserved=reserved,
        )
        committed = self._committed(proposal)
        assert committed is not None, "only bins can be left out"
        return committed

    def commit_bins(
        self,
        actions: Sequence[Action],
        bins: Sequence[Bin],
        *,
        metrics: Mapping[str, int | str] | None = None,
        tags: Mapping[str, str] | None = None,
    ) -> CommittedVersion | None:
        """Commit the bins that winners have not made impossible; None where no bin is left.

        The commit changes no row. Every remove of `actions` is a source of one bin and every add an output of one;
        with `moved_to_tags` on the removes, rows that winners hid in sources are hidden in the outputs, too.
        `dropped_bins` of the result, or all bins where it is None, are in the table as before and may be rewritten by
        another commit. Changes of rows are never a conflict.
        """
        assert changes_no_row(actions), "bins rearrange rows and change none"
        return self._committed(self.propose(actions, bins=bins, metrics=metrics, tags=tags))

    def _committed(self, proposal: ProposedCommit) -> CommittedVersion | None:
        self.has_ended = True
        if self._part_of is not None:
            return self._part_of.keep(proposal, self.snapshot)
        return self._commit_proposal(proposal)

    def end_without_commit(self) -> None:
        """End the transaction, which has nothing to change. What it has read counts for the larger one, if any."""
        self.has_ended = True
        if self._part_of is not None:
            self._part_of.keep_reads(self.reads(), self.snapshot)

    def when_ended(self, release: Callable[[], None]) -> None:
        """Call a function that releases what is needed to evaluate the reads again: now, or if this transaction is a
        part of a larger one, at the end of that.
        """
        if self._part_of is None:
            release()
        else:
            self._part_of.keep_until_end(release)

    def _isolation_level(self, actions: Sequence[Action]) -> IsolationLevel:
        """The level that the table's property sets; for the first commit of a table, the one in its own metadata.

        Raises `InvalidPropertyError` where the property has no valid value, and the commit does not set another.
        """
        new_metadata = next((action for action in actions if isinstance(action, Metadata)), None)
        metadata = self.metadata or new_metadata
        try:
            return TableProperties({} if metadata is None else metadata.configuration).isolation_level
        except InvalidPropertyError:
            if new_metadata is None:
                raise
            TableProperties(new_metadata.configuration).isolation_level  # noqa: B018 - raises
            return IsolationLevel.SERIALIZABLE
