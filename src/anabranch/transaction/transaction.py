"""One operation on one version of a table, from its first read to its commit."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
from pyroaring import BitMap64

from anabranch.errors.protocol import InvalidPropertyError
from anabranch.log.file_columns import FileMask
from anabranch.predicates.expressions import TRUE, Predicate
from anabranch.protocol.actions import Action, Metadata, Protocol
from anabranch.protocol.properties import TableProperties
from anabranch.protocol.property_table import IsolationLevel
from anabranch.snapshot.snapshot import Snapshot
from anabranch.transaction.commit.commit_context import CommittedVersion
from anabranch.transaction.proposed_commit import (
    Bin,
    ConflictsWith,
    Operation,
    ProposedCommit,
    already_written,
    changes_no_row,
)
from anabranch.transaction.read_set import (
    WHOLE_TABLE,
    DescribeRows,
    EvaluateRows,
    FileKey,
    ReadSet,
    Scan,
)
from anabranch.transaction.rows.row_access import Vectors


class Transaction:
    """Sees one version, remembers what it was asked of it, and lands at most one commit.

    Reads may be recorded from any thread: Spark plans scans on its own.
    """

    def __init__(
        self,
        *,
        operation: Operation,
        snapshot: Snapshot | None,
        txn_id: str,
        vectors: Vectors,
        commit_with_retries: Callable[[ProposedCommit], CommittedVersion | None],
        describe_rows: DescribeRows | None = None,
    ) -> None:
        self.operation = operation
        self.snapshot = snapshot
        """None where there is no table yet."""
        self.txn_id = txn_id
        self.vectors = vectors
        """For `hide_rows`, whose actions are what a commit that deletes rows is made of."""
        self.describe_rows = describe_rows
        """Called once, when a conflict is about to be raised, so that its message tells rows by their values.
        Whatever it raises is no harm: rows are told by file and position then."""
        self._commit_with_retries = commit_with_retries
        self._lock = threading.Lock()
        self._scans: list[Scan] = []
        self._application_ids: set[str] = set()

    @property
    def read_version(self) -> int:
        """-1 where there is no table yet."""
        return -1 if self.snapshot is None else self.snapshot.version

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
        again: EvaluateRows | None = None,
    ) -> None:
        """Rows for which `predicate` is true matter to this operation; `files` were opened to find them.

        Every row of the snapshot that satisfies it must be in one of these files. Without `files`, all were
        opened. `rows` are those that satisfied it, by file, and `again` asks it of other rows. Both are for
        conditions that are deterministic; without them, whatever changes in `files` counts as a conflict, and
        so does every new file that the predicate does not rule out.
        """
        opened = files if files is None or isinstance(files, np.ndarray) else frozenset(files)
        told = opened is not None or rows is not None or again is not None
        scan = Scan(predicate=predicate, files=opened, rows=rows, again=again)
        with self._lock:
            self._scans.append(scan if told or predicate != TRUE else WHOLE_TABLE)

    def record_whole_table(self) -> None:
        """Any row at all may matter to this operation."""
        self.record_scan(TRUE)

    def has_written(self, *, app_id: str, version: int) -> bool:
        """Whether an earlier run of the application has done this write; if so, there is nothing to do.

        From here on, nobody else may record progress of this application.
        """
        with self._lock:
            self._application_ids.add(app_id)
        return already_written(self.snapshot, app_id=app_id, version=version)

    def reads(self) -> ReadSet:
        """Everything recorded so far."""
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
    ) -> ProposedCommit:
        """The commit that `actions` would make. `commitInfo`, row ids and timestamps are filled in later."""
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
    ) -> CommittedVersion:
        """Land `actions` as the next version, behind whoever came first.

        `deleted_rows` names the rows that `actions` newly hide, by the files as they were read, None for all
        rows of a file: so they can be hidden behind winners that changed other rows of the same files. A file
        that is removed and not named is taken to be rewritten, and then no winner may have touched it.
        `conflicts_with` is asked of every winner; what it answers is a conflict. With `edited_properties` the metadata
        is merged with that of winners, where the changes commute.

        Raises the exceptions of `anabranch.exceptions`, where a winner makes ours wrong, and those of
        `errors.commits`; then nothing of it is in the table, unless the error is `CommitFateUnknownError`.
        """
        proposal = self.propose(
            actions,
            deleted_rows=deleted_rows,
            metrics=metrics,
            tags=tags,
            conflicts_with=conflicts_with,
            edited_properties=edited_properties,
        )
        landed = self._commit_with_retries(proposal)
        assert landed is not None, "only bins can be left out"
        return landed

    def commit_bins(
        self,
        actions: Sequence[Action],
        bins: Sequence[Bin],
        *,
        metrics: Mapping[str, int | str] | None = None,
        tags: Mapping[str, str] | None = None,
    ) -> CommittedVersion | None:
        """Land what winners leave of a commit that changes no row; None where that is nothing.

        Every remove of `actions` is a source of one bin and every add its output; `moved_to_tags` on the
        removes let marks of winners be carried along. `dropped_bins` of the result, or all of them where it
        is None, are as they were and may be done again. Rows are never a conflict.
        """
        assert changes_no_row(actions), "bins rearrange rows and change none"
        return self._commit_with_retries(self.propose(actions, bins=bins, metrics=metrics, tags=tags))

    def _isolation_level(self, actions: Sequence[Action]) -> IsolationLevel:
        """As the table asks for; a new table's first commit by what it sets itself.

        Raises `InvalidPropertyError` where nobody knows such a level, and the commit does not give the table another.
        """
        given = next((action for action in actions if isinstance(action, Metadata)), None)
        metadata = self.metadata or given
        try:
            return TableProperties({} if metadata is None else metadata.configuration).isolation_level
        except InvalidPropertyError:
            if given is None:
                raise
            TableProperties(given.configuration).isolation_level  # noqa: B018 - raises
            return IsolationLevel.SERIALIZABLE
