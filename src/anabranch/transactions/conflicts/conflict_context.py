"""What conflict checks work on: a proposed commit, and the commits that landed since its version was read."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from anabranch.data_skipping import file_skipping
from anabranch.errors.commits import ConflictReason, DeltaConcurrentModificationException
from anabranch.log.file_columns import FileMask
from anabranch.predicates.expressions import Predicate
from anabranch.protocol.actions import AddFile
from anabranch.schema.column_mapping import to_physical
from anabranch.snapshot.snapshot import Snapshot
from anabranch.transactions.conflicts.latest_state import LatestState
from anabranch.transactions.conflicts.metadata_compatibility import mark_covers, moved_marks
from anabranch.transactions.conflicts.rebase_report import row_texts, values_of_rows
from anabranch.transactions.conflicts.winners import Winner
from anabranch.transactions.proposed_commit import ProposedCommit
from anabranch.transactions.read_set import DescribeRows, RowsOfFile
from anabranch.transactions.rows.deletion_vector_actions import Vectors
from anabranch.transactions.rows.located_rows import FindRows

CanMatch = Callable[[Snapshot, Predicate, Sequence[AddFile]], FileMask]
"""Returns which of these files may have a row for which the predicate is true, by partition values and statistics.
Schema and partitioning are those of the snapshot. True where it is not certain."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ConflictContext:
    """Everything that decides whether a proposal conflicts with the commits that landed first."""

    ours: ProposedCommit
    read: LatestState
    """The table at the version that ours has read."""
    latest: LatestState
    """The table at its newest version; its `winners` are all commits since `read`."""
    can_match: CanMatch
    vectors: Vectors
    time_is_up: Callable[[], bool]
    """Whether the conflict checks have taken longer than `RetryLimits.checks_ms_max`."""
    no_matches: set[tuple[object, ...]] = dataclasses.field(default_factory=set)
    """New rows that scans of ours do not select, from earlier attempts: a condition is evaluated once for a row."""
    find_rows: FindRows | None = None
    """Finds rows that a commit moved without recording their new positions; None where that is not possible."""

    @property
    def winners(self) -> tuple[Winner, ...]:
        return self.latest.winners

    @property
    def marks_of_ours(self) -> dict[str, int]:
        """The high-water marks that ours moves behind values that it has generated; none if it changes more than these.

        A statement that replaces the description, such as REPLACE, may have changed nothing else of it by chance.
        """
        before, ours = self.read.metadata, self.ours
        edits = ours.edited_properties is not None and ours.protocol is None and ours.changes_data
        return {} if before is None or ours.metadata is None or not edits else moved_marks(before, ours.metadata)

    @property
    def numbers_not_covered(self) -> set[str]:
        """The identity columns whose mark was not behind the numbers of ours in each version since they were reserved.

        No writer of statements does that. But where the column was gone meanwhile, as between DROP COLUMN and RESTORE,
        or its mark went back, another commit may have generated the same numbers.
        """
        reserved = self.ours.reserved
        if reserved is None:
            return set()
        used = {name: numbers for name, numbers in self.ours.generated.items() if reserved.hold(name, numbers)}
        return {
            name
            for winner in self.winners
            if winner.version >= reserved.version and winner.metadata is not None
            for name, numbers in used.items()
            if not mark_covers(winner.metadata, name, numbers.last)
        }


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Conflict:
    """Why a proposal cannot be committed."""

    error: type[DeltaConcurrentModificationException]
    winner: Winner
    reason: ConflictReason
    where: str | None = None
    advice: str
    example_rows: tuple[RowsOfFile, ...] = ()
    """A few of the rows in conflict, chosen by `select_example_rows`, where single rows are known."""

    def as_error(
        self, *, table: str, read_version: int, describe_rows: DescribeRows | None
    ) -> DeltaConcurrentModificationException:
        """The exception to raise. The values of the example rows are read here, once."""
        example_rows = values_of_rows(self.example_rows, describe_rows)
        return self.error(
            table=table,
            version=self.winner.version,
            operation=self.winner.operation,
            read_version=read_version,
            reason=self.reason,
            where=self.where,
            example_keys=row_texts(self.example_rows, example_rows),
            example_rows=example_rows,
            advice=self.advice,
        )


def can_match(snapshot: Snapshot, predicate: Predicate, adds: Sequence[AddFile]) -> FileMask:
    """Whether `predicate`, in physical names, can be true for a row of each file, with one entry for each file.

    It is decided by partition values and statistics, under the schema of `snapshot`.
    """
    return file_skipping.added_files_to_read(
        predicate,
        adds,
        physical_schema=to_physical(snapshot.schema, snapshot.column_mapping_mode),
        partition_columns=snapshot.physical_partition_columns,
    )
