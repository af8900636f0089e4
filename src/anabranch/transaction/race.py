"""A proposal, and the commits that landed since its table was read."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from anabranch.errors.conflicts import ConflictReason, DeltaConcurrentModificationException
from anabranch.predicates.expressions import Predicate
from anabranch.protocol.actions import AddFile
from anabranch.snapshot.snapshot import Snapshot
from anabranch.transaction.example_rows import rows_in_words
from anabranch.transaction.finding_rows import FindRows
from anabranch.transaction.head import Head
from anabranch.transaction.proposed_commit import ProposedCommit
from anabranch.transaction.read_set import DescribeRows, FileMask, RowsOfFile
from anabranch.transaction.vectors import Vectors
from anabranch.transaction.winners import Winner

CanMatch = Callable[[Snapshot, Predicate, Sequence[AddFile]], FileMask]
"""Which of these files may hold a row of which the predicate is true, as far as partition values and statistics
tell. Schema and partitioning are those of the snapshot. In doubt, True."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Race:
    """Everything that decides whether a proposal may stand behind those that landed first."""

    ours: ProposedCommit
    read: Head
    """The table as ours knew it."""
    head: Head
    """The table as it is; its `winners` are all commits since `read`."""
    can_match: CanMatch
    vectors: Vectors
    time_is_up: Callable[[], bool]
    """Whether telling if there is a conflict has taken longer than allowed."""
    find_rows: FindRows | None = None
    """Finds rows that a commit moved without word of where to; None where nobody can."""

    @property
    def winners(self) -> tuple[Winner, ...]:
        return self.head.winners


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
