"""A proposal, and the commits that landed since its table was read."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from anabranch.data_skipping import scan_plan
from anabranch.errors.commits import ConflictReason, DeltaConcurrentModificationException
from anabranch.log.file_columns import FileMask
from anabranch.predicates.expressions import Predicate
from anabranch.protocol.actions import AddFile
from anabranch.schema.column_mapping import to_physical
from anabranch.snapshot.snapshot import Snapshot
from anabranch.transaction.conflicts.latest_state import LatestState
from anabranch.transaction.conflicts.rebase_report import rows_in_words
from anabranch.transaction.conflicts.winners import Winner
from anabranch.transaction.proposed_commit import ProposedCommit
from anabranch.transaction.read_set import DescribeRows, RowsOfFile
from anabranch.transaction.rows.row_access import FindRows, Vectors

CanMatch = Callable[[Snapshot, Predicate, Sequence[AddFile]], FileMask]
"""Which of these files may hold a row of which the predicate is true, as far as partition values and statistics
tell. Schema and partitioning are those of the snapshot. In doubt, True."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ConflictContext:
    """Everything that decides whether a proposal may stand behind those that landed first."""

    ours: ProposedCommit
    read: LatestState
    """The table as ours knew it."""
    latest: LatestState
    """The table as it is; its `winners` are all commits since `read`."""
    can_match: CanMatch
    vectors: Vectors
    time_is_up: Callable[[], bool]
    """Whether telling if there is a conflict has taken longer than allowed."""
    find_rows: FindRows | None = None
    """Finds rows that a commit moved without word of where to; None where nobody can."""

    @property
    def winners(self) -> tuple[Winner, ...]:
        return self.latest.winners


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Conflict:
    """Why a proposal cannot stand."""

    error: type[DeltaConcurrentModificationException]
    winner: Winner
    reason: ConflictReason
    where: str | None = None
    advice: str
    example_rows: tuple[RowsOfFile, ...] = ()
    """A few of the rows in conflict, as `few_rows` chooses them, where single rows are known."""

    def as_error(
        self, *, table: str, read_version: int, describe_rows: DescribeRows | None
    ) -> DeltaConcurrentModificationException:
        """What to raise. This is where rows are read for the message, once."""
        return self.error(
            table=table,
            version=self.winner.version,
            operation=self.winner.operation,
            read_version=read_version,
            reason=self.reason,
            where=self.where,
            example_keys=rows_in_words(self.example_rows, describe_rows),
            advice=self.advice,
        )


# Which files of a winner our reads might have found rows in.


def can_match(snapshot: Snapshot, predicate: Predicate, adds: Sequence[AddFile]) -> FileMask:
    """One entry a file: whether `predicate`, in physical names, can be true for a row of it.

    Judged by partition values and statistics, under the schema of `snapshot`.
    """
    return scan_plan.added_files_to_read(
        predicate,
        adds,
        physical_schema=to_physical(snapshot.schema, snapshot.column_mapping_mode),
        partition_columns=snapshot.physical_partition_columns,
    )
